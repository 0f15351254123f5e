"""Groups as inspection reports them: one shape for all types and all broker versions."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class GroupType(StrEnum):
    """The types of groups, as Kafka writes them."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"
    UNKNOWN = "Unknown"


class GroupState(StrEnum):
    """The states of all types of groups, as Kafka 4 writes them."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


_OLDER_STATES = {
    "awaitingsync": GroupState.COMPLETING_REBALANCE,
    "rebalancing": GroupState.PREPARING_REBALANCE,
    "initializing": GroupState.UNKNOWN,
}
"""Names of brokers before 1.1 and of early broker versions of KIP-848."""
_STATES = {state.lower(): state for state in GroupState} | _OLDER_STATES
_TYPES = {kind.lower(): kind for kind in GroupType}

Assignment = dict[str, tuple[int, ...]]
"""Partitions by topic, or tasks by subtopology."""


@dataclass(frozen=True, slots=True)
class Node:
    """One broker of the cluster."""

    node_id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """Return ``host:port``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.address} ({self.node_id})"


class DownBroker(NamedTuple):
    """A broker that could not be used, and why. Its groups are missing: a partial result."""

    address: str
    node_id: int | None
    error: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One group as ListGroups reports it; a broker below v5 reports no type, below v4 no state."""

    group: str
    type: GroupType | None
    protocol: str
    state: GroupState | None
    coordinator: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """One member; fields that its group's type lacks are None."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None = None
    epoch: int | None = None
    protocol: str | None = None
    """Classic, or the group's own protocol while the group is being upgraded (KIP-848)."""
    subscription: tuple[str, ...] | None = None
    """None: it is not in a consumer's format, or not reported in this state."""
    subscription_regex: str | None = None
    owned: Assignment | dict[str, Assignment] | None = None
    """The current assignment. Streams groups: by active, standby and warm-up."""
    target: Assignment | dict[str, Assignment] | None = None
    claimed: Assignment | None = None
    """Classic groups: the partitions that the member owned when it joined."""
    claimed_generation: int | None = None
    user_data: str | None = None
    """Classic groups: the subscription's, as text, or as size and hash."""
    assignment_user_data: str | None = None
    process_id: str | None = None
    endpoint: str | None = None
    topology_epoch: int | None = None
    client_tags: dict[str, str] | None = None
    """Streams groups: by which standby tasks are spread (KIP-708)."""
    url: str | None = None
    """Of a Connect worker, or of a schema registry."""
    connectors: tuple[str, ...] | None = None
    """Of a Connect worker; its tasks are in ``owned``, by connector."""
    assignors: tuple[str, ...] | None = None
    """Classic groups: the supported ones, the preferred first; an observer's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorVote:
    """An assignor that some member of a classic group supports."""

    assignor: str
    is_chosen: bool
    supported_by: int
    """Members that support it."""
    votes: int
    """Members that prefer it among those that all support."""
    reason: str
    """Why the coordinator chose it, or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffset:
    """A group's position in one partition. Values that are not known are None."""

    topic: str
    partition: int
    current_offset: int | None
    """The committed offset; a share group's start offset."""
    leader_epoch: int | None
    end_offset: int | None
    lag: int | None
    time_lag_s: float | None = None
    """The age of the oldest unread record in seconds, if it is wanted and timestamps show it."""
    task: str | None = None
    """Streams groups: subtopology and partition."""
    member_id: str | None = None
    host: str | None = None
    client_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One group as its coordinator describes it."""

    group: str
    type: GroupType
    protocol: str
    """A classic group's protocol type (consumer, connect, ...), else its type in lower case."""
    state: GroupState
    coordinator: Node
    assignor: str | None
    simple: bool
    """The group has committed offsets and no members: it never used the group protocol."""
    epoch: int | None = None
    target_epoch: int | None = None
    topology_epoch: int | None = None
    generation: int | None = None
    """Classic groups: an observer's, as no broker reports generation or leader."""
    leader: str | None = None
    """A member id. Members of Connect and of a schema registry name theirs."""
    leader_url: str | None = None
    """Of Connect's leader, or a schema registry's."""
    assignor_votes: tuple[AssignorVote, ...] | None = None
    """Classic groups: how the assignor was chosen; an observer's."""
    authorized_operations: tuple[str, ...] | None = None
    members: tuple[MemberDescription, ...] = ()
    subtopologies: dict[str, tuple[str, ...]] | None = None
    """Streams groups: source topics by subtopology."""
    offsets: tuple[PartitionOffset, ...] | None = None
    """None: not requested, or not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A group that could not be described.

    ``error`` is a sentence. ``code`` is Kafka's name of an error of the group, in capitals, or the
    reason of a broker's fault, in small letters.
    """

    group: str
    code: str
    error: str
    type: GroupType | None = None
    state: GroupState | None = None
    """As listed; None: the group is not listed, or the list reports neither."""

    @property
    def is_of_broker(self) -> bool:
        """Whether the broker failed, and all its groups with it."""
        return self.code.islower()


def parse_state(text: str) -> GroupState | None:
    """Return the state that a broker's text names; None if the broker reports none."""
    return _STATES.get(text.lower(), GroupState.UNKNOWN) if text else None


def parse_type(text: str) -> GroupType | None:
    """Return the type that a broker's text names; None if the broker reports none."""
    return _TYPES.get(text.lower(), GroupType.UNKNOWN) if text else None
