"""How many records a group is behind: the ends of its partitions against what it has committed.

Three questions a group: its coordinator (OffsetFetch), any broker (who leads the partitions), and
the leaders (ListOffsets). Only asked of groups that have just changed, and within bounds.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable

from agent.inspection.admin_requests import Api
from agent.inspection.broker_pool import BrokerPool
from agent.inspection.errors import BrokerError
from agent.inspection.model import Node
from agent.wire.codec.schema import Fields

MAX_PARTITIONS = 5_000
_LATEST = -1
_CONSUMER = -1
"""A replica id: who asks is none."""

_Partition = tuple[str, int]
_Offsets = dict[_Partition, int]


async def group_lag(brokers: BrokerPool, group: str, coordinator: Node) -> int | None:
    """Return the records that a group is behind; None where not all of it can be known."""
    try:
        committed = _read_committed(
            await brokers.send(coordinator, Api.OFFSET_FETCH, group_id=group, topics=None)
        )
        if not 0 < len(committed) <= MAX_PARTITIONS:
            return None
        ends = await _end_offsets(brokers, coordinator, committed)
    except BrokerError:
        return None
    if ends.keys() != committed.keys():
        return None
    return sum(max(0, ends[each] - offset) for each, offset in committed.items())


def _read_committed(fields: Fields) -> _Offsets:
    return {
        (topic["name"], each["partition_index"]): each["committed_offset"]
        for topic in fields["topics"] or ()
        for each in topic["partitions"]
        if not each["error_code"] and each["committed_offset"] >= 0
    }


async def _end_offsets(brokers: BrokerPool, node: Node, wanted: Iterable[_Partition]) -> _Offsets:
    partitions = set(wanted)
    topics = [{"name": name} for name in sorted({name for name, _ in partitions})]
    fields = await brokers.send(node, Api.METADATA, topics=topics, allow_auto_topic_creation=False)
    nodes = {each["node_id"]: _node(each) for each in fields["brokers"]}
    led: dict[Node, list[_Partition]] = defaultdict(list)
    for topic in fields["topics"]:
        for each in topic["partitions"]:
            partition = (topic["name"], each["partition_index"])
            if partition in partitions and each["leader_id"] in nodes:
                led[nodes[each["leader_id"]]].append(partition)
    answers = await asyncio.gather(
        *(_end_offsets_of_leader(brokers, *each) for each in led.items())
    )
    return {partition: end for ends in answers for partition, end in ends.items()}


def _node(fields: Fields) -> Node:
    return Node(fields["node_id"], fields["host"], fields["port"])


async def _end_offsets_of_leader(
    brokers: BrokerPool, leader: Node, partitions: Iterable[_Partition]
) -> _Offsets:
    by_topic: dict[str, list[dict[str, int]]] = defaultdict(list)
    for name, number in partitions:
        by_topic[name].append({"partition_index": number, "timestamp": _LATEST})
    topics = [{"name": name, "partitions": each} for name, each in by_topic.items()]
    fields = await brokers.send(
        leader, Api.LIST_OFFSETS, replica_id=_CONSUMER, isolation_level=0, topics=topics
    )
    return {
        (topic["name"], each["partition_index"]): each["offset"]
        for topic in fields["topics"]
        for each in topic["partitions"]
        if not each["error_code"]
    }
