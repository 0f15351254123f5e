"""Search of a block of bytes for the lines that a dialect may read.

Theory of operation. Most lines of an application's log are not Kafka's, so a block is searched
before it is split into lines. `ahocorasick_rs` finds the marks of all clients in one pass, and a
mark names the matchers that may read its line. That package is optional, because not every platform
has a wheel of it. Without it, each expression needs a separate pass. So once a stream has shown one
family of dialects, only the expressions of that family are searched.
"""

import re
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Protocol

from agent.sources.lines.dialects.dialect_matcher import DialectMatcher, Dialects
from agent.sources.lines.dialects.mark_order import order_marks
from agent.sources.lines.dialects.repeated_lines import FoundAgain, Matchers, RepeatedLines

FoundLine = tuple[int, int, Matchers, FoundAgain | None]
"""Begin and end of a line, the matchers that may read it, in the order of their attempts, and the
line that it repeats."""

_LOOSE = (b'","arguments":[', b"essage>")
"""Layouts such as Logback's JsonEncoder write a message's arguments apart, and XML writes quotes as
entities: no text is whole."""
_SAMPLE_BYTES = 4_096
"""First bytes of a block that show such a layout."""
_AHEAD_BYTES = 4_096
"""Bytes in one search for an expression, after one of its marks was found."""
_PIECE_MIN_BYTES = 4_096
"""Runtimes cut lines at 16 KiB, and at no less than this."""
_CRI_PIECE = re.compile(rb"T\S{8,32} std(?:out|err) P(?::\S{0,64})? ")
_LOG, _STREAM, _WHOLE = b'"log":"', b'","stream":"', b'\\n","stream":"'
_EDGE_BYTES = 1_024
"""Begin and end of a long line, which show a runtime's format."""


class LineFinder(Protocol):
    """Search of one stream's blocks, one after the other."""

    matchers: Matchers
    """Those that may read a line that was not searched, as it continues another."""

    def choose(self, family: str | None, enabled: AbstractSet[str], *, is_merged: bool) -> None:
        """Limit the search to the dialects of the families that the stream has shown.

        ``family`` is the client's. ``enabled`` are the ``anchor_after`` texts that were seen: they
        enable dialects. ``is_merged``: the file holds several streams.
        """

    def begin(self, block: bytes, end: int, known: RepeatedLines | None = None) -> None:
        """Begin the search of a block up to ``end``."""

    def shows(self, sample: bytes) -> bool:
        """Return whether bytes, of any place, have a part that is searched for."""

    def find_next(self, start: int) -> FoundLine | None:
        """Return the next line from ``start`` on; None at the end.

        ``start`` is the begin of a line that repeats no earlier one.
        """


