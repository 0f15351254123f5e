"""Lag of groups in records: the ends of partitions minus the committed offsets.

A share group's lag comes from its coordinator (KIP-1226), since its records are not in order.
"""

from collections.abc import Iterable, Mapping

from agent.inspection.committed_offsets import (
    CommittedOffsets,
    GroupOffsets,
    TopicOffsets,
    has_lags,
    partition_lags,
)
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.coordinator_lookup import Coordinators
from agent.inspection.end_offsets import EndOffsets, Ends
from agent.inspection.model import Failure, GroupType
from metrics.model.snapshot import TopicLag

GroupLag = tuple[TopicLag, ...]


class LagReader:
    """Reads the lag of groups, one pass for all."""

    def __init__(
        self, brokers: BrokerPool, timeout_s: float, *, by_partition: bool = False
    ) -> None:
        """``by_partition`` keeps each partition's lag, too."""
        self._by_partition = by_partition
        self._committed = CommittedOffsets(brokers, timeout_s)
        self._ends = EndOffsets(brokers)

    async def read(
        self, groups: Mapping[GroupType, Iterable[str]], coordinators: Coordinators
    ) -> dict[str, GroupLag | Failure]:
        """Return the lag of groups by type.

        Raises:
            BrokerError: no broker can be used.

        """
        self._committed.start_poll()
        offsets: dict[str, GroupOffsets | Failure] = {}
        for group_type, names in groups.items():
            offsets |= await self._committed.read(group_type, list(names), coordinators)
        ends = await self._ends.read(_partitions_of(offsets.values()))
        return {
            group: each if isinstance(each, Failure) else self._group_lag(each, ends)
            for group, each in offsets.items()
        }

    def _group_lag(self, group: GroupOffsets, ends: Ends) -> GroupLag:
        return tuple(
            self._topic_lag(topic, offsets, ends.get(topic, {}))
            for topic, offsets in group.items()
            if any(offset >= 0 for offset in offsets.offsets)
        )

    def _topic_lag(self, topic: str, offsets: TopicOffsets, ends: Mapping[int, int]) -> TopicLag:
        lags = partition_lags(offsets, ends)
        known = sum(offset >= 0 for offset in offsets.offsets)
        total = sum(lags.values()) if len(lags) == known else None
        return TopicLag(topic, total, tuple(sorted(lags.items())) if self._by_partition else ())


def total_lag(lag: GroupLag | Failure) -> int | None:
    """Return a group's lag over all topics, or None if one partition's is not known."""
    if isinstance(lag, Failure) or not lag:
        return None
    totals = [topic.total for topic in lag]
    return None if None in totals else sum(total for total in totals if total is not None)


def _partitions_of(groups: Iterable[GroupOffsets | Failure]) -> dict[str, set[int]]:
    """Return the partitions that need an end."""
    wanted: dict[str, set[int]] = {}
    for group in groups:
        if not isinstance(group, Failure):
            for topic, offsets in group.items():
                if not has_lags(offsets):
                    wanted.setdefault(topic, set()).update(offsets.partitions)
    return wanted
