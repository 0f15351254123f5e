"""Free ports of the loopback interface."""

import socket

HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port of loopback that the kernel gives to no other process for the next minute.

    A connection that its server closes first leaves the port in TIME_WAIT, which keeps the kernel
    from giving it to who asks for any, while who names it may listen there (SO_REUSEADDR).
    """
    with (
        socket.create_server((HOST, 0)) as server,
        socket.create_connection(server.getsockname()),
    ):
        server.accept()[0].close()
        port: int = server.getsockname()[1]
        return port
