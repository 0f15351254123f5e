"""Groups and the durations of their members' episodes; they outlive the members."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from metrics.model.snapshot import DURATION_BUCKETS_S, Durations, GroupKey

_BUCKETS = len(DURATION_BUCKETS_S) + 1


@dataclass(slots=True)
class GroupEntry:
    """One group's histogram of member episodes, not cumulative, the last bucket open-ended."""

    key: GroupKey
    buckets: Annotated[list[int], Meta(min_length=_BUCKETS, max_length=_BUCKETS)] = field(
        default_factory=lambda: [0] * _BUCKETS
    )
    sum_s: float = 0.0


class GroupDurations:
    """Groups in the order of their last signal; the oldest makes room when there are too many."""

    def __init__(self, limit: int, entries: list[GroupEntry], counts: Counter[str]) -> None:
        """Start from ``entries``; ``counts`` is the tracker's and counts ``groups_evicted``."""
        self._limit = limit
        self._entries = {entry.key: entry for entry in entries}
        self._counts = counts

    def touch(self, key: GroupKey) -> GroupEntry:
        """Return the group's entry, new if need be, and mark it as the newest."""
        entry = self._entries.pop(key, None) or GroupEntry(key)
        self._entries[key] = entry
        while len(self._entries) > self._limit:
            self._entries.pop(next(iter(self._entries)))
            self._counts["groups_evicted"] += 1
        return entry

    def observe(self, key: GroupKey, duration_s: float) -> None:
        """Count one member's episode."""
        entry = self.touch(key)
        # Prometheus: a bucket's bound is inclusive ("le")
        entry.buckets[bisect_left(DURATION_BUCKETS_S, duration_s)] += 1
        entry.sum_s += duration_s

    def forget(self, groups: Collection[tuple[str, str]]) -> None:
        """Drop groups, by cluster and name: no source reports them any more."""
        for key in [key for key in self._entries if (key.cluster, key.group) in groups]:
            del self._entries[key]

    def name_cluster(self, cluster: str) -> None:
        """Move the groups of no known cluster to this one."""
        for key in [key for key in self._entries if not key.cluster]:
            entry = self._entries.pop(key)
            named = self.touch(key._replace(cluster=cluster))
            named.sum_s += entry.sum_s
            for at, count in enumerate(entry.buckets):
                named.buckets[at] += count

    @property
    def entries(self) -> list[GroupEntry]:
        """All entries, the oldest last signal first."""
        return list(self._entries.values())

    def durations(self) -> dict[GroupKey, Durations]:
        """Return the histograms for exporters."""
        return {key: Durations(tuple(e.buckets), e.sum_s) for key, e in self._entries.items()}
