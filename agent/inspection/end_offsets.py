"""Ends of partitions, from their leaders; leaders are looked up once and after they have moved."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping

from agent.inspection.admin_requests import Api
from agent.inspection.broker_pool import BrokerPool
from agent.inspection.errors import BrokerError, UnreachableError
from agent.inspection.model import Node
from agent.wire.codec.schema import Fields

LATEST, EARLIEST = -1, -2
_CONSUMER = -1
"""The replica id of a client that is no replica."""
_ATTEMPTS = 2
"""A leader that has moved since the last poll costs one more look-up."""

Partitions = Mapping[str, Collection[int]]
Ends = dict[str, dict[int, int]]


class EndOffsets:
    """Reads the ends of partitions by topic, or their starts."""

    def __init__(self, brokers: BrokerPool, which: int = LATEST) -> None:
        self._brokers, self._which = brokers, which
        self._leaders: dict[str, dict[int, Node]] = {}

    async def read(self, wanted: Partitions) -> Ends:
        """Return the ends that the partitions' leaders report; others are left out."""
        ends: Ends = {topic: {} for topic in wanted}
        self._leaders = {name: self._leaders[name] for name in wanted if name in self._leaders}
        for _ in range(_ATTEMPTS):
            missing = {
                topic: [number for number in numbers if number not in ends[topic]]
                for topic, numbers in wanted.items()
            }
            missing = {topic: numbers for topic, numbers in missing.items() if numbers}
            if not missing:
                break
            await self._look_up(missing)
            await self._read_missing(missing, ends)
        return ends

    async def _look_up(self, missing: Partitions) -> None:
        unknown = [
            topic
            for topic, numbers in missing.items()
            if not self._leaders.get(topic, {}).keys() >= set(numbers)
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
            self._leaders[topic["name"]] = {
                each["partition_index"]: nodes[each["leader_id"]]
                for each in topic["partitions"]
                if each["leader_id"] in nodes
            }

    async def _read_missing(self, missing: Partitions, ends: Ends) -> None:
        by_leader = defaultdict[Node, dict[str, list[int]]](lambda: defaultdict(list))
        for topic, numbers in missing.items():
            leaders = self._leaders.get(topic, {})
            for number in numbers:
                if number in leaders:
                    by_leader[leaders[number]][topic].append(number)
        for found in await asyncio.gather(*(self._read_at(*each) for each in by_leader.items())):
            for topic, offsets in found.items():
                ends[topic] |= offsets
        for topic, numbers in missing.items():
            if topic in self._leaders and not ends[topic].keys() >= set(numbers):
                del self._leaders[topic]  # its leader has moved, or is down

    async def _read_at(self, leader: Node, partitions: Partitions) -> Ends:
        topics = [
            {
                "name": name,
                "partitions": [
                    {"partition_index": number, "timestamp": self._which} for number in numbers
                ],
            }
            for name, numbers in partitions.items()
        ]
        try:
            fields = await self._brokers.send(
                leader, Api.LIST_OFFSETS, replica_id=_CONSUMER, isolation_level=0, topics=topics
            )
        except BrokerError:
            return {}
        return {
            topic["name"]: {
                each["partition_index"]: each["offset"]
                for each in topic["partitions"]
                if not each["error_code"]
            }
            for topic in fields["topics"]
        }


def _node(fields: Fields) -> Node:
    return Node(fields["node_id"], fields["host"], fields["port"])
