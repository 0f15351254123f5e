"""Offsets of described groups by partition, with the member that owns each."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agent.inspection.committed_offsets import (
    CommittedOffsets,
    GroupOffsets,
    TopicOffsets,
    partition_lags,
)
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.describe_groups import DescribeResult
from agent.inspection.end_offsets import EARLIEST, EndOffsets, Ends
from agent.inspection.model import (
    Description,
    Failure,
    GroupType,
    MemberDescription,
    PartitionOffset,
)
from agent.inspection.time_lag import Unread, read_time_lags

_CONNECT = "connect"
_Partition = tuple[str, int]


class _Owner(NamedTuple):
    member: MemberDescription
    task: str | None


async def add_offsets(
    brokers: BrokerPool,
    results: Sequence[DescribeResult],
    timeout_s: float,
    *,
    time_lag: bool = False,
) -> list[DescribeResult]:
    """Add the offsets of described groups; a group with unreadable offsets becomes a failure.

    ``time_lag`` adds the age of the oldest unread records.

    Raises:
        BrokerError: no broker can be used.

    """
    groups = [each for each in results if isinstance(each, Description)]
    reader, coordinators = (
        CommittedOffsets(brokers, timeout_s),
        {each.group: each.coordinator for each in groups},
    )
    committed: dict[str, GroupOffsets | Failure] = {}
    for group_type in {each.type for each in groups}:
        names = [each.group for each in groups if each.type is group_type]
        committed |= await reader.read(group_type, names, coordinators)
    owners = {each.group: _owners(each) for each in groups}
    wanted: dict[str, set[int]] = {}
    for group, offsets in committed.items():
        for topic, number in _partitions(offsets, owners[group]):
            wanted.setdefault(topic, set()).add(number)
    leaders = EndOffsets(brokers)
    ends = await leaders.read(wanted)
    starts = await EndOffsets(brokers, EARLIEST).read(_find_unread(groups, committed, owners))
    complete = [
        _add(each, committed[each.group], owners[each.group], ends, starts)
        if isinstance(each, Description)
        else each
        for each in results
    ]
    return await _add_time_lags(leaders, complete) if time_lag else complete


async def _add_time_lags(
    leaders: EndOffsets, results: Sequence[DescribeResult]
) -> list[DescribeResult]:
    """Add the age of the oldest unread record to each partition."""
    rows = {
        Unread(each.group, row.topic, row.partition, row.current_offset, row.end_offset): row
        for each in results
        if isinstance(each, Description)
        for row in each.offsets or ()
        if row.current_offset is not None and row.end_offset is not None and row.lag
    }
    ages = await read_time_lags(leaders, rows, int(time.time() * 1000))
    by_row = {id(rows[unread]): round(age, 3) for unread, age in ages.items()}
    return [
        replace(
            each,
            offsets=tuple(
                replace(row, time_lag_s=0.0 if row.lag == 0 else by_row.get(id(row)))
                for row in each.offsets or ()
            ),
        )
        if isinstance(each, Description)
        else each
        for each in results
    ]


def _partitions(offsets: GroupOffsets | Failure, owners: Iterable[_Partition]) -> set[_Partition]:
    """Return the partitions with an offset or an owner."""
    if isinstance(offsets, Failure):
        return set()
    committed = {(topic, number) for topic, each in offsets.items() for number in each.partitions}
    return committed | set(owners)


def _find_unread(
    groups: Iterable[Description],
    committed: Mapping[str, GroupOffsets | Failure],
    owners: Mapping[str, Mapping[_Partition, _Owner]],
) -> dict[str, set[int]]:
    """Return the partitions of streams groups' tasks that have no commit.

    A streams group reads them from their start, so all their records are its lag.
    """
    wanted: dict[str, set[int]] = {}
    for group in groups:
        if group.type is GroupType.STREAMS:
            known = _partitions(committed[group.group], ())
            for topic, number in owners[group.group].keys() - known:
                wanted.setdefault(topic, set()).add(number)
    return wanted


def _add(
    group: Description,
    offsets: GroupOffsets | Failure,
    owners: Mapping[_Partition, _Owner],
    ends: Ends,
    starts: Ends,
) -> DescribeResult:
    if isinstance(offsets, Failure):
        return replace(
            offsets,
            error=f"offsets: {offsets.code}: {offsets.error}",
            type=group.type,
            state=group.state,
        )
    positions = {
        (topic, each.partition): each
        for topic, of_topic in offsets.items()
        for each in _positions(topic, of_topic, ends.get(topic, {}))
    }
    rows = []
    for topic, number in sorted(_partitions(offsets, owners)):
        end, start = ends.get(topic, {}).get(number), starts.get(topic, {}).get(number)
        row = positions.get((topic, number)) or PartitionOffset(
            topic=topic,
            partition=number,
            current_offset=None,
            leader_epoch=None,
            end_offset=end,
            lag=None if end is None or start is None else max(0, end - start),
        )
        rows.append(_add_owner(row, owners.get((topic, number))))
    return replace(group, offsets=tuple(rows))


def _positions(
    topic: str, offsets: TopicOffsets, ends: Mapping[int, int]
) -> Iterable[PartitionOffset]:
    lags = partition_lags(offsets, ends)
    for number, offset, epoch in zip(
        offsets.partitions, offsets.offsets, offsets.leader_epochs, strict=True
    ):
        yield PartitionOffset(
            topic=topic,
            partition=number,
            current_offset=offset if offset >= 0 else None,
            leader_epoch=epoch if epoch >= 0 else None,
            end_offset=ends.get(number),
            lag=lags.get(number),
        )


def _add_owner(row: PartitionOffset, owner: _Owner | None) -> PartitionOffset:
    if owner is None:
        return row
    member = owner.member
    return replace(
        row,
        member_id=member.member_id,
        host=member.host,
        client_id=member.client_id,
        task=owner.task,
    )


def _owners(group: Description) -> dict[_Partition, _Owner]:
    """Return the owner of each partition; share groups have many, and Connect owns tasks."""
    if group.type is GroupType.SHARE or group.protocol == _CONNECT:
        return {}
    owned = _read_tasks if group.type is GroupType.STREAMS else _read_partitions
    return {
        partition: _Owner(member, task)
        for member in group.members
        for partition, task in owned(group, member.owned or {})
    }


def _read_partitions(
    group: Description, owned: Mapping[str, Any]
) -> Iterator[tuple[_Partition, None]]:
    del group
    for topic, numbers in owned.items():
        for number in numbers:
            yield (topic, number), None


def _read_tasks(group: Description, owned: Mapping[str, Any]) -> Iterator[tuple[_Partition, str]]:
    for subtopology, numbers in owned.get("active", {}).items():
        for topic in (group.subtopologies or {}).get(subtopology, ()):
            for number in numbers:
                yield (topic, number), f"{subtopology}_{number}"
