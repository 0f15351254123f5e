"""One side of a proxied connection: a non-blocking socket, plain or under TLS."""

import socket
import ssl
from functools import partial
from typing import Protocol

CHUNK_BYTES = 16 << 10
"""Size of a read at frame starts; longer bodies are spliced."""
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))
"""A vanished peer is noticed after two minutes; one that owes an acknowledgement after the kernel's
retransmissions, some 15 minutes (net.ipv4.tcp_retries2)."""
_WANTS = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Endpoint(Protocol):
    """One end of a `Relay`. Methods raise OSError for the peer's faults."""

    fd: int
    can_splice: bool
    more_bytes: int
    """A piece so long may have left something behind."""

    def handshake(self) -> bool:
        """Continue the handshake; return whether it is complete."""

    def recv(self) -> bytes:
        """Return the available bytes, ``b""`` at the end; raise BlockingIOError without any."""

    def recv_into(self, buffer: memoryview) -> int:
        """Do as `recv`, into a buffer; return the size."""

    def send(self, data: bytes | memoryview) -> int:
        """Return how many bytes were taken; raise BlockingIOError if none."""

    def await_bytes(self, size: int) -> None:
        """Set the number of bytes from which the socket is readable; its end is always readable."""

    def finish(self) -> None:
        """Shut down the sending side."""

    def close(self) -> None:
        """Close the socket."""


def tune(sock: socket.socket) -> None:
    """Set up a socket for a proxy: non-blocking, no delay, and aware of vanished peers."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


class PlainEndpoint:
    """A socket as it is."""

    __slots__ = ("_awaited", "_socket", "fd", "recv", "recv_into", "send")
    can_splice, more_bytes = True, CHUNK_BYTES

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._awaited = 1
        self.fd = sock.fileno()
        self.recv = partial(sock.recv, CHUNK_BYTES)
        self.recv_into, self.send = sock.recv_into, sock.send

    def handshake(self) -> bool:
        return True

    def await_bytes(self, size: int) -> None:
        if size != self._awaited:
            self._awaited = size
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def finish(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


class TlsEndpoint:
    """A socket under TLS."""

    __slots__ = ("_socket", "fd")
    can_splice, more_bytes = False, 1  # the next record may have been read with this one

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, server_hostname: str | None = None
    ) -> None:
        """Be the server, or with ``server_hostname`` its client."""
        self._socket = context.wrap_socket(
            sock,
            server_side=server_hostname is None,
            server_hostname=server_hostname,
            do_handshake_on_connect=False,
            suppress_ragged_eofs=True,
        )
        self.fd = self._socket.fileno()

    def handshake(self) -> bool:
        try:
            self._socket.do_handshake()
        except _WANTS:
            return False
        return True

    def recv(self) -> bytes:
        try:
            return self._socket.recv(CHUNK_BYTES)
        except _WANTS as error:
            raise BlockingIOError from error

    def recv_into(self, buffer: memoryview) -> int:
        """Gather records, for one write of many to the other side."""
        got = 0
        try:
            while got < len(buffer) and (size := self._socket.recv_into(buffer[got:])):
                got += size
        except _WANTS as error:
            if not got:
                raise BlockingIOError from error
        return got

    def send(self, data: bytes | memoryview) -> int:
        try:
            return self._socket.send(data)
        except _WANTS as error:
            raise BlockingIOError from error

    def await_bytes(self, size: int) -> None:
        """Do nothing: records arrive whole."""

    def finish(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()
