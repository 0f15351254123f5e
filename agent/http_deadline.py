"""HTTP connections with one deadline per request: from its first byte to the response's last.

The timeout of a socket is for each read and write. A peer that sends a byte now and then, or
``100 Continue`` without end, would block its client for ever.
"""

import socket
import time
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from typing import Any

_BLOCK_BYTES = 1 << 14
"""A TLS record: TLS writes one after the other, each with the timeout of its own."""


class TimedHttpConnection(HTTPConnection):
    """Plain HTTP; ``timeout`` holds for a whole request. Others inherit from it first."""

    timeout: float
    _end_at = float("inf")

    def connect(self) -> None:
        """Connect; a proxy on the way has to agree in time, too."""
        self._begin()
        super().connect()

    def putrequest(self, *args: Any, **options: Any) -> None:
        """Begin a request."""
        self._begin()
        super().putrequest(*args, **options)

    def send(self, data: Any) -> None:
        """Send a part of the request.

        Raises:
            TimeoutError: its time is over.

        """
        if self.sock is None:
            self.connect()
        for begin in range(0, len(data), _BLOCK_BYTES):
            self.sock.settimeout(_remaining_s(self._end_at))
            super().send(data[begin : begin + _BLOCK_BYTES])

    def response_class(  # type: ignore[override]
        self, sock: socket.socket, *args: Any, **options: Any
    ) -> HTTPResponse:
        """Return the response; reading it ends at the deadline."""
        response = HTTPResponse(sock, *args, **options)
        response.fp = BufferedReader(_TimedReader(response.fp.detach(), sock, self._end_at))
        return response

    def _begin(self) -> None:
        self._end_at = time.monotonic() + self.timeout


class TimedHttpsConnection(TimedHttpConnection, HTTPSConnection):
    """HTTP over TLS."""


class _TimedReader(RawIOBase):
    """Reads from a socket until a deadline."""

    def __init__(self, raw: RawIOBase, sock: socket.socket, end_at: float) -> None:
        self._raw, self._sock, self._end_at = raw, sock, end_at

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_remaining_s(self._end_at))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _remaining_s(end_at: float) -> float:
    """Return the time that a deadline leaves.

    Raises:
        TimeoutError: none.

    """
    left_s = end_at - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("timed out")
    return left_s
