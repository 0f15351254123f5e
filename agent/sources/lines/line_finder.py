"""Search of a block of bytes for the lines that a dialect may read.

Theory of operation. Most lines of an application's log are not Kafka's, so a block is searched
before anything is split into lines. `ahocorasick_rs` finds the marks of all clients in one pass,
and a mark names the matchers that may read its line. That package is optional, as not every
platform has a wheel of it. Without it each expression is a pass of its own, so a stream that has
shown one family of dialects is bound to it: the expressions of the others are no longer searched.
"""

from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Protocol

from agent.sources.lines.dialect_matcher import DialectMatcher, Dialects

Matchers = tuple[DialectMatcher, ...]


FoundLine = tuple[int, int, Matchers]
"""Begin and end of a line, and the matchers that may read it, in the order in which they try."""

_ARGUMENTS = b'","arguments":['
"""Layouts such as Logback's JsonEncoder write a message's arguments apart: no text is whole."""
_SAMPLE_BYTES = 4_096
"""First bytes of a block that show such a layout."""
_AHEAD_BYTES = 4_096
"""Bytes that an expression is searched for at once, where one of its marks was found."""


class LineFinder(Protocol):
    """Search of one stream's blocks, one after the other."""

    matchers: Matchers
    """Those that may read a line that was not searched, as it continues another."""

    def choose(self, family: str | None, enabled: AbstractSet[str], *, is_merged: bool) -> None:
        """Take what the stream has shown.

        ``family`` is that of its client, ``enabled`` what dialects wait for; ``is_merged``: it
        holds several streams.
        """

    def begin(self, block: bytes, end: int) -> None:
        """Begin the search of a block up to ``end``."""

    def find_next(self, start: int) -> FoundLine | None:
        """Return the next line at or behind ``start``, the start of a line; None at the end."""


class MarkFinder:
    """Search for the marks of all families in one pass."""

    def __init__(self, marks: "MarkSearch") -> None:
        self._marks = marks
        self._block, self._end = b"", 0
        self._found: list[tuple[int, int, int]] = []
        self._next = 0
        self._chosen: dict[int, Matchers] = {}
        self._ahead: dict[DialectMatcher, int] = {}
        self._has_arguments = False
        self.choose(None, frozenset(), is_merged=False)

    def choose(self, family: str | None, enabled: AbstractSet[str], *, is_merged: bool) -> None:
        """See `LineFinder`; it is bound to no family."""
        del family, is_merged
        self.matchers = tuple(m for m in self._marks.matchers if m.is_enabled(enabled))
        self._chosen.clear()

    def begin(self, block: bytes, end: int) -> None:
        """See `LineFinder`."""
        self._block, self._end, self._next = block, end, 0
        self._ahead.clear()
        self._has_arguments = _ARGUMENTS in block[:_SAMPLE_BYTES]
        self._found = self._marks.find(block) if end else []

    def find_next(self, start: int) -> FoundLine | None:
        """See `LineFinder`."""
        found, block, shown_by = self._found, self._block, self._marks.shown_by
        number, count = self._next, len(found)
        while number < count:
            mark, at, behind = found[number]
            number += 1
            if at < start:
                continue
            if at >= self._end:
                break
            line_end = block.find(b"\n", behind)
            shown = shown_by[mark]
            while number < count and found[number][1] < line_end:
                shown |= shown_by[found[number][0]]
                number += 1
            matchers = self._chosen.get(shown)
            if matchers is None:
                matchers = self._chosen[shown] = self._marks.select(shown, self.matchers)
            line_start = block.rfind(b"\n", start, at) + 1 or start
            # a mark is a bit of a client's line, and may be a part of others
            for matcher in matchers:
                if self._is_at(matcher, line_start, line_end):
                    self._next = number
                    return line_start, line_end, matchers
        self._next = number
        return None

    def _is_at(self, matcher: DialectMatcher, start: int, end: int) -> bool:
        """Return whether a line is a client's; a search goes some lines ahead, as many follow."""
        search = matcher.search
        if search is None or self._has_arguments:
            return matcher.is_found_in(self._block, start, end)
        ahead = self._ahead.get(matcher, -1)
        if ahead < start:
            limit = self._block.find(b"\n", min(start + _AHEAD_BYTES, self._end - 1))
            match = search(self._block, start, limit)
            ahead = self._ahead[matcher] = limit if match is None else match.start()
        return ahead < end


