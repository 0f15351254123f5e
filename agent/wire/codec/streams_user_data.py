"""Kafka Streams' user data in the "stream" protocol: SubscriptionInfo, AssignmentInfo, v1 to v11.

Sources:
https://github.com/apache/kafka/blob/3.8.0/streams/src/main/resources/common/message/SubscriptionInfoData.json
https://github.com/apache/kafka/blob/3.8.0/streams/src/main/java/org/apache/kafka/streams/processor/internals/assignment/AssignmentInfo.java
The follow-up is decided as in StreamsPartitionAssignor.maybeScheduleFollowupRebalance, in its
order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from agent.errors import DecodeError
from agent.wire.codec.buffer import Buffer
from agent.wire.codec.messages import HostPort
from metrics.model.names import clip_name
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
    """A Streams thread's metadata at its join. Beyond v11 only the versions are known."""

    version: int
    process_id: str | None = None
    endpoint: HostPort | None = None
    """``application.server``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInfo:
    """The leader's data for a Streams thread beside its partitions."""

    version: int
    commonly_supported: int
    hosts: frozenset[HostPort] | None = None
    """The instances' endpoints; None beyond v11, a layout that is not known."""
    error: int = 0
    next_rebalance_ms: int = _NEVER_MS
    """Unix milliseconds; 0 is at once."""


def read_subscription_info(data: bytes) -> SubscriptionInfo:
    """Read SubscriptionInfo.

    Raises:
        DecodeError: the bytes are something else.

    """
    buffer = Buffer(data)
    version = _read_version(buffer)
    if version > KNOWN_VERSION:
        return SubscriptionInfo(version=version)
    if version >= 3:
        buffer.int32()  # the latest supported version
    process_id = str(UUID(bytes=buffer.take(16)))
    if version < 7:
        for _ in ("active", "standby"):
            _read_array(buffer, _skip_task)
    endpoint = _parse_endpoint(buffer.nullable_bytes()) if version >= 2 else None
    return SubscriptionInfo(version=version, process_id=process_id, endpoint=endpoint)


def read_assignment_info(data: bytes) -> AssignmentInfo:
    """Read AssignmentInfo.

    Raises:
        DecodeError: the bytes are something else.

    """
    buffer = Buffer(data)
    version = _read_version(buffer)
    common = buffer.int32() if version >= 3 else -1
    if version > KNOWN_VERSION:
        return AssignmentInfo(version=version, commonly_supported=common)
    task = _skip_topology_task if version >= _NAMED_TOPOLOGIES else _skip_task
    _read_array(buffer, task)
    _read_array(buffer, lambda each: (task(each), _read_array(each, _skip_topic_partition)))
    hosts = _read_hosts(buffer, version)
    return AssignmentInfo(
        version=version,
        commonly_supported=common,
        hosts=hosts,
        error=buffer.int32() if version >= 4 else 0,
        next_rebalance_ms=buffer.int64() if version >= 7 else _NEVER_MS,
    )


def find_follow_up(sent: SubscriptionInfo, given: AssignmentInfo, at: float) -> FollowUp | None:
    """Return the follow-up rebalance that an assignment of Unix seconds ``at`` requests."""
    if given.error:  # the client shuts down or fails before it looks at the rest
        return None
    if given.commonly_supported > sent.version or given.version < sent.version:
        return _immediate_follow_up(RebalanceStatus.VERSION_PROBING, at, "version probing")
    if sent.endpoint is not None and given.hosts and sent.endpoint not in given.hosts:
        where = f"{sent.endpoint.host}:{sent.endpoint.port}"
        return _immediate_follow_up(
            RebalanceStatus.ENDPOINT_UPDATE, at, f"new host endpoint {where}"
        )
    if given.next_rebalance_ms == 0:
        return _immediate_follow_up(
            RebalanceStatus.REVOCATION_NEEDED, at, "tasks move after their revocation"
        )
    if given.next_rebalance_ms == _NEVER_MS:
        return None
    return FollowUp(
        status=RebalanceStatus.ASSIGNMENT_PROBING,
        at=at,
        reason="a probing rebalance is scheduled",
        due_at=given.next_rebalance_ms / 1000,
    )


def _immediate_follow_up(status: RebalanceStatus, at: float, reason: str) -> FollowUp:
    return FollowUp(status=status, at=at, reason=reason)


def _read_version(buffer: Buffer) -> int:
    version = buffer.int32()
    if not 1 <= version <= _VERSION_MAX:
        raise DecodeError(f"Kafka Streams' user data in version {version}")
    return version


def _read_array(buffer: Buffer, read: Callable[[Buffer], _T]) -> list[_T]:
    return buffer.array(read, buffer.int32())


def _skip_task(buffer: Buffer) -> None:
    buffer.int64()  # subtopology and partition


def _skip_topology_task(buffer: Buffer) -> None:
    buffer.int64()
    buffer.take(2 * buffer.int32())  # UTF-16


def _skip_topic_partition(buffer: Buffer) -> None:
    buffer.java_utf()
    buffer.int32()


def _read_hosts(buffer: Buffer, version: int) -> frozenset[HostPort]:
    """Read up to errCode; return the endpoints with active partitions."""
    if version < 2:
        return frozenset()
    if version < 5:
        return frozenset(_read_array(buffer, lambda each: _read_host(each, _skip_topic_partition)))
    _read_array(buffer, lambda each: (each.int32(), each.java_utf()))  # the topics' dictionary
    hosts = _read_array(buffer, lambda each: _read_host(each, _skip_task))
    if version >= 6:
        _read_array(buffer, lambda each: _read_host(each, _skip_task))  # standby
    return frozenset(hosts)


def _read_host(buffer: Buffer, partition: Callable[[Buffer], None]) -> HostPort:
    host = HostPort(buffer.java_utf(), buffer.int32())
    _read_array(buffer, partition)
    return host


def _parse_endpoint(data: bytes) -> HostPort | None:
    host, colon, port = data.decode(errors="replace").rpartition(":")
    return (
        HostPort(clip_name(host.removeprefix("[").removesuffix("]")), int(port))
        if _is_port(colon, port)
        else None
    )


def _is_port(colon: str, port: str) -> bool:
    return bool(colon) and len(port) <= 5 and port.isascii() and port.isdigit()
