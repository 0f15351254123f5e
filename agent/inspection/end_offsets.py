"""Ends of partitions and offsets by time, from their leaders.

Leaders are looked up once and after they have moved.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.connection.errors import BrokerError, UnreachableError
from agent.inspection.model import Node
from agent.wire.codec.schema import Fields

LATEST, EARLIEST = -1, -2
_CONSUMER = -1
"""The replica id of a client that is no replica."""
_ATTEMPTS = 2
"""A leader that has moved since the last poll costs one more look-up."""

Partitions = Mapping[str, Collection[int]]
Times = Mapping[str, Mapping[int, int]]
"""A time in Unix milliseconds by topic and partition, or `LATEST` or `EARLIEST`."""
Ends = dict[str, dict[int, int]]


class TimedOffset(NamedTuple):
    """The first record at or after a time; both values are -1 if there is none."""

    offset: int
    timestamp: int
    """Unix milliseconds."""


TimedOffsets = dict[str, dict[int, TimedOffset]]


class EndOffsets:
    """Reads the ends of partitions by topic, or their starts, or offsets by time."""

    def __init__(self, brokers: BrokerPool, which: int = LATEST) -> None:
        self._brokers, self._which = brokers, which
        self._leaders: dict[str, dict[int, Node]] = {}

    async def read(self, wanted: Partitions) -> Ends:
        """Return the ends that the partitions' leaders report; others are left out."""
        times = {topic: dict.fromkeys(numbers, self._which) for topic, numbers in wanted.items()}
        found = await self.find(times)
        return {
            topic: {number: each.offset for number, each in positions.items()}
            for topic, positions in found.items()
        }

    async def find(self, wanted: Times) -> TimedOffsets:
        """Return the offset of each partition's time; others are left out."""
        found: TimedOffsets = {topic: {} for topic in wanted}
        self._leaders = {name: self._leaders[name] for name in wanted if name in self._leaders}
        for _ in range(_ATTEMPTS):
            missing = {
                topic: {number: at for number, at in times.items() if number not in found[topic]}
                for topic, times in wanted.items()
            }
            missing = {topic: times for topic, times in missing.items() if times}
            if not missing:
                break
            await self._look_up(missing)
            await self._read_missing(missing, found)
        return found

    async def _look_up(self, missing: Times) -> None:
        unknown = [
            topic
            for topic, numbers in missing.items()
            if not self._leaders.get(topic, {}).keys() >= numbers.keys()
        ]
        if not unknown:
            return
        topics = [{"name": name} for name in sorted(unknown)]
        try:
            fields = await self._brokers.send_any(
                Api.METADATA, topics=topics, allow_auto_topic_creation=False
            )
        except UnreachableError:
            return
        nodes = {each["node_id"]: _node(each) for each in fields["brokers"]}
        for topic in fields["topics"]:
            if topic["name"] in missing:
                self._leaders[topic["name"]] = {
                    each["partition_index"]: nodes[each["leader_id"]]
                    for each in topic["partitions"]
                    if each["leader_id"] in nodes
                }

    async def _read_missing(self, missing: Times, found: TimedOffsets) -> None:
        by_leader = defaultdict[Node, dict[str, dict[int, int]]](lambda: defaultdict(dict))
        for topic, times in missing.items():
            leaders = self._leaders.get(topic, {})
            for number, at in times.items():
                if number in leaders:
                    by_leader[leaders[number]][topic][number] = at
        for each in await asyncio.gather(*(self._read_at(*pair) for pair in by_leader.items())):
            for topic, positions in each.items():
                found[topic] |= positions
        for topic, times in missing.items():
            if topic in self._leaders and not found[topic].keys() >= times.keys():
                del self._leaders[topic]  # its leader has moved, or is down

    async def _read_at(self, leader: Node, wanted: Times) -> TimedOffsets:
        topics = [
            {
                "name": name,
                "partitions": [
                    {"partition_index": number, "timestamp": at} for number, at in times.items()
                ],
            }
            for name, times in wanted.items()
        ]
        try:
            fields = await self._brokers.send(
                leader, Api.LIST_OFFSETS, replica_id=_CONSUMER, isolation_level=0, topics=topics
            )
        except BrokerError:
            return {}
        return {
            topic["name"]: {
                each["partition_index"]: TimedOffset(each["offset"], each["timestamp"])
                for each in topic["partitions"]
                if not each["error_code"]
            }
            for topic in fields["topics"]
            if topic["name"] in wanted
        }


def _node(fields: Fields) -> Node:
    return Node(fields["node_id"], fields["host"], fields["port"])
