"""Lines that a terminal or a form wrapped at a fixed width, joined again.

Theory of operation. A copy from a terminal has a line end at the last column of each row. Its
longest lines then have the same length, and the lines after them have no time: they are
continuations.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from agent.sources.lines.fields.decoding import decode
from agent.sources.lines.whole_files.printed_tables import find_printed_table

Blocks = Iterator[tuple[bytes, float]]

_MIN_WIDTH = 60
_MIN_LINES = 3
_PIECES = 4_096
"""Last lines of a block that are held: the next block may continue them."""
_TIME = re.compile(rb"\d\d:\d\d|\|\d{10}\.\d{3}\|")
_HEAD_BYTES = 80
_BEGIN_BYTES = 3
"""Entries of a log begin alike: with a date, a bracket, a name, a number."""
_DIGIT = re.compile(rb"\d")
_ENTRIES_MAX_SHARE = 0.25
"""A piece may hold a time, or begin as an entry does by chance."""


@dataclass(frozen=True, slots=True)
class Wrapping:
    """The width of wrapped lines in bytes, and the first characters of entries."""

    width: int
    begins: frozenset[bytes]

    def joins(self, line: bytes, behind: bytes) -> bool:
        """Return whether the next line continues this one: an entry may be as wide by chance."""
        is_entry = _begin(behind) in self.begins and _has_time(behind)
        return len(line) == self.width and not is_entry


def find_wrapping(head: bytes) -> Wrapping | None:
    """Return the wrapping of the lines; None if they are not wrapped.

    The rows of a printed table have one width, too.
    """
    lines = head.splitlines()[:-1]
    counts = Counter(len(line) for line in lines)
    width = max(counts, default=0)
    if width < _MIN_WIDTH or counts[width] < _MIN_LINES:
        return None
    if any(len(line) == width and _is_object(line) for line in lines):
        return None
    if find_printed_table(head) is not None:
        return None
    pairs = [(line, behind) for line, behind in pairwise(lines) if len(behind) < width]
    begins = {_begin(behind) for line, behind in pairs if len(line) < width} | {_begin(lines[0])}
    behind_whole = [behind for line, behind in pairs if len(line) == width]
    entries = sum(_begin(behind) in begins or _has_time(behind) for behind in behind_whole)
    is_wrapped = entries < _ENTRIES_MAX_SHARE * len(behind_whole)
    return Wrapping(width, frozenset(begins)) if is_wrapped else None


def _begin(line: bytes) -> bytes:
    return _DIGIT.sub(b"0", line[:_BEGIN_BYTES])


def _has_time(line: bytes) -> bool:
    return _TIME.search(line, 0, _HEAD_BYTES) is not None


def _is_object(line: bytes) -> bool:
    return line.startswith(b"{") and decode(line.decode(errors="replace")) is not None


def join_wrapped(blocks: Blocks, wrapping: Wrapping) -> Blocks:
    """Yield the lines; those of the whole width are joined to their continuations."""
    carry, arrival_at = b"", 0.0
    for data, arrival_at in blocks:
        lines = (carry + data).split(b"\n")
        carry = lines.pop()
        last, least = len(lines), max(0, len(lines) - _PIECES)
        while last > least and len(lines[last - 1].rstrip(b"\r")) == wrapping.width:
            last -= 1
        carry = b"\n".join((*lines[last:], carry))
        del lines[last:]
        yield _join(lines, wrapping) + b"\n" * bool(lines), arrival_at
    yield _join(carry.split(b"\n"), wrapping), arrival_at


def _join(lines: list[bytes], wrapping: Wrapping) -> bytes:
    plain = [line.rstrip(b"\r") for line in lines]
    return b"".join(
        line if behind is None or wrapping.joins(line, behind) else line + b"\n"
        for line, behind in zip_longest(plain, plain[1:])
    )
