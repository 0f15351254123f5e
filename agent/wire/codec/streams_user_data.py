"""Kafka Streams' user data in the "stream" protocol: SubscriptionInfo, AssignmentInfo, v1 to v11.

Sources:
https://github.com/apache/kafka/blob/3.8.0/streams/src/main/resources/common/message/SubscriptionInfoData.json
https://github.com/apache/kafka/blob/3.8.0/streams/src/main/java/org/apache/kafka/streams/processor/internals/assignment/AssignmentInfo.java
The follow-up is what StreamsPartitionAssignor.maybeScheduleFollowupRebalance decides, in its order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from agent.errors import DecodeError
from agent.wire.codec.buffer import Buffer
from agent.wire.codec.messages import Node
from metrics.model.signals import FollowUp
from metrics.model.status import RebalanceStatus

KNOWN_VERSION = 11
_VERSION_MAX = 99
"""Beyond it the bytes are something else."""
_NAMED_TOPOLOGIES = 10
_NEVER_MS = (1 << 63) - 1
"""Long.MAX_VALUE: no follow-up."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionInfo:
    """What a Streams thread says when it joins. Beyond v11 only the versions are known."""

    version: int
    process_id: str | None = None
    endpoint: Node | None = None
    """``application.server``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInfo:
    """What the leader tells a Streams thread beside its partitions."""

    version: int
    commonly_supported: int
    hosts: frozenset[Node] | None = None
    """The instances' endpoints; None beyond v11, where they are not known."""
    error: int = 0
    next_rebalance_ms: int = _NEVER_MS
    """Unix milliseconds; 0 is at once."""


def read_subscription_info(data: bytes) -> SubscriptionInfo:
    """Read SubscriptionInfo.

    Raises:
        DecodeError: the bytes are something else.

    """
    buffer = Buffer(data)
    version = _version(buffer)
    if version > KNOWN_VERSION:
        return SubscriptionInfo(version=version)
    if version >= 3:
        buffer.int32()  # the latest supported version
    process_id = str(UUID(bytes=buffer.take(16)))
    if version < 7:
        for _ in ("active", "standby"):
            _each(buffer, _plain_task)
    endpoint = _endpoint(buffer.nullable_bytes()) if version >= 2 else None
    return SubscriptionInfo(version=version, process_id=process_id, endpoint=endpoint)


def read_assignment_info(data: bytes) -> AssignmentInfo:
    """Read AssignmentInfo.

    Raises:
        DecodeError: the bytes are something else.

    """
    buffer = Buffer(data)
    version = _version(buffer)
    common = buffer.int32() if version >= 3 else -1
    if version > KNOWN_VERSION:
        return AssignmentInfo(version=version, commonly_supported=common)
    task = _named_task if version >= _NAMED_TOPOLOGIES else _plain_task
    _each(buffer, task)
    _each(buffer, lambda each: (task(each), _each(each, _topic_partition)))
    hosts = _hosts(buffer, version)
    return AssignmentInfo(
        version=version,
        commonly_supported=common,
        hosts=hosts,
        error=buffer.int32() if version >= 4 else 0,
        next_rebalance_ms=buffer.int64() if version >= 7 else _NEVER_MS,
    )


def streams_follow_up(sent: SubscriptionInfo, given: AssignmentInfo, at: float) -> FollowUp | None:
    """Return the rebalance that an assignment of Unix seconds ``at`` asks the instance for."""
    if given.error:  # the client shuts down or fails before it looks at the rest
        return None
    if given.commonly_supported > sent.version or given.version < sent.version:
        return _now(RebalanceStatus.VERSION_PROBING, at, "version probing")
    if sent.endpoint is not None and given.hosts and sent.endpoint not in given.hosts:
        where = f"{sent.endpoint.host}:{sent.endpoint.port}"
        return _now(RebalanceStatus.ENDPOINT_UPDATE, at, f"new host endpoint {where}")
    if given.next_rebalance_ms == 0:
        return _now(RebalanceStatus.REVOCATION_NEEDED, at, "tasks move after their revocation")
    if given.next_rebalance_ms == _NEVER_MS:
        return None
    return FollowUp(
        status=RebalanceStatus.ASSIGNMENT_PROBING,
        at=at,
        reason="a probing rebalance is scheduled",
        due_at=given.next_rebalance_ms / 1000,
    )


def _now(status: RebalanceStatus, at: float, reason: str) -> FollowUp:
    return FollowUp(status=status, at=at, reason=reason)


def _version(buffer: Buffer) -> int:
    version = buffer.int32()
    if not 1 <= version <= _VERSION_MAX:
        raise DecodeError(f"Kafka Streams' user data in version {version}")
    return version


def _each(buffer: Buffer, read: Callable[[Buffer], _T]) -> list[_T]:
    return buffer.array(read, buffer.int32())


def _plain_task(buffer: Buffer) -> None:
    buffer.int64()  # subtopology and partition


def _named_task(buffer: Buffer) -> None:
    buffer.int64()
    buffer.take(2 * buffer.int32())  # UTF-16


def _topic_partition(buffer: Buffer) -> None:
    buffer.java_utf()
    buffer.int32()


def _hosts(buffer: Buffer, version: int) -> frozenset[Node]:
    """Read up to where errCode stands; return the endpoints with active partitions."""
    if version < 2:
        return frozenset()
    if version < 5:
        return frozenset(_each(buffer, lambda each: _host(each, _topic_partition)))
    _each(buffer, lambda each: (each.int32(), each.java_utf()))  # the topics' dictionary
    hosts = _each(buffer, lambda each: _host(each, _plain_task))
    if version >= 6:
        _each(buffer, lambda each: _host(each, _plain_task))  # standby
    return frozenset(hosts)


def _host(buffer: Buffer, partition: Callable[[Buffer], None]) -> Node:
    host = Node(buffer.java_utf(), buffer.int32())
    _each(buffer, partition)
    return host


def _endpoint(data: bytes) -> Node | None:
    host, colon, port = data.decode(errors="replace").rpartition(":")
    return (
        Node(host.removeprefix("[").removesuffix("]"), int(port)) if _is_port(colon, port) else None
    )


def _is_port(colon: str, port: str) -> bool:
    return bool(colon) and len(port) <= 5 and port.isascii() and port.isdigit()
