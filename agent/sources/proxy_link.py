"""One client's connection to one broker, from when both sides are open to their end.

Theory of operation. What is read is passed on at once, and decoded later (`Backlog`), but for what
stands before an opaque body: whether nobody wants that, the decoder tells.
"""

import logging
import ssl
from collections import Counter
from collections.abc import Callable
from select import EPOLLIN, EPOLLOUT
from typing import NamedTuple, Protocol

from agent.sources.proxy_backlog import Backlog, Read
from agent.sources.proxy_ends import End
from agent.sources.proxy_pump import ANSWERS, REQUESTS, SPLICE_MIN_BYTES, Pipes, Pump
from agent.wire.connection import Connection
from agent.wire.passage import ENDLESS, FRAME_BYTES_MAX, Passage

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


class Side(NamedTuple):
    """What a connection's decoder and passage call one direction."""

    read: Read
    pass_on: Callable[[Passage, bytes], bytes]
    unwanted: Callable[[Connection], int | None]
    lose: Callable[[Connection, int], None]


ASKS = Side(Connection.sent, Passage.sent, Connection.unwanted_sent, Connection.lose_sent)
TELLS = Side(
    Connection.received, Passage.received, Connection.unwanted_received, Connection.lose_received
)


class Flow:
    """One direction's bytes: through the passage at once, to the decoder when they have passed."""

    __slots__ = ("_backlog", "_cutter", "_decoder", "_passage", "_side")

    def __init__(self, link: "Link", side: Side) -> None:
        self._backlog, self._decoder, self._passage = link.backlog, link.decoder, link.passage
        self._cutter = self._passage.requests if side is ASKS else self._passage.answers
        self._side = side

    def pass_on(self, data: bytes) -> bytes:
        return self._side.pass_on(self._passage, data)

    def note(self, data: bytes) -> None:
        self._backlog.add(self._decoder, self._side.read, data)

    def opaque(self) -> int:
        skip = self._cutter.skip
        if skip < SPLICE_MIN_BYTES:
            return 0
        if skip > FRAME_BYTES_MAX:
            return ENDLESS  # a tunnel: the decoder has given up as well
        self._backlog.read()
        unwanted = self._side.unwanted(self._decoder)
        size = skip if unwanted is None else min(skip, unwanted)
        return size if size >= SPLICE_MIN_BYTES else 0

    def carried(self, size: int) -> None:
        self._cutter.skip -= size
        self._side.lose(self._decoder, size)


class Link:
    """Both sides of a connection. After `close` it does nothing more."""

    __slots__ = (
        "_answers",
        "_broker",
        "_broker_mask",
        "_client",
        "_client_mask",
        "_draining",
        "_loop",
        "_queued",
        "_requests",
        "backlog",
        "closed",
        "decoder",
        "passage",
    )

    def __init__(
        self, loop: Loop, client: End, broker: End, decoder: Connection, passage: Passage
    ) -> None:
        """Start to pass bytes."""
        self._loop, self._client, self._broker = loop, client, broker
        self.decoder, self.passage, self.backlog = decoder, passage, loop.backlog
        self._requests = Pump(client, broker, Flow(self, ASKS), loop.pipes, REQUESTS)
        self._answers = Pump(broker, client, Flow(self, TELLS), loop.pipes, ANSWERS)
        self._client_mask = self._broker_mask = 0
        self._draining = self._queued = self.closed = False
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
        self.backlog.close(self.decoder)

    def _advance(self) -> None:
        """Move what can be moved in both directions."""
        self._queued = False
        for ready in (self._client_ready, self._broker_ready):
            if not self.closed:
                ready()

    def _client_ready(self) -> None:
        self._ready(self._requests, self._answers)

    def _broker_ready(self) -> None:
        self._ready(self._answers, self._requests)

    def _ready(self, reads: Pump, writes: Pump) -> None:
        """Read of a side, or write to it: whatever was waited for."""
        more = False
        try:
            if reads.carry():
                if reads.in_body:
                    return  # nothing follows from a part of a body
            else:
                more = writes.wants_write and writes.run()
                more |= reads.wants_read and reads.run()
        except OSError as error:  # what a peer does may end this link and nothing else
            self._fail(error)
        else:
            self._settle(more=more)

    def _fail(self, error: OSError) -> None:
        if isinstance(error, ssl.SSLError):
            self._loop.counts["tls"] += 1
            if not self._answers.moved_bytes:  # in TLS 1.3 a certificate is refused after the shake
                self._tell_refused(error)
        self.close()

    def _tell_refused(self, error: ssl.SSLError) -> None:
        server = self.decoder.server
        keys = {"side": "broker", "broker": f"{server.host}:{server.port}", "error": str(error)}
        _log.warning("proxy_handshake_failed", extra=keys)

    def _settle(self, *, more: bool) -> None:
        """Do what follows from what has passed."""
        if self._is_over():
            self.close()
            return
        self._watch()
        if more and not self._queued:
            self._queued = True
            self._loop.again(self._advance)

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
