"""Counters of one group: sums over its incidents, which still change.

Theory of operation. The cost of an ongoing incident grows from one calculation to the next, and a
late record may correct an incident that is over. Therefore the latest amounts of each incident are
kept by its id. A counter shows their sum, and it never falls: if the sum becomes smaller, the
counter keeps its value.

A client's log is read later than its traffic. Until then, a member that left looks like a member
that died, and its cost is too high. A counter therefore shows the lowest sum of the last `LATE_S`:
amounts that a record corrects within that time are never shown, and growth is shown that much
later.

If the records of an incident are evicted, its amounts stay. If only a part of them is evicted, the
others look like another incident. The first amounts of such an incident are subtracted from the
amounts of the evicted one.
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
    """Amounts that one incident adds to the counters. ``started_at`` is Unix seconds."""

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
    """Sums by the time of their calculation: those of the last `LATE_S`, and the one before."""

    @property
    def due_at(self) -> float:
        """Time at which a total rises without a new record (Unix seconds); infinite: never."""
        at, sums = self._sums[-1]
        is_shown = all(self.totals.get(key, 0.0) >= amount for key, amount in sums.items())
        return float("inf") if is_shown else at + LATE_S

    def update(
        self,
        contributions: Mapping[str, Contribution[_Key]],
        now: float,
        oldest: float = float("-inf"),
    ) -> None:
        """Replace the amounts of all incidents, given by their ids, and raise the totals.

        If an incident is missing and began before ``oldest``, the time of the group's oldest
        record, its records were evicted and its amounts stay. Else a record has corrected it, and
        its amounts are removed. Instants are Unix seconds.
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
