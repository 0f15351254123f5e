"""One client's connection to one broker, from when both sides are open to their end.

Theory of operation. What is read is passed on at once; what the decoder reads of it waits until
there is time (`Backlog`).
"""

import logging
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial
from select import EPOLLIN, EPOLLOUT
from typing import Protocol

from agent.sources.proxy.decode_queue import Backlog
from agent.sources.proxy.pipe_pool import Pipes
from agent.sources.proxy.relay import ANSWERS, REQUESTS, Pump
from agent.sources.proxy.socket_endpoint import End
from agent.wire.connection import Connection
from agent.wire.proxying.frame_forwarder import Passage

Ready = Callable[[], None]

_log = logging.getLogger(__name__)


class Loop(Protocol):
    """What connections need of the loop that runs them."""

    pipes: Pipes
    counts: Counter[str]
    backlog: Backlog

    def watch(self, fd: int, mask: int, ready: Ready) -> None:
        """Call back whenever a socket is ready for what the mask says, or broken; 0: never."""

    def again(self, run: Ready) -> None:
        """Call back once, after all others had their turn."""


class Link:
    """Both sides of a connection. After `close` it does nothing more."""

    __slots__ = (
        "_answers",
        "_broker",
        "_broker_mask",
        "_broker_ready",
        "_client",
        "_client_mask",
        "_client_ready",
        "_draining",
        "_left",
        "_loop",
        "_queued",
        "_requests",
        "_waits",
        "backlog",
        "closed",
        "decoder",
        "passage",
    )

    def __init__(  # noqa: PLR0913 - one argument a part
        self,
        loop: Loop,
        client: End,
        broker: End,
        decoder: Connection,
        passage: Passage,
        left: Callable[[Ready], None],
    ) -> None:
        """Start to pass bytes.

        ``left`` is told that the broker has ended it, and calls back when the client may know.
        """
        self._loop, self._client, self._broker, self._left = loop, client, broker, left
        self.decoder, self.passage, self.backlog = decoder, passage, loop.backlog
        self._requests = Pump(client, broker, passage.requests, loop.pipes, REQUESTS)
        self._answers = Pump(broker, client, passage.answers, loop.pipes, ANSWERS)
        self._client_ready: Ready = partial(self._ready, self._requests, self._answers)
        self._broker_ready: Ready = partial(self._ready, self._answers, self._requests)
        self._client_mask = self._broker_mask = 0
        self._draining = self._queued = self._waits = self.closed = False
        self._advance()

    @property
    def moved_bytes(self) -> int:
        """What has passed, in both directions."""
        return self._requests.moved_bytes + self._answers.moved_bytes

    def drain(self) -> None:
        """Take no more requests; close as soon as those under way are answered."""
        self._draining = True
        self._advance()

    def close(self) -> None:
        """End both sides."""
        if self.closed:
            return
        self.closed = True
        for pump in (self._requests, self._answers):
            pump.close()
        for end in (self._client, self._broker):
            self._loop.watch(end.fd, 0, self._advance)
            end.close()
        self.backlog.end(self.decoder)
        self.passage.close()
        self._client_ready = self._broker_ready = _do_nothing  # else it would wait for gc

    def _advance(self) -> None:
        """Move what can be moved in both directions."""
        self._queued = False
        self._client_ready()
        self._broker_ready()  # does nothing, if the other has ended the link

    def _ready(self, reads: Pump, writes: Pump) -> None:
        """Read of a side, or write to it: whatever was waited for."""
        more = False
        try:
            waits = reads.wants_write or writes.wants_write
            if not (waits or reads.body or reads.ended or reads.held):
                more = reads.copy() and reads.run()
            elif reads.body and reads.carry():
                if reads.body and not reads.wants_write:
                    return  # nothing follows from a part of a body
            else:
                more = writes.wants_write and writes.run()
                more |= not reads.wants_write and reads.run()
        except OSError as error:  # what a peer does may end this link and nothing else
            self._fail(error)
        else:
            self._settle(more=more)

    def _fail(self, error: OSError) -> None:
        if isinstance(error, ssl.SSLError):
            self._loop.counts["tls"] += 1
            if not self._answers.moved_bytes:  # in TLS 1.3 a certificate is refused after the shake
                self._tell_refused(error)
        self._part()

    def _tell_refused(self, error: ssl.SSLError) -> None:
        server = self.decoder.server
        keys = {"side": "broker", "broker": f"{server.host}:{server.port}", "error": str(error)}
        _log.warning("proxy_handshake_failed", extra=keys)

    def _settle(self, *, more: bool) -> None:
        """Do what follows from what has passed."""
        requests, answers = self._requests, self._answers
        ends = self._draining or requests.ended or answers.ended
        if requests.ended and not self.decoder.opaque:  # nobody reads what is answered now
            self.backlog.end(self.decoder)
        if ends and self._is_over():
            self._part()
            return
        if ends or requests.wants_write or answers.wants_write or not self._waits:
            self._watch()
        if more and not self._queued:
            self._queued = True
            self._loop.again(self._advance)

    def _part(self) -> None:
        """Close, at once unless it was the broker who ended it."""
        if self._requests.ended or self._draining:
            self.close()
            return
        self._client_ready = self._broker_ready = _do_nothing
        for end in (self._client, self._broker):
            self._loop.watch(end.fd, 0, _do_nothing)
        self._left(self.close)

    def _is_over(self) -> bool:
        requests, answers = self._requests, self._answers
        if self._draining:
            requests.held = self.passage.requests.between_frames
            if self.passage.at_rest and not (requests.wants_write or answers.wants_write):
                return True
        # A broker that has ended takes no more requests. A client that has ended may still read.
        return answers.finished or (requests.finished and self.passage.at_rest)

    def _watch(self) -> None:
        requests, answers = self._requests, self._answers
        client = EPOLLIN * requests.wants_read | EPOLLOUT * answers.wants_write
        broker = EPOLLIN * answers.wants_read | EPOLLOUT * requests.wants_write
        if client != self._client_mask:
            self._client_mask = client
            self._loop.watch(self._client.fd, client, self._client_ready)
        if broker != self._broker_mask:
            self._broker_mask = broker
            self._loop.watch(self._broker.fd, broker, self._broker_ready)
        self._waits = client == broker == EPOLLIN


def _do_nothing() -> None:
    """Stand where there is nothing to be ready any more."""
