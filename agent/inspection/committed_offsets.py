"""Offsets that groups have committed, or share groups' start offsets, from their coordinators.

A large cluster has some 400,000 of them, so each topic's offsets are in arrays. If a batch of
groups has committed nothing since the last poll, its response is not decoded again.
"""

from array import array
from collections.abc import Collection, Mapping, Sequence
from sys import intern
from typing import Any, NamedTuple

from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.coordinator_lookup import Coordinators, GroupRequest, send_to_coordinators
from agent.inspection.model import Failure, GroupType, Node
from agent.inspection.response_cache import ResponseCache
from agent.wire.codec.schema import Fields

_BATCHED_FROM = 8
"""The first version of OffsetFetch that takes many groups (KIP-709); Kafka 3.0."""
_NO_LAG = _UNSET = -1


class TopicOffsets(NamedTuple):
    """A group's offsets in one topic, by position; ``lags`` only if the broker reports them.

    For a share group, -1 is a partition that it reads and that has no start offset yet.
    """

    partitions: "array[int]"
    offsets: "array[int]"
    leader_epochs: "array[int]"
    lags: "array[int]"


GroupOffsets = Mapping[str, TopicOffsets]


class CommittedOffsets:
    """Reads the offsets of groups."""

    def __init__(self, brokers: BrokerPool, timeout_s: float) -> None:
        self._brokers, self._timeout_s = brokers, timeout_s
        self._cache = ResponseCache[GroupOffsets]()

    def start_poll(self) -> None:
        """Start a poll: a response equal to the last poll's is not decoded again."""
        self._cache.start_poll()

    async def read(
        self, group_type: GroupType | None, groups: Collection[str], coordinators: Coordinators
    ) -> dict[str, GroupOffsets | Failure]:
        """Return the offsets of groups of a type; updates ``coordinators``."""
        is_share = group_type is GroupType.SHARE
        request = GroupRequest(
            Api.DESCRIBE_SHARE_GROUP_OFFSETS if is_share else Api.OFFSET_FETCH,
            _name_share_groups if is_share else _name_groups,
            _read_share_group if is_share else _read_group,
            self._cache,
            batched_from=0 if is_share else _BATCHED_FROM,
        )
        return await send_to_coordinators(
            self._brokers, request, groups, coordinators, self._timeout_s
        )


def _name_groups(groups: Sequence[str]) -> dict[str, Any]:
    """Return the fields for all topics of groups; below v8 a request is about one group."""
    named = [{"group_id": group, "topics": None} for group in groups]
    return {"groups": named, "group_id": groups[0], "topics": None, "require_stable": False}


def _name_share_groups(groups: Sequence[str]) -> dict[str, Any]:
    return {"groups": [{"group_id": group, "topics": None} for group in groups]}


def _read_group(node: Node, fields: Fields) -> GroupOffsets:
    del node
    return {
        intern(topic["name"]): _read_partitions(
            topic["partitions"], "committed_offset", "committed_leader_epoch"
        )
        for topic in fields["topics"] or ()
    }


def _read_share_group(node: Node, fields: Fields) -> GroupOffsets:
    del node
    return {
        intern(topic["topic_name"]): _read_partitions(
            topic["partitions"], "start_offset", "leader_epoch", has_unset=True
        )
        for topic in fields["topics"] or ()
    }


def _read_partitions(
    partitions: Sequence[Fields], offset: str, epoch: str, *, has_unset: bool = False
) -> TopicOffsets:
    """Read partitions; ``has_unset`` keeps those without an offset, as -1."""
    lowest = _UNSET if has_unset else 0
    known = [each for each in partitions if not each["error_code"] and each[offset] >= lowest]
    has_lag = bool(known) and "lag" in known[0]
    return TopicOffsets(
        array("i", [each["partition_index"] for each in known]),
        array("q", [each[offset] for each in known]),
        array("i", [each.get(epoch, -1) for each in known]),
        array("q", [each["lag"] for each in known] if has_lag else [_NO_LAG] * len(known)),
    )


def has_lags(offsets: TopicOffsets) -> bool:
    """Return whether the broker reports lags itself."""
    return any(lag >= 0 for lag in offsets.lags)


def partition_lags(offsets: TopicOffsets, ends: Mapping[int, int]) -> dict[int, int]:
    """Return the lag of each partition with a known end."""
    if has_lags(offsets):
        lags = zip(offsets.partitions, offsets.lags, strict=True)
        return {number: lag for number, lag in lags if lag >= 0}
    return {
        number: max(0, ends[number] - offset)
        for number, offset in zip(offsets.partitions, offsets.offsets, strict=True)
        if number in ends and offset >= 0
    }
