"""A client's proxied connection to one broker, from the open sockets on both sides to their end.

Theory of operation. Bytes pass on at once; the decoder's share waits for idle time
(`DecodeQueue`).
"""

import logging
import select
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial
from select import EPOLLIN, EPOLLOUT
from typing import Protocol

from agent.sources.proxy.decode_queue import DecodeQueue
from agent.sources.proxy.pipe_pool import PipePool
from agent.sources.proxy.relay import REQUESTS, RESPONSES, Relay
from agent.sources.proxy.socket_endpoint import Endpoint
from agent.wire.connection import ConnectionDecoder
from agent.wire.proxying.frame_forwarder import FrameForwarder

Ready = Callable[[], None]

_log = logging.getLogger(__name__)


class EventLoop(Protocol):
    """The part of the loop that connections need."""

    pipes: PipePool
    counts: Counter[str]
    decode_queue: DecodeQueue

    def watch(self, fd: int, mask: int, ready: Ready) -> None:
        """Call back whenever a socket is ready for the mask's events, or broken; 0: never."""

    def call_soon(self, run: Ready) -> None:
        """Call back once, after all others had their turn."""


class ProxiedConnection:
    """Both sides of a connection. After `close` it does nothing more."""

    __slots__ = (
        "_broker",
        "_broker_closed",
        "_broker_mask",
        "_broker_ready",
        "_client",
        "_client_mask",
        "_client_ready",
        "_draining",
        "_loop",
        "_queued",
        "_requests",
        "_responses",
        "_waits",
        "closed",
        "decode_queue",
        "decoder",
        "forwarder",
    )

    def __init__(  # noqa: PLR0913 - one argument a part
        self,
        loop: EventLoop,
        client: Endpoint,
        broker: Endpoint,
        decoder: ConnectionDecoder,
        forwarder: FrameForwarder,
        left: Callable[[Ready], None],
    ) -> None:
        """Start to pass bytes.

        ``broker_closed`` is called at the broker's end, and calls back when the client may see it.
        """
        self._loop, self._client, self._broker, self._broker_closed = loop, client, broker, left
        self.decoder, self.forwarder, self.decode_queue = decoder, forwarder, loop.decode_queue
        self._requests = Relay(client, broker, forwarder.requests, loop.pipes, REQUESTS)
        self._responses = Relay(broker, client, forwarder.responses, loop.pipes, RESPONSES)
        self._client_ready: Ready = partial(self._ready, self._requests, self._responses)
        self._broker_ready: Ready = partial(self._ready, self._responses, self._requests)
        self._client_mask = self._broker_mask = 0
        self._draining = self._queued = self._waits = self.closed = False
        self._advance()

    @property
    def total_bytes(self) -> int:
        """Bytes that have passed, in both directions."""
        return self._requests.total_bytes + self._responses.total_bytes

    def drain(self) -> None:
        """Take no more requests; close as soon as those under way have their responses."""
        self._draining = True
        self._advance()

    def close(self) -> None:
        """End both sides."""
        if self.closed:
            return
        self.closed = True
        by_client = self._requests.ended or _has_ended(self._client.fd)
        for relay in (self._requests, self._responses):
            relay.close()
        for endpoint in (self._client, self._broker):
            self._loop.watch(endpoint.fd, 0, self._advance)
            endpoint.close()
        self.decode_queue.end(self.decoder, by_client=by_client)
        self.forwarder.close()
        self._client_ready = self._broker_ready = _do_nothing  # else it would wait for gc

    def _advance(self) -> None:
        """Move the available bytes in both directions."""
        self._queued = False
        self._client_ready()
        self._broker_ready()  # does nothing, if the other has ended the link

    def _ready(self, reads: Relay, writes: Relay) -> None:
        """Read of a side, or write to it: whatever was waited for."""
        more = False
        try:
            waits = reads.wants_write or writes.wants_write
            if not (waits or reads.body or reads.ended or reads.is_paused):
                more = reads.copy() and reads.run()
            elif reads.body and reads.splice():
                if reads.body and not reads.wants_write:
                    return  # nothing follows from a part of a body
            else:
                more = writes.wants_write and writes.run()
                more |= not reads.wants_write and reads.run()
        except OSError as error:  # a peer's fault may end this connection and nothing else
            self._fail(error)
        else:
            self._update(more=more)

    def _fail(self, error: OSError) -> None:
        if isinstance(error, ssl.SSLError):
            self._loop.counts["tls"] += 1
            if (
                not self._responses.total_bytes
            ):  # in TLS 1.3 a certificate is refused after the shake
                self._warn_refused(error)
        self._end()

    def _warn_refused(self, error: ssl.SSLError) -> None:
        server = self.decoder.server
        keys = {"side": "broker", "broker": f"{server.host}:{server.port}", "error": str(error)}
        _log.warning("proxy_handshake_failed", extra=keys)

    def _update(self, *, more: bool) -> None:
        """Act on the state after a move."""
        requests, responses = self._requests, self._responses
        ends = self._draining or requests.ended or responses.ended
        if requests.ended and not self.decoder.opaque:  # no client reads the later responses
            self.decode_queue.end(self.decoder, by_client=True)
        if ends and self._is_over():
            self._end()
            return
        if ends or requests.wants_write or responses.wants_write or not self._waits:
            self._watch()
        if more and not self._queued:
            self._queued = True
            self._loop.call_soon(self._advance)

    def _end(self) -> None:
        """Close; after the broker's end only once its listener has checked it."""
        if self._requests.ended or self._draining:
            self.close()
            return
        self._client_ready = self._broker_ready = _do_nothing
        for endpoint in (self._client, self._broker):
            self._loop.watch(endpoint.fd, 0, _do_nothing)
        self._broker_closed(self.close)

    def _is_over(self) -> bool:
        requests, responses = self._requests, self._responses
        if self._draining:
            requests.is_paused = self.forwarder.requests.is_between_frames
            if self.forwarder.is_idle and not (requests.wants_write or responses.wants_write):
                return True
        # A broker that has ended takes no more requests. A client that has ended may still read.
        return responses.finished or (requests.finished and self.forwarder.is_idle)

    def _watch(self) -> None:
        requests, responses = self._requests, self._responses
        client = EPOLLIN * requests.wants_read | EPOLLOUT * responses.wants_write
        broker = EPOLLIN * responses.wants_read | EPOLLOUT * requests.wants_write
        if client != self._client_mask:
            self._client_mask = client
            self._loop.watch(self._client.fd, client, self._client_ready)
        if broker != self._broker_mask:
            self._broker_mask = broker
            self._loop.watch(self._broker.fd, broker, self._broker_ready)
        self._waits = client == broker == EPOLLIN


def _do_nothing() -> None:
    """Do nothing: a placeholder for callbacks after the end."""


def _has_ended(fd: int) -> bool:
    """Check that a socket's peer has ended or reset the connection."""
    poll = select.poll()
    poll.register(fd, _ENDS)
    return bool(poll.poll(0))


_ENDS = select.POLLRDHUP | select.POLLHUP | select.POLLERR
