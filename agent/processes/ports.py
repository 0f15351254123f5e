"""Free ports of the loopback interface."""

import socket

HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port of loopback that the kernel gives to no other process for the next minute.

    A connection that its server closes first leaves the port in TIME_WAIT. The kernel does not give
    such a port to a process that requests any free port. But a process that names the port may
    listen on it (SO_REUSEADDR).
    """
    with (
        socket.create_server((HOST, 0)) as server,
        socket.create_connection(server.getsockname()),
    ):
        server.accept()[0].close()
        port: int = server.getsockname()[1]
        return port
