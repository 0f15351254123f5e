"""Uvicorn's HTTP/1.1 connection, with time limits for slow peers.

Uvicorn waits forever for the head of a request, and for the peer to read a response. A few peers
that send a byte now and then, or read nothing, would use up all connections that the server allows,
each with a page in memory.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_TIMEOUT_S = 10.0
RESPONSE_TIMEOUT_S = 60.0
"""Scrapers give up sooner: 10 s by default."""


class HttpConnection(H11Protocol):
    """Closes if the head is not complete, or the response is not read, in time."""

    _deadline: asyncio.TimerHandle | None = None
    _response_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_TIMEOUT_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head; between requests uvicorn's own limit holds."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def pause_writing(self) -> None:
        """Wait for the peer to read the response."""
        super().pause_writing()
        self._response_deadline = self.loop.call_later(RESPONSE_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Continue after the peer has read."""
        self._cancel_response_deadline()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel both deadlines."""
        self._cancel_deadline()
        self._cancel_response_deadline()
        super().connection_lost(exc)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel_response_deadline(self) -> None:
        if self._response_deadline is not None:
            self._response_deadline.cancel()
            self._response_deadline = None
