"""Bound on the cost of a user's regular expression, and the search for the part that exceeds it.

Theory of operation. `re` tries every way to divide a text among the parts of an expression
(backtracking). The parser's tree shows the number of ways.

- A repeat has only one possible end if the next part cannot begin with a character that the repeat
  matches itself, as in ``[a-z]+,``.
- Any other repeat may end at each of its characters. The ways of successive parts multiply.
- A repeat with a body that can be divided in two ways is exponential, as ``(a+)+`` is.
- Possessive repeats and atomic groups do not backtrack.

Only its own limit bounds the text that a repeat matches, because character classes match line ends
too, and a block of many lines is searched at once. Therefore each unbounded repeat gets a limit,
and the cost is a number of steps that does not depend on the line.

Source: the parser of CPython, https://github.com/python/cpython/blob/v3.11.9/Lib/re/_parser.py.
"""

import importlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from agent.sources.lines.dialects.first_characters import (
    NONE,
    Follow,
    Items,
    first_of,
    first_of_all,
)

_MOST_STEPS = 1_000_000
"""Most steps for one text; of 5,000 random expressions none took longer than 10 ms."""
_LIMITS = (1_024, 300, 128)
"""Longest part of any length: the more parts match the same text, the shorter they must be."""
_OPEN_END = re.compile(r"\.[*+]\??[)$]*\Z")
_REPEAT = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*(?:\]|\Z)|"  # an escape or a class
    r"(?P<repeat>[*+]|\{(?P<least>\d*),(?P<most>\d*)\})(?P<kind>[?+]?)",
    re.DOTALL,
)
_INFINITE = 10**9


class _Behind(NamedTuple):
    """Text that must follow a part."""

    first: Follow | None
    """Possible first characters of the rest; None: nothing after it can fail."""
    literal: tuple[int, ...] = ()
    """The text at its begin."""

    def is_free_of(self, first: Follow) -> bool:
        return self.first is None or not first & self.first

    @property
    def period(self) -> int:
        """Return the smallest possible distance between two places of the literal."""
        text = self.literal
        places = range(1, len(text))
        return next((at for at in places if text[at:] == text[: len(text) - at]), len(text) or 1)


class _Effort(NamedTuple):
    """Ways to divide a text, and steps that are needed to try them all."""

    ways: int = 1
    steps: int = 1

    def behind(self, before: "_Effort") -> "_Effort":
        """Return the cost of a part and of the parts before it."""
        return _Effort(
            min(_INFINITE, before.ways * self.ways),
            min(_INFINITE, before.steps + before.ways * self.steps),
        )

    @classmethod
    def of_several(cls, costs: Sequence["_Effort"]) -> "_Effort":
        """Return the cost of parts that are tried one after the other."""
        ways, steps = sum(each.ways for each in costs), sum(each.steps for each in costs)
        return cls(min(_INFINITE, ways), min(_INFINITE, steps))


_NOTHING = _Behind(None)


def bound_cost(pattern: str) -> str | None:
    """Return an expression with limits and a bounded cost; None if no limit bounds its cost.

    Raises:
        re.error: the expression is invalid.

    """
    for limit in _LIMITS:
        limited = _limit_repeats(pattern, limit)
        if limited is None:
            return None
        # at the end of a line the first try of `.*` is the last
        decided = _OPEN_END.sub(lambda end: end[0].replace("*", "").replace("+", ""), limited)
        if _find_cost(_parse(decided), _NOTHING).steps <= _MOST_STEPS:
            return limited
    return None


def _parse(pattern: str) -> Items:
    parser: Any = importlib.import_module("re._parser")
    found: Items = parser.parse(pattern)
    return found


def _limit_repeats(pattern: str, limit: int) -> str | None:
    """Return an expression with unlimited length only for ``.*`` at the end.

    None: an explicit limit of the expression is above the largest of `_LIMITS`.
    """
    end = _OPEN_END.search(pattern)
    last = len(pattern) if end is None else end.start()
    is_longer = False

    def bound(found: re.Match[str]) -> str:
        nonlocal is_longer
        if found["repeat"] is None or found.start() > last:
            return found[0]
        least, most = found["least"] or str(int(found["repeat"] == "+")), found["most"]
        is_longer |= int(least) > _LIMITS[0] or (bool(most) and int(most) > _LIMITS[0])
        return found[0] if most else f"{{{least},{max(limit, int(least))}}}{found['kind']}"

    limited = _REPEAT.sub(bound, pattern)
    return None if is_longer else limited


def _find_cost(items: Items, behind: _Behind) -> _Effort:
    """Return the cost of a sequence at most."""
    whole = _Effort()
    for item in reversed(items):
        whole = whole.behind(_find_cost_of(item, behind))
        first, is_empty = first_of(item)
        if is_empty:
            rest = None if behind.first is None else first | behind.first
            behind = _Behind(rest)
        elif str(item[0]) == "LITERAL":
            behind = _Behind(first, (item[1], *behind.literal))
        else:
            behind = _Behind(first)
    return whole


def _find_cost_of(item: Any, behind: _Behind) -> _Effort:
    name, value = str(item[0]), item[1]
    found = _Effort()
    match name:
        case "SUBPATTERN":
            found = _find_cost(value[-1], behind)
        case "MAX_REPEAT" | "MIN_REPEAT":
            found = _find_cost_of_repeat(value, behind)
        case "POSSESSIVE_REPEAT":
            found = _find_cost_of_repeat(value, _NOTHING)
        case "ATOMIC_GROUP":
            found = _find_cost(value, _NOTHING)
        case "ASSERT" | "ASSERT_NOT":
            found = _find_cost(value[1], _NOTHING)
        case "BRANCH":
            found = _find_cost_of_branches(value[1], behind)
        case "GROUPREF_EXISTS":
            parts = [part for part in value[1:] if part is not None]
            found = _Effort.of_several([_find_cost(part, behind) for part in parts])
    return found


def _find_cost_of_branches(parts: Sequence[Items], behind: _Behind) -> _Effort:
    """Return the cost of alternatives: of one alone if the next character selects it."""
    costs, taken = [], NONE
    is_decided = behind.first is not None or all(map(len, parts))
    for part in parts:
        costs.append(_find_cost(part, behind))
        first, is_empty = first_of_all(part)
        first |= (behind.first or NONE) if is_empty else NONE
        is_decided &= not taken & first
        taken |= first
    several = _Effort.of_several(costs)
    return several._replace(ways=max(each.ways for each in costs)) if is_decided else several


def _find_cost_of_repeat(value: Any, behind: _Behind) -> _Effort:
    least, most, body = int(value[0]), min(int(value[1]), _INFINITE), value[2]
    first, is_empty = first_of_all(body)
    if most > 1 and is_empty:
        return _Effort(_INFINITE, _INFINITE)
    is_last = most <= 1 or (behind.first is None and least <= 1)
    inner = _find_cost(body, behind if is_last else _Behind(first | (behind.first or NONE)))
    if inner.ways > 1 and most > 1:
        ways = _power(inner.ways, most)
        return _Effort(ways, min(_INFINITE, ways * inner.steps))
    steps = min(_INFINITE, most * inner.steps)
    if behind.is_free_of(first) or least == most:
        return _Effort(inner.ways, steps)
    ends = -(-(most - least + 1) // behind.period)
    return _Effort(min(_INFINITE, inner.ways * ends), steps)


def _power(ways: int, times: int) -> int:
    found = 1
    for _ in range(times):
        found *= ways
        if found >= _INFINITE:
            return _INFINITE
    return found
