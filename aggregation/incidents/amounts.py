"""Counters of one group that add up over its incidents, while these still change.

Theory of operation. An ongoing incident costs more at each look, and a late record may correct one
that is over. So the latest amounts of each incident are kept by its id, and a counter shows their
sum, or what it showed before if that is more: it never falls. Once an incident's records are
evicted its amounts stay. Half of its records may be left, though, and look like another incident:
what such a one costs at its first look is part of what the evicted one cost.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


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
    _looked_at: float = float("-inf")

    def update(self, contributions: Mapping[str, Contribution[_Key]], now: float) -> None:
        """Take what all incidents add, by their ids; ``now`` is Unix seconds."""
        gone = _sum(self._latest[id_] for id_ in self._latest.keys() - contributions.keys())
        new = (contributions[id_] for id_ in contributions.keys() - self._latest.keys())
        split = _sum(each for each in new if each.started_at <= self._looked_at)
        for key, amount in gone.items():
            rest = max(0.0, amount - split.get(key, 0.0))
            self._evicted[key] = self._evicted.get(key, 0.0) + rest
        self._latest, self._looked_at = dict(contributions), now
        for key, amount in _sum(contributions.values(), self._evicted).items():
            self.totals[key] = max(amount, self.totals.get(key, 0.0))


def _sum(
    contributions: Iterable[Contribution[_Key]], start: Mapping[_Key, float] | None = None
) -> dict[_Key, float]:
    sums = defaultdict[_Key, float](float, start or {})
    for contribution in contributions:
        for key, amount in contribution.amounts.items():
            sums[key] += amount
    return sums
