"""One client's connection to one broker, from when both sides are open to their end.

Theory of operation. What is read is passed on, and only then decoded. A fault of the decoder ends
the decoding of this connection, is counted, and nothing else: frames and addresses are read apart.
"""

import logging
import ssl
import time
from collections import Counter
from collections.abc import Callable
from select import EPOLLIN, EPOLLOUT
from typing import Protocol

from agent.sources.proxy_ends import End
from agent.sources.proxy_pump import SPLICE_MIN_BYTES, Pipes, Pump
from agent.wire.connection import Closed, Connection, Event
from agent.wire.passage import Passage

Ready = Callable[[], None]

_log = logging.getLogger(__name__)


class Loop(Protocol):
    """What connections need of the loop that runs them."""

    pipes: Pipes
    counts: Counter[str]

    def watch(self, fd: int, mask: int, ready: Ready) -> None:
        """Call back whenever a socket is ready for what the mask says, or broken; 0: never."""

    def again(self, run: Ready) -> None:
        """Call back once, after all others had their turn."""

    def take(self, event: Event) -> None:
        """Take what the decoder has read."""


class Flow:
    """One direction's bytes: through the passage at once, to the decoder when they have passed."""

    __slots__ = ("_cutter", "_decode", "_lose", "_pass_on", "_unwanted", "unread")

    def __init__(self, link: "Link", *, of_client: bool) -> None:
        decoder, passage = link.decoder, link.passage
        self.unread: list[bytes] = []
        self._decode = link.decode
        self._pass_on = passage.sent if of_client else passage.received
        self._cutter = passage.requests if of_client else passage.answers
        self._lose = decoder.lose_sent if of_client else decoder.lose_received
        self._unwanted = decoder.unwanted_sent if of_client else decoder.unwanted_received

    def copied(self, data: bytes) -> bytes:
        self.unread.append(data)
        return self._pass_on(data)

    def spliceable(self) -> int:
        if self._cutter.skip < SPLICE_MIN_BYTES:
            return 0
        self._decode()
        unwanted = self._unwanted()
        return self._cutter.skip if unwanted is None else min(self._cutter.skip, unwanted)

    def spliced(self, size: int) -> None:
        self._cutter.skip -= size
        self._lose(size)


class Link:
    """Both sides of a connection. After `close` it does nothing more."""

    def __init__(
        self, loop: Loop, client: End, broker: End, decoder: Connection, passage: Passage
    ) -> None:
        """Start to pass bytes."""
        self._loop, self._client, self._broker = loop, client, broker
        self.decoder, self.passage = decoder, passage
        self._sent, self._received = Flow(self, of_client=True), Flow(self, of_client=False)
        self._requests = Pump(client, broker, self._sent, loop.pipes)
        self._answers = Pump(broker, client, self._received, loop.pipes)
        self._masks = {client.fd: 0, broker.fd: 0}
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
        self.decode()
        for pump in (self._requests, self._answers):
            pump.close()
        for end in (self._client, self._broker):
            self._loop.watch(end.fd, 0, self._advance)
            end.close()
        self._safely(lambda: self._loop.take(Closed(self.decoder, time.time())))

    def decode(self) -> None:
        """Read what has passed since the last time."""
        sent, received = self._sent.unread, self._received.unread
        if not (sent or received):
            return
        self._sent.unread, self._received.unread = [], []
        if not self.decoder.opaque:
            self._safely(lambda: self._read(sent, received))

    def _advance(self) -> None:
        """Move what can be moved in both directions."""
        self._queued = False
        self._run(self._requests, self._answers)

    def _client_ready(self) -> None:
        """Read of the client, or write to it: whatever was waited for."""
        self._turn(self._requests, self._answers)

    def _broker_ready(self) -> None:
        self._turn(self._answers, self._requests)

    def _turn(self, reads: Pump, writes: Pump) -> None:
        if writes.wants_write:
            self._run(writes)
        if reads.wants_read:
            self._run(reads)

    def _run(self, *pumps: Pump) -> None:
        """Run pumps; what a peer does may end this link and nothing else."""
        if self.closed:
            return
        more = False
        try:
            for pump in pumps:
                more |= pump.run()
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                self._tell(error)
            self.close()
            return
        self.decode()
        if self._is_over():
            self.close()
            return
        self._watch()
        if more and not self._queued:
            self._queued = True
            self._loop.again(self._advance)

    def _read(self, sent: list[bytes], received: list[bytes]) -> None:
        at = time.time()
        for data in sent:
            for request in self.decoder.sent(data, at):
                self._loop.take(request)
        for data in received:
            for answer in self.decoder.received(data, at):
                self._loop.take(answer)

    def _safely(self, read: Callable[[], None]) -> None:
        """Decode; a bug there must not reach the client."""
        try:
            read()
        except Exception:  # noqa: BLE001 - what a peer sends must not end all traffic
            _log.exception("decoder_fault", extra={"client_id": self.decoder.client_id})
            self._loop.counts["decoder_fault"] += 1
            self.decoder.opaque = True

    def _tell(self, error: ssl.SSLError) -> None:
        """Count it; in TLS 1.3 a broker refuses our certificate after the handshake."""
        self._loop.counts["tls"] += 1
        if not self._answers.moved_bytes:
            server = self.decoder.server
            keys = {"side": "broker", "broker": f"{server.host}:{server.port}", "error": str(error)}
            _log.warning("proxy_handshake_failed", extra=keys)

    def _is_over(self) -> bool:
        requests, answers, at_rest = self._requests, self._answers, self.passage.at_rest
        if self._draining:
            requests.held = self.passage.requests.between_frames
            if at_rest and not (requests.wants_write or answers.wants_write):
                return True
        # A broker that has ended takes no more requests. A client that has ended may still read.
        return answers.finished or (requests.finished and at_rest)

    def _watch(self) -> None:
        requests, answers = self._requests, self._answers
        for end, reads, writes, ready in (
            (self._client, requests, answers, self._client_ready),
            (self._broker, answers, requests, self._broker_ready),
        ):
            mask = EPOLLIN * reads.wants_read | EPOLLOUT * writes.wants_write
            if mask != self._masks[end.fd]:
                self._masks[end.fd] = mask
                self._loop.watch(end.fd, mask, ready)
