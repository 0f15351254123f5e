"""Uvicorn's HTTP/1.1 connection, with time limits for slow peers and room for new ones.

Uvicorn waits forever for the head of a request, and for the peer to read a response. A few peers
that send a byte now and then, or read nothing, would use up all connections that the server allows,
each with a page in memory. Beyond its limit uvicorn responds 503, and a kubelet would restart the
agent. Here a new connection takes the place of an old one that does nothing: first of one without a
request, then of one between two, then of one that reads or sends too slowly.
"""

import asyncio
from typing import Any

import h11
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

HEAD_TIMEOUT_S = 10.0
RESPONSE_TIMEOUT_S = 60.0
"""Scrapers give up sooner: 10 s by default."""
GRACE_S = 0.5
"""A connection has so long to send its request before it may lose its place."""
ENDLESS = "/live"
"""Path of a response that ends with its connection only."""
FLOOD = 2
"""Above so many times the limit, the grace ends."""


class HttpConnection(H11Protocol):
    """Closes if the head is not complete, or the response is not read, in time."""

    _deadline: asyncio.TimerHandle | None = None
    _response_deadline: asyncio.TimerHandle | None = None
    began_at = 0.0
    _has_requested = False

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any]
    ) -> None:
        """Limit the connections, not the requests: uvicorn would refuse those of new ones."""
        super().__init__(config, server_state, app_state)
        self._max_connections, self.limit_concurrency = self.limit_concurrency, None
        self._application, self.app = self.app, self._respond

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self.began_at = self.loop.time()
        self._make_room()
        self._deadline = self.loop.call_later(HEAD_TIMEOUT_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head; between requests uvicorn's own limit holds."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._has_requested = True
            self._cancel_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def pause_writing(self) -> None:
        """Wait for the peer to read the response."""
        super().pause_writing()
        if self._response_deadline is None:
            abort = self.transport.abort
            self._response_deadline = self.loop.call_later(RESPONSE_TIMEOUT_S, abort)

    def resume_writing(self) -> None:
        """Continue after the peer has read; a page in pieces has one deadline for all of them."""
        if self.activity != 2 or self._is_endless:
            self._cancel_response_deadline()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse malformed bytes and close; h11 takes no second response of one request."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            if cycle.response_started:
                self.transport.close()
                return
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """Release the deadline, unless the peer has yet to read the rest."""
        if not self.flow.write_paused:
            self._cancel_response_deadline()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel both deadlines."""
        self._cancel_deadline()
        self._cancel_response_deadline()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close once the response is complete; an endless one ends now."""
        super().shutdown()
        if self.activity == 2 and self._is_endless:
            self.transport.close()

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; uvicorn would log a cancelled request with a traceback."""
        cycle = self.cycle
        try:
            await self._application(scope, receive, send)
        except asyncio.CancelledError:
            cycle.disconnected = True  # else uvicorn reports that the response is incomplete
            self.transport.abort()

    @property
    def _is_endless(self) -> bool:
        return bool(self.scope["path"] == ENDLESS)

    def _make_room(self) -> None:
        """Close old connections that do nothing, while there are too many."""
        limit = self._max_connections
        if limit is None or len(self.connections) <= limit:
            return
        is_flood = len(self.connections) > FLOOD * limit
        until = self.loop.time() - (0.0 if is_flood else GRACE_S)
        others = [each for each in self.connections if isinstance(each, HttpConnection)]
        idle = [each for each in others if each is not self and each.began_at <= until]
        idle.sort(key=lambda each: (each.activity, each.began_at))
        for each in idle[: len(self.connections) - limit]:
            self.connections.discard(each)
            each.transport.abort()

    @property
    def activity(self) -> int:
        """0: no request so far; 1: between two requests; 2: within one."""
        if not self._has_requested:
            return 0
        return 1 if self.cycle is None or self.cycle.response_complete else 2

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel_response_deadline(self) -> None:
        if self._response_deadline is not None:
            self._response_deadline.cancel()
            self._response_deadline = None
