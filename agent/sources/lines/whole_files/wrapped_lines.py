"""Lines that a terminal, a form or a mail wrapped, joined again.

Theory of operation. A copy from a terminal has a line end at the last column of each row. Its
longest lines then have the same length, and the lines after them have no time: they are
continuations. A mail is wrapped between words: the first word of each continuation would not have
fitted into the line before it.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from agent.sources.lines.fields.decoding import decode
from agent.sources.lines.parsing.line_parser import LINE_LIMIT
from agent.sources.lines.whole_files.printed_tables import find_printed_table
from agent.sources.lines.whole_files.short_lines import shorten_lines

Blocks = Iterator[tuple[bytes, float]]

_MIN_WIDTH = 60
_MIN_LINES = 3
_PIECES = 4_096
"""Last lines of a block that are held: the next block may continue them."""
_HELD_BYTES = 8 << 20
"""Of these lines; more are no entry that was wrapped."""
_TIME = re.compile(rb"\d\d:\d\d|\|\d{10}\.\d{3}\|")
_HEAD_BYTES = 80
_BEGIN_BYTES = 3
"""Entries of a log begin alike: with a date, a bracket, a name, a number."""
_DIGIT = re.compile(rb"\d")
_WORDS_MAX_WIDTH = 160
_CONTINUED_MIN_SHARE, _MISFITS_MAX_SHARE = 0.5, 0.1
"""Of a mail's lines: continuations for each entry, and those that a person wrote."""
_WHOLE_MAX_SHARE = 0.8
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


@dataclass(frozen=True, slots=True)
class WordWrapping:
    """The width of lines that are wrapped between words, and the first characters of entries."""

    width: int
    begin: bytes

    def joins(self, line: bytes, behind: bytes) -> bool:
        """Return whether the next line continues this one."""
        return not self.is_entry(behind) and self.overflows(line, behind)

    def is_entry(self, line: bytes) -> bool:
        """Return whether a line begins as the entries of the log do."""
        return _begin(line) == self.begin and _has_time(line)

    def overflows(self, line: bytes, behind: bytes) -> bool:
        """Return whether the first word of the next line does not fit behind this one."""
        word = behind.partition(b" ")[0]
        return bool(line and word) and len(line) + len(b" ") + len(word) > self.width


def find_word_wrapping(head: bytes) -> WordWrapping | None:
    """Return the wrapping of a mail's lines; None if they are not wrapped between words."""
    lines = [line.rstrip() for line in head.splitlines()[:-1]]
    begins = Counter(_begin(line) for line in lines if _has_time(line))
    width = max((len(line) for line in lines if b" " in line), default=0)
    if not begins or not _MIN_WIDTH <= width <= _WORDS_MAX_WIDTH:
        return None
    found = WordWrapping(width, begins.most_common(1)[0][0])
    first = next(number for number, line in enumerate(lines) if found.is_entry(line))
    pairs = [pair for pair in pairwise(lines[first:]) if pair[1] and not found.is_entry(pair[1])]
    entries = sum(map(found.is_entry, lines))
    is_often = len(pairs) >= max(_MIN_LINES, entries * _CONTINUED_MIN_SHARE)
    misfits = sum(not found.overflows(*pair) for pair in pairs)
    whole = sum(len(line) == width for line, _ in pairs)  # else it is wrapped at a fixed width
    is_between_words = is_often and whole <= len(pairs) * _WHOLE_MAX_SHARE
    return found if is_between_words and misfits <= len(pairs) * _MISFITS_MAX_SHARE else None


def join_words(blocks: Blocks, wrapping: WordWrapping) -> Blocks:
    """Yield the lines; those that are wrapped between words are joined to their continuations."""
    held, arrival_at = list[bytes](), 0.0
    for data, arrival_at in shorten_lines(blocks):
        held += [line.rstrip() for line in data.removesuffix(b"\n").split(b"\n")]
        last, least = max(0, len(held) - 1), max(0, len(held) - _PIECES)
        while last > least and not wrapping.is_entry(held[last]):
            last -= 1
        if sum(map(len, held[last:])) > _HELD_BYTES:
            last = len(held)
        yield _join_words(held[:last], wrapping), arrival_at
        del held[:last]
    if held:
        yield _join_words(held, wrapping), arrival_at


def _join_words(lines: list[bytes], wrapping: WordWrapping) -> bytes:
    return b"".join(
        line + (b" " if behind is not None and wrapping.joins(line, behind) else b"\n")
        for line, behind in zip_longest(lines, lines[1:])
    )


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
        if len(carry) > _HELD_BYTES:
            last, carry = len(lines), carry.rpartition(b"\n")[2][: LINE_LIMIT + 1]
        del lines[last:]
        yield _join(lines, wrapping) + b"\n" * bool(lines), arrival_at
    yield _join(carry.split(b"\n"), wrapping), arrival_at


def _join(lines: list[bytes], wrapping: Wrapping) -> bytes:
    plain = [line.rstrip(b"\r") for line in lines]
    return b"".join(
        line if behind is None or wrapping.joins(line, behind) else line + b"\n"
        for line, behind in zip_longest(plain, plain[1:])
    )