class MarkSearch:
    """The marks of all dialects as one automaton, which all streams share."""

    def __init__(self, matchers: Matchers) -> None:
        """Build the automaton.

        Raises:
            ImportError: its package is not installed.

        """
        from ahocorasick_rs import BytesAhoCorasick, MatchKind  # noqa: PLC0415 - optional

        self.matchers = matchers
        marks = list(dict.fromkeys(mark for matcher in matchers for mark in matcher.marks))
        # leftmost matches are found by SIMD, overlapping ones are not
        automaton = BytesAhoCorasick(marks, matchkind=MatchKind.LeftmostFirst)
        self.find = automaton.find_matches_as_indexes
        self.shown_by = [
            sum(
                1 << number
                for number, matcher in enumerate(matchers)
                if any(_may_hide(mark, other) for other in matcher.marks)
            )
            for mark in marks
        ]
        """For each mark the matchers that may read its line, as bits."""

    def select(self, shown: int, wanted: Matchers) -> Matchers:
        """Return the wanted ones of the matchers in ``shown``."""
        return tuple(
            matcher
            for number, matcher in enumerate(self.matchers)
            if shown >> number & 1 and matcher in wanted
        )


def _may_hide(mark: bytes, other: bytes) -> bool:
    """Return whether ``other`` is the mark, or may stand over it and is not found then."""
    return other in mark or any(other.startswith(mark[place:]) for place in range(len(mark)))


class FamilyFinder:
    """Search for each expression of the stream's family."""

    def __init__(self, matchers: Matchers) -> None:
        self._all = matchers
        self._block, self._end = b"", 0
        self._has_arguments = False
        self.choose(None, frozenset(), is_merged=False)

    def choose(self, family: str | None, enabled: AbstractSet[str], *, is_merged: bool) -> None:
        """See `LineFinder`."""
        hosts = {host for m in self._all if m.family == family for host in m.hosts}
        families = hosts | {family or ""}
        self.matchers = tuple(
            m
            for m in self._all
            if (family is None or is_merged or m.family in families) and m.is_enabled(enabled)
        )
        self._list_finders()
        self._ahead = [-1] * len(self._finders)

    def _list_finders(self) -> None:
        found = (m.loose_finders if self._has_arguments else m.finders for m in self.matchers)
        self._finders = list(dict.fromkeys(finder for finders in found for finder in finders))

    def begin(self, block: bytes, end: int) -> None:
        """See `LineFinder`."""
        self._block, self._end = block, end
        has_arguments = _ARGUMENTS in block[:_SAMPLE_BYTES]
        if has_arguments != self._has_arguments:
            self._has_arguments = has_arguments
            self._list_finders()
        self._ahead = [-1] * len(self._finders)

    def find_next(self, start: int) -> FoundLine | None:
        """See `LineFinder`."""
        block, end, ahead = self._block, self._end, self._ahead
        if start >= end:
            return None
        for number, finder in enumerate(self._finders):
            if ahead[number] < start:
                match = finder.search(block, start, end)
                ahead[number] = end if match is None else match.start()
        first = min(ahead, default=end)
        if first == end:
            return None
        line_start = block.rfind(b"\n", start, first) + 1 or start
        return line_start, block.find(b"\n", first), self.matchers


def create_finder(dialects: Dialects) -> LineFinder:
    """Create the finder of a stream: in one pass where the package for it is installed."""
    marks = _mark_search(dialects.matchers)
    return FamilyFinder(dialects.matchers) if marks is None else MarkFinder(marks)


@lru_cache(maxsize=8)
def _mark_search(matchers: Matchers) -> MarkSearch | None:
    try:
        return MarkSearch(matchers)
    except ImportError:
        return None
