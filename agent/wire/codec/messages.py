"""The group protocols' messages, one shape for all versions.

Source: https://kafka.apache.org/protocol. A field that a version lacks is None or empty. Error
codes stay numbers: a broker may be newer than the agent.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

Partition = tuple[Any, int]
"""A topic (its name, or the text of its id) or a kind and subtopology, and a number."""
Partitions = frozenset[Partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSoftware:
    """ApiVersions: the client's name and version."""

    name: str
    version: str


class HostPort(NamedTuple):
    """A broker's address."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationResult:
    """SaslAuthenticate's response without its token."""

    error: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLookup:
    """FindCoordinator's request of a client that looks for one group, as members do."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorNodes:
    """FindCoordinator's response, without the unavailable ones."""

    nodes: tuple[HostPort, ...]
    error: int = 0
    """Of the first one that is not available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """Metadata's or DescribeCluster's response."""

    cluster_id: str | None
    brokers: tuple[HostPort, ...]
    topics: tuple[tuple[str, str], ...] = ()
    """Ids and names; of short responses only."""
    refused: tuple[str, ...] = ()
    """Names of topics that the client may not read; of short responses only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    group: str
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """Name and embedded metadata, the most wanted first."""
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    """A Java consumer's max.poll.interval."""
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResponse:
    error: int
    generation: int
    protocol: str | None
    leader: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRequest:
    """SyncGroup, Heartbeat, OffsetCommit: the sender and its generation."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest(MemberRequest):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResponse:
    error: int
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest(MemberRequest):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest(MemberRequest):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """A response of errors alone; OffsetCommit has one a partition."""

    errors: frozenset[int]


class LeavingMember(NamedTuple):
    """A member that leaves, or is made to."""

    member_id: str
    instance_id: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequest:
    group: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHeartbeatRequest:
    """Consumer (KIP-848), share (KIP-932) and streams (KIP-1071) groups. None is "unchanged"."""

    group_type: str
    group: str
    member_id: str
    epoch: int
    instance_id: str | None
    rebalance_timeout_ms: int | None
    subscription: frozenset[str] | None
    owned: Partitions | None
    process_id: str | None
    endpoint: HostPort | None


class SentHeartbeat(NamedTuple):
    """The part of a `GroupHeartbeatRequest` that its response needs."""

    epoch: int
    is_full: bool
    """It repeats the member's subscription."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHeartbeatResponse:
    error: int
    member_id: str | None
    epoch: int
    target: Partitions | None
    warmups: bool
    endpoint_epoch: int | None
    status: tuple[tuple[int, str], ...] = ()
    """Of a streams group: what is wrong with its topology, by code and text."""
