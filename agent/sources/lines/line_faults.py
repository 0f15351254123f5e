"""Faults of a log's lines that make its signals wrong: their times, order and width."""

import re
from collections.abc import Iterator

from agent.sources.lines.line_parser import ParserCounts

_RAN_BACK_S = 30.0
"""Threads of a process write out of order by less than this."""
_FIRST_LINE_CHARS = 80
_DIGIT = re.compile(rb"\d")
_MIN_WIDTH, _MIN_ENDS, _END_BYTES = 60, 4, 12
"""Lines of one length by chance end alike: they are one message again."""


def find_time_faults(counts: ParserCounts) -> Iterator[str]:
    """Yield the faults of the times of a log."""
    if counts.untimed:
        yield (
            f"{counts.untimed} of {counts.events} lines have no time that is understood: the time "
            "of the file's last change stands for theirs, and durations mean nothing"
        )
    if counts.ahead:
        yield f"{counts.ahead} lines have a time more than a day ahead of the file: see --timezone"
    if counts.ran_back_s >= _RAN_BACK_S and not counts.untimed:
        yield (
            f"times run back by up to {counts.ran_back_s:.0f} s: later lines have the time of the "
            "line before; logs that stand one after the other belong into files of their own"
        )


def find_width_faults(sample: bytes) -> Iterator[str]:
    """Yield at which width the lines are cut: the longest ones have one length and many ends."""
    lines = sample.splitlines()[:-1]
    width = max(map(len, lines), default=0)
    ends = {_DIGIT.sub(b"0", line[-_END_BYTES:]) for line in lines if len(line) == width}
    if width >= _MIN_WIDTH and len(ends) >= _MIN_ENDS:
        yield f"lines are cut at {width} characters: what stood behind is lost, and may be a cause"


def read_first_line(sample: bytes) -> str:
    """Return the first line that is not empty, clipped; an empty text for an empty file."""
    first = next((line for line in sample.splitlines() if line.strip()), b"")
    return first.decode(errors="replace").strip()[:_FIRST_LINE_CHARS]
