"""A queue of passed bytes for the decoder, read in idle time, so that no response waits for it.

A fault of the decoder is counted and ends the decoding of that connection. It has no other effect,
because frames and addresses are read by other code.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial

from agent.wire.connection import ConnectionClosed, ConnectionDecoder, Event
from agent.wire.decoder_errors import record_fault

_PIECES_MAX = 64
"""Each is one read of a socket: a MiB in all."""
_WAIT_S = 0.01
"""The oldest piece waits no longer."""

Read = Callable[[ConnectionDecoder, bytes, float], Iterable[Event]]
"""A method of the decoder's, not bound: one of all connections."""
Take = Callable[[bytes], None]


class DecodeQueue:
    """Pieces of all connections, in the order of their passing."""

    def __init__(self, take: Callable[[Event], None], counts: Counter[str]) -> None:
        """Give decoded events to ``take``; it is called within `drain` and `end`."""
        self._handle, self._counts = take, counts
        self.pieces: deque[tuple[ConnectionDecoder, Read, bytes, float]] = deque()
        """For a look at its length; each is a decoder, its method, the bytes, and their time."""

    @property
    def is_due(self) -> bool:
        """Whether it must be read now, even if the loop is not idle; it must not be empty."""
        pieces = self.pieces
        return len(pieces) >= _PIECES_MAX or time.time() - pieces[0][-1] > _WAIT_S

    def add(self, decoder: ConnectionDecoder, read: Read, data: bytes) -> None:
        """Have ``read`` called with the decoder and the data."""
        self.pieces.append((decoder, read, data, time.time()))

    def bind(self, decoder: ConnectionDecoder) -> tuple[Take, Take]:
        """Return two functions: for the bytes of a connection's client, and of its broker."""
        add = self.add
        return partial(add, decoder, ConnectionDecoder.feed_client), partial(
            add, decoder, ConnectionDecoder.feed_broker
        )

    def drain(self) -> None:
        """Decode everything."""
        while self.pieces:
            decoder, read, data, at = self.pieces.popleft()
            if not decoder.opaque:
                self._decode(decoder, read, data, at)

    def end(self, decoder: ConnectionDecoder, *, by_client: bool) -> None:
        """Decode everything, then the end of a connection: nothing more of it is decoded."""
        self.drain()

        def close(decoder: ConnectionDecoder, _: bytes, at: float) -> list[Event]:
            return [ConnectionClosed(decoder, at, by_client=by_client)]

        self._decode(decoder, close, b"", time.time())
        decoder.close()

    def _decode(self, decoder: ConnectionDecoder, read: Read, data: bytes, at: float) -> None:
        try:
            for event in read(decoder, data, at):
                self._handle(event)
        except Exception:  # noqa: BLE001 - one peer's bytes must not end all traffic
            record_fault(decoder, self._counts)