class MarkFinder:
    """Search for the marks of all families in one pass."""

    def __init__(self, marks: "MarkSearch") -> None:
        self._marks = marks
        self._known: RepeatedLines | None = None
        self._block, self._end = b"", 0
        self._found: list[tuple[int, int, int]] = []
        self._next = 0
        self._chosen: dict[int, Matchers] = {}
        self._quiet_to: list[int] = []
        """For each mark a place: no line with the mark before it is a client's."""
        self._ahead: dict[DialectMatcher, int] = {}
        self._is_loose = False
        self._limit = -1
        self.choose(None, frozenset(), is_merged=False)

    def choose(self, family: str | None, enabled: AbstractSet[str], *, is_merged: bool) -> None:
        """See `LineFinder`; it is bound to no family."""
        del family, is_merged
        self.matchers = tuple(m for m in self._marks.matchers if m.is_enabled(enabled))
        self._chosen.clear()
        self._set_headed()

    def _set_headed(self) -> None:
        headed = self._marks.find_headed(self.matchers)
        self._headed = [()] * len(headed) if self._is_loose else headed
        self._quiet_to = [-1] * len(headed)

    def begin(self, block: bytes, end: int, known: RepeatedLines | None = None) -> None:
        """See `LineFinder`."""
        self._block, self._end, self._next, self._known = block, end, 0, known
        if not end:  # at rest, as thousands of streams are
            self._found, self._quiet_to = [], []
            return
        self._ahead.clear()
        self._limit = -1
        self._found = self._marks.find(block)
        is_loose = _has_loose_texts(block)
        if is_loose != self._is_loose:
            self._is_loose = is_loose
            self._set_headed()
        self._quiet_to = [-1] * len(self._headed)

    def shows(self, sample: bytes) -> bool:
        """See `LineFinder`."""
        return bool(self._marks.find(sample))

    def find_next(self, start: int) -> FoundLine | None:
        """See `LineFinder`."""
        found, block, quiet_to = self._found, self._block, self._quiet_to
        for number in range(self._next, len(found)):
            mark, at, behind = found[number]
            if at < start or quiet_to[mark] > at:
                continue
            if at >= self._end:
                break
            line_start = block.rfind(b"\n", start, at) + 1 or start
            known = None
            if self._known is not None:
                known = self._known.find(block, line_start)
            if known is None:
                line = self._find_at(number, line_start, block.find(b"\n", behind))
            elif known[2] is None:
                start = known[0]
                continue
            else:
                line = line_start, known[0], self.matchers, known
            if line is not None:
                self._next = number + 1
                return line
        self._next = len(found)
        return None

    def _find_at(self, number: int, start: int, end: int) -> FoundLine | None:
        """Return a line with a mark, if it is a client's; it repeats none."""
        mark, at, _ = self._found[number]
        if not self._headed[mark]:
            return self._find_any(number, start, end)
        if self._known is not None:
            known = self._known.find_by_head(self._block, start, end, at)
            if known is not None:
                return start, end, self.matchers, known
        return self._find_headed(number, start, end)

    def _find_headed(self, number: int, start: int, end: int) -> FoundLine | None:
        """Return a line with a mark if an expression matches: all matchers of the mark have one."""
        mark, quiet_to = self._found[number][0], self._quiet_to
        if quiet_to[mark] < start:
            quiet_to[mark] = self._search_ahead(self._headed[mark], start)
        if quiet_to[mark] < end or _is_piece(self._block, start, end):
            return start, end, self._choose_by(number, start, end), None
        self._note_unread(number, start, end)
        return None

    def _find_any(self, number: int, start: int, end: int) -> FoundLine | None:
        """Return a line with a mark that may be a part of others' lines, if it is a client's."""
        matchers = self._choose_by(number, start, end)
        # a mark is a bit of a client's line, and may be a part of others
        is_found = any(self._is_at(each, start, end) for each in matchers)
        if is_found or _is_piece(self._block, start, end):
            return start, end, matchers, None
        self._quiet_to[self._found[number][0]] = end  # a line may hold a mark thousands of times
        self._note_unread(number, start, end)
        return None

    def _note_unread(self, number: int, start: int, end: int) -> None:
        """Note that no expression finds a line, at its last mark: those before found nothing."""
        is_last = number + 1 == len(self._found) or self._found[number + 1][1] > end
        if is_last and self._known is not None:
            self._known.note_unread(self._block, start, end)

    def _choose_by(self, number: int, start: int, end: int) -> Matchers:
        """Return the matchers that the marks of a line show; ``number`` is that of one mark."""
        found, shown_by = self._found, self._marks.shown_by
        shown, before = 0, number - 1
        while before >= 0 and found[before][1] >= start:
            shown |= shown_by[found[before][0]]
            before -= 1
        while number < len(found) and found[number][1] < end:
            shown |= shown_by[found[number][0]]
            number += 1
        matchers = self._chosen.get(shown)
        if matchers is None:
            matchers = self._chosen[shown] = self._marks.select(shown, self.matchers)
        return matchers

    def _is_at(self, matcher: DialectMatcher, start: int, end: int) -> bool:
        """Return whether a line is a client's."""
        if matcher.search is None or self._is_loose:
            return matcher.is_found_in(self._block, start, end)
        return self._search_ahead((matcher,), start) < end

    def _search_ahead(self, matchers: Matchers, start: int) -> int:
        """Return the first place from ``start`` on for a possible match of an expression.

        A search goes some lines ahead, because similar lines often follow each other.
        """
        if start > self._limit:
            self._limit = self._block.find(b"\n", min(start + _AHEAD_BYTES, self._end - 1))
        block, ahead, limit = self._block, self._ahead, self._limit
        first = limit
        for matcher in matchers:
            at = ahead.get(matcher, -1)
            if at < start:
                match = matcher.search(block, start, limit) if matcher.search else None
                at = ahead[matcher] = limit if match is None else match.start()
            first = at if at < first else first  # noqa: FURB136 - min() takes five times as long
        return first


