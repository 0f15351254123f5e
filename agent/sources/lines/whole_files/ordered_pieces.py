"""Entries of a text or a document in the order of time, in bounded memory.

Theory of operation. Entries are ordered in pieces of some megabytes. Of a log in order, each piece
follows as it is. Of a log with its newest entry first, the pieces are packed and kept until its
end, in memory or in a temporary file, and the last piece follows first.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import Self

from agent.sources.lines.envelopes.line_order import LineOrder
from agent.sources.lines.envelopes.tied_order import (
    Entry,
    cut_entries,
    find_direction,
    has_ties,
    order_entries,
)

Note = Callable[[str], None]
"""Takes a sentence for the user."""

UNKNOWN_ORDER = (
    "entries of one second in an order that they do not show: if the log was exported with its "
    "newest entry first, causes and ends may be inverted; export it with the oldest first, or with "
    "milliseconds"
)
TOO_LONG = (
    "newest entry first, and too long to be reversed at once: its newest part is read first, so "
    "causes and ends may be missing; export it with the oldest first, or in parts"
)
PIECE_BYTES = 16 << 20
"""Entries that are ordered together, in memory."""
BLOCK_BYTES = 1 << 20
"""Lines that are passed on together."""
_PACKED_IN_MEMORY = 16 << 20
_PACKED_MAX_BYTES = 1 << 30
"""Longest newest-first log, packed; of a longer one, parts are reversed."""
_FASTEST = 1


def join_lines(lines: Iterable[bytes], end: bytes = b"") -> Iterator[bytes]:
    """Yield blocks of whole lines; ``end`` is written behind each."""
    some, size = list[bytes](), 0
    for line in lines:
        some.append(line)
        size += len(line)
        if size >= BLOCK_BYTES:
            yield end.join((*some, b""))
            some, size = [], 0
    if some:
        yield end.join((*some, b""))


def order_pieces(
    entries: Iterable[Entry], order: LineOrder, note: Note, *, is_noted: bool = False
) -> Iterator[bytes]:
    """Yield blocks of lines with the oldest entry first; the entries' lines have no ends.

    ``is_noted``: `note_order` was called for them.

    Raises:
        OSError: no room for a temporary file.

    """
    pieces = cut_entries(entries, PIECE_BYTES)
    first = next(pieces, [])
    if order.has_ties and not is_noted:
        note_order(first, order, note)
    direction = find_direction(first)

    def join(piece: list[Entry]) -> Iterator[bytes]:
        found = order_entries(piece, is_backward=order.is_backward, direction=direction)
        return join_lines((line for _, lines in found for line in lines), b"\n")

    blocks = map(join, chain((first,), pieces))
    yield from _reverse(blocks, note) if order.is_backward else chain.from_iterable(blocks)


def _reverse(pieces: Iterator[Iterator[bytes]], note: Note) -> Iterator[bytes]:
    """Yield the blocks of the last piece first; of a very long log, those of each of its parts."""
    with _Packed() as packed:
        last = next(pieces)
        for piece in pieces:
            packed.add(last)
            last = piece
            if packed.size > _PACKED_MAX_BYTES:
                note(TOO_LONG)
                yield from packed.take()
        yield from last
        yield from packed.take()


def note_order(entries: list[Entry], order: LineOrder, note: Note) -> None:
    """Note that nothing shows the order of entries of one time, where it is in doubt.

    That is a log of one time, and one with its newest entry first: a store that sorts by time may
    return entries of one time in either order.
    """
    is_in_doubt = order.is_backward or order.is_moment
    if is_in_doubt and has_ties(entries) and not find_direction(entries):
        note(UNKNOWN_ORDER)


Place = tuple[int, int]
"""Begin and size of a packed block in bytes."""


class _Packed:
    """Pieces of a log, packed, in the order in which they came."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_PACKED_IN_MEMORY)  # noqa: SIM115 - closed by __exit__
        self.places: list[list[Place]] = []
        self.size = 0
        """Bytes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, blocks: Iterator[bytes]) -> None:
        """Keep a piece: its blocks follow each other."""
        places: list[Place] = []
        for block in blocks:
            packed = zlib.compress(block, _FASTEST)
            self._file.write(packed)
            places.append((self.size, len(packed)))
            self.size += len(packed)
        self.places.append(places)

    def take(self) -> Iterator[bytes]:
        """Yield the blocks, those of the last piece first, and forget them."""
        for begin, size in (place for piece in self.places[::-1] for place in piece):
            self._file.seek(begin)
            yield zlib.decompress(self._file.read(size))
        self.places.clear()
        self.size = self._file.seek(0)
        self._file.truncate()
