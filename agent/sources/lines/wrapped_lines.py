"""Lines that a terminal or a form wrapped at a fixed width, joined again.

Theory of operation. A copy from a terminal has a line end at each of its last columns. Its longest
lines then have one length, and what follows each of them has no time: it is their continuation.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from agent.sources.lines.json_entry import decode

Blocks = Iterator[tuple[bytes, float]]

_MIN_WIDTH = 60
_MIN_LINES = 3
_TIME = re.compile(rb"\d\d:\d\d")
_HEAD_BYTES = 80
_BEGIN_BYTES = 3
"""Entries of a log begin alike: with a date, a bracket, a name."""


def find_width(head: bytes) -> int:
    """Return the width in bytes at which the lines are wrapped; 0 where they are not."""
    lines = head.splitlines()[:-1]
    counts = Counter(len(line) for line in lines)
    width = max(counts, default=0)
    if width < _MIN_WIDTH or counts[width] < _MIN_LINES:
        return 0
    pairs = [pair for pair in pairwise(lines) if len(pair[0]) == width]
    begins = {line[:_BEGIN_BYTES] for line, _ in pairs}
    if any(line.startswith(b"{") and decode(line.decode(errors="replace")) for line, _ in pairs):
        return 0  # whole objects
    is_wrapped = bool(pairs) and not any(
        behind[:_BEGIN_BYTES] in begins or _TIME.search(behind, 0, _HEAD_BYTES)
        for line, behind in pairs
        if len(behind) < width
    )
    return width if is_wrapped and any(len(behind) < width for _, behind in pairs) else 0


def join_wrapped(blocks: Blocks, width: int) -> Blocks:
    """Yield the lines with those of the whole width joined to what follows them."""
    carry, arrival_at = b"", 0.0
    for data, arrival_at in blocks:
        lines = (carry + data).split(b"\n")
        carry = lines.pop()
        while lines and len(lines[-1].rstrip(b"\r")) == width:
            carry = lines.pop() + b"\n" + carry
        yield _join(lines, width), arrival_at
    yield _join(carry.split(b"\n"), width, last=b""), arrival_at


def _join(lines: list[bytes], width: int, last: bytes = b"\n") -> bytes:
    joined = b"".join(
        line.rstrip(b"\r") if len(line.rstrip(b"\r")) == width else line + b"\n" for line in lines
    )
    return joined if last or not joined.endswith(b"\n") else joined[:-1]