def _is_piece(block: bytes, start: int, end: int) -> bool:
    """Return whether a line is a piece that CRI's or Docker's next line continues.

    The text that an expression needs may be in that one.
    """
    if end - start < _PIECE_MIN_BYTES:
        return False
    if _CRI_PIECE.search(block, start, start + _EDGE_BYTES) is not None:
        return True
    has_log = block.find(_LOG, start, start + _EDGE_BYTES) >= 0
    is_cut = block.find(_WHOLE, end - _EDGE_BYTES, end) < 0
    return has_log and is_cut and block.find(_STREAM, end - _EDGE_BYTES, end) >= 0


def _has_loose_texts(block: bytes) -> bool:
    return any(block.find(shown, 0, _SAMPLE_BYTES) >= 0 for shown in _LOOSE)


class MarkSearch:
    """The marks of all dialects as one automaton, shared by all streams."""

    def __init__(self, matchers: Matchers) -> None:
        """Build the automaton.

        Raises:
            ImportError: its package is not installed.

        """
        from ahocorasick_rs import BytesAhoCorasick, MatchKind  # noqa: PLC0415 - optional

        self.matchers = matchers
        marks = order_marks(list({mark for matcher in matchers for mark in matcher.marks}))
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
        self._headed: dict[Matchers, list[Matchers]] = {}

    def select(self, shown: int, wanted: Matchers) -> Matchers:
        """Return the wanted ones of the matchers in ``shown``."""
        return tuple(
            matcher
            for number, matcher in enumerate(self.matchers)
            if shown >> number & 1 and matcher in wanted
        )

    def find_headed(self, wanted: Matchers) -> list[Matchers]:
        """Return for each mark its matchers if an expression finds the lines of each, else none."""
        found = self._headed.get(wanted)
        if found is None:
            chosen = [self.select(shown, wanted) for shown in self.shown_by]
            found = self._headed[wanted] = [
                matchers if all(each.head for each in matchers) else () for matchers in chosen
            ]
        return found


def _may_hide(mark: bytes, other: bytes) -> bool:
    """Return whether ``other`` is the mark, or may stand over it and is not found then."""
    return other in mark or any(other.startswith(mark[place:]) for place in range(len(mark)))


class FamilyFinder:
    """Search for each expression of the stream's family."""

    def __init__(self, matchers: Matchers) -> None:
        self._all = matchers
        self._block, self._end = b"", 0
        self._is_loose = False
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
        found = (m.loose_finders if self._is_loose else m.finders for m in self.matchers)
        self._finders = list(dict.fromkeys(finder for finders in found for finder in finders))

    def begin(self, block: bytes, end: int, known: RepeatedLines | None = None) -> None:
        """See `LineFinder`; all its expressions are searched."""
        del known
        self._block, self._end = block, end
        is_loose = _has_loose_texts(block)
        if is_loose != self._is_loose:
            self._is_loose = is_loose
            self._list_finders()
        self._ahead = [-1] * len(self._finders)

    def shows(self, sample: bytes) -> bool:
        """See `LineFinder`."""
        return any(finder.search(sample) for finder in self._finders)

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
        return line_start, block.find(b"\n", first), self.matchers, None


def create_finder(dialects: Dialects) -> LineFinder:
    """Create the finder of a stream: in one pass if the package `ahocorasick_rs` is installed."""
    marks = _mark_search(dialects.matchers)
    return FamilyFinder(dialects.matchers) if marks is None else MarkFinder(marks)


@lru_cache(maxsize=8)
def _mark_search(matchers: Matchers) -> MarkSearch | None:
    try:
        return MarkSearch(matchers)
    except ImportError:
        return None
