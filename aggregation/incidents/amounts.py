"""Counters of one group that add up over its incidents, while these still change.

Theory of operation. An ongoing incident costs more at each look, and a late record may correct one
that is over. So the latest amounts of each incident are kept by its id, and a counter shows their
sum, or what it showed before if that is more: it never falls. What a record corrects within
`LATE_S` is never shown: the log of a client is read later than the wire, and until then a member
that left looks as if it had died. So a counter shows the lowest sum of the last `LATE_S`, and what
grows is shown that much later. Once an incident's records are
evicted its amounts stay. Half of its records may be left, though, and look like another incident:
what such a one costs at its first look is part of what the evicted one cost.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)

LATE_S = 5.0
"""Two sources' records of one event are read within this."""


@dataclass(frozen=True, slots=True)
class Contribution(Generic[_Key]):
    """What one incident adds to each counter. ``started_at`` is Unix seconds."""

    started_at: float
    amounts: Mapping[_Key, float]


@dataclass(slots=True)
class GrowingTotals(Generic[_Key]):
    """Totals that never fall."""

    totals: dict[_Key, float] = field(default_factory=dict)
    _evicted: dict[_Key, float] = field(default_factory=dict)
    _latest: dict[str, Contribution[_Key]] = field(default_factory=dict)
    _sums: deque[tuple[float, dict[_Key, float]]] = field(
        default_factory=lambda: deque([(float("-inf"), {})])
    )
    """Sums by the time of the look: the last one before `LATE_S` ago, and those after it."""

    @property
    def due_at(self) -> float:
        """When more is to be shown, though nothing changes (Unix seconds)."""
        at, sums = self._sums[-1]
        is_shown = all(self.totals.get(key, 0.0) >= amount for key, amount in sums.items())
        return float("inf") if is_shown else at + LATE_S

    def update(
        self,
        contributions: Mapping[str, Contribution[_Key]],
        now: float,
        oldest: float = float("-inf"),
    ) -> None:
        """Take what all incidents add, by their ids.

        An incident that is missing was evicted if it began before ``oldest``, the group's oldest
        record; else it was corrected. Instants are Unix seconds.
        """
        looked_at, _ = self._sums[-1]
        missing = (self._latest[id_] for id_ in self._latest.keys() - contributions.keys())
        gone = _sum(each for each in missing if each.started_at < oldest)
        new = (contributions[id_] for id_ in contributions.keys() - self._latest.keys())
        split = _sum(each for each in new if each.started_at <= looked_at)
        for key, amount in gone.items():
            rest = max(0.0, amount - split.get(key, 0.0))
            self._evicted[key] = self._evicted.get(key, 0.0) + rest
        self._latest = dict(contributions)
        self._sums.append((now, _sum(contributions.values(), self._evicted)))
        while self._sums[1][0] <= now - LATE_S:
            self._sums.popleft()
        for key in self._sums[-1][1]:
            lowest = min(sums.get(key, 0.0) for _, sums in self._sums)
            self.totals[key] = max(lowest, self.totals.get(key, 0.0))


def _sum(
    contributions: Iterable[Contribution[_Key]], start: Mapping[_Key, float] | None = None
) -> dict[_Key, float]:
    sums = defaultdict[_Key, float](float, start or {})
    for contribution in contributions:
        for key, amount in contribution.amounts.items():
            sums[key] += amount
    return sums
