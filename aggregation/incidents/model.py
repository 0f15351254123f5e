"""Incidents of a group: values, and the closed set of kinds.

Source: incidents.md sections 1, 2 and 5.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from aggregation.incidents.settings import ClientKind
from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.root_cause import Certainty
from aggregation.rebalances.segments import MemberRef
from metrics.model.status import RebalanceStatus

OTHER_MEMBERS = "other members"
"""Missing evidence: members that no source of these records sees."""


class IncidentKind(StrEnum):
    """Kind of an incident."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    RESTART = "restart"
    ROLLOUT = "rollout"
    CRASH_LOOP = "crash_loop"
    POLL_TIMEOUT = "poll_timeout"
    SESSION_EXPIRED = "session_expired"
    STALE_MEMBER = "stale_member"
    ENFORCED = "enforced"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    METADATA_CHANGED = "metadata_changed"
    REMOVED_BY_ADMIN = "removed_by_admin"
    FENCED = "fenced"
    JOIN_FAILED = "join_failed"
    COORDINATOR_MOVED = "coordinator_moved"
    TASK_CONFIGURATION = "task_configuration"
    PROBING = "probing"
    VERSION_PROBING = "version_probing"
    ENDPOINT_UPDATE = "endpoint_update"
    UNKNOWN = "unknown"

    @property
    def status(self) -> RebalanceStatus | None:
        """Status that the root cause sets; None if it sets none."""
        return _STATUS.get(self)

    @property
    def is_caused_by_a_member(self) -> bool:
        """Whether a member began it: not if topics, tasks or the coordinator changed."""
        return self not in _BY_NOBODY

    @property
    def is_follow_up(self) -> bool:
        """Whether a Streams assignment required it: at once, or at a set time."""
        return self in _FOLLOW_UPS


_STATUS = {
    IncidentKind.MEMBER_JOINED: RebalanceStatus.NEW_MEMBER,
    IncidentKind.MEMBER_LEFT: RebalanceStatus.USER_REQUESTED,
    IncidentKind.RESTART: RebalanceStatus.USER_REQUESTED,
    IncidentKind.ROLLOUT: RebalanceStatus.USER_REQUESTED,
    IncidentKind.CRASH_LOOP: RebalanceStatus.USER_REQUESTED,
    IncidentKind.POLL_TIMEOUT: RebalanceStatus.DROPPED_GROUP,
    IncidentKind.SESSION_EXPIRED: RebalanceStatus.UNKNOWN_MEMBER,
    IncidentKind.STALE_MEMBER: RebalanceStatus.STALE_MEMBER,
    IncidentKind.ENFORCED: RebalanceStatus.USER_REQUESTED,
    IncidentKind.SUBSCRIPTION_CHANGED: RebalanceStatus.SUBSCRIPTION_CHANGED,
    IncidentKind.METADATA_CHANGED: RebalanceStatus.METADATA_CHANGED,
    IncidentKind.REMOVED_BY_ADMIN: RebalanceStatus.UNKNOWN_MEMBER,
    IncidentKind.COORDINATOR_MOVED: RebalanceStatus.RETRY_ON_ERROR,
    IncidentKind.TASK_CONFIGURATION: RebalanceStatus.METADATA_CHANGED,
    IncidentKind.PROBING: RebalanceStatus.ASSIGNMENT_PROBING,
    IncidentKind.VERSION_PROBING: RebalanceStatus.VERSION_PROBING,
    IncidentKind.ENDPOINT_UPDATE: RebalanceStatus.ENDPOINT_UPDATE,
}
_FOLLOW_UPS = {
    IncidentKind.PROBING,
    IncidentKind.VERSION_PROBING,
    IncidentKind.ENDPOINT_UPDATE,
}
_BY_NOBODY = {
    IncidentKind.METADATA_CHANGED,
    IncidentKind.TASK_CONFIGURATION,
    IncidentKind.COORDINATOR_MOVED,
    IncidentKind.UNKNOWN,
}


class DepartureMode(StrEnum):
    """How a member went, the strongest evidence first."""

    REMOVED = "removed"
    DROPPED = "dropped"
    FENCED = "fenced"
    LEFT = "left"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDeparture:
    """One member that went, and perhaps came back. Instants are Unix seconds."""

    member: MemberRef
    how: DepartureMode
    at: float
    returned_at: float | None = None
    is_silent: bool = False
    """Others noticed it: the member was silent for a session timeout before."""
    closed_at: float | None = None
    """Close of its consumer without a leave: its session expired later."""
    expired_at: float | None = None
    """End of its session, if the group waited until then."""
    returned_as_new: bool = False
    """It joined as a new member: probably its process was restarted."""


class Wait(NamedTuple):
    """A member that the group waits for, or waited for."""

    member: MemberRef
    seconds: float
    joined_at: float | None
    """Unix seconds; None: it has not joined."""
    certainty: Certainty = Certainty.SEEN
    """Inferred: it is one of several members, and no source shows the right one."""
    member_id: str | None = None
    """It distinguishes members that share all names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSpan:
    """One rebalance of an incident. Instants are Unix seconds."""

    id: str
    started_at: float
    ended_at: float
    is_open: bool
    generations: tuple[int, ...]
    status: RebalanceStatus | None
    """Status of this rebalance's own trigger; if that was not seen, of the incident's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of an incident; None: no source shows it."""

    unread_partition_seconds: float | None = None
    member_seconds: float = 0.0
    partitions_moved: int | None = None
    lag: int | None = None
    """The highest lag in records while it lasted, and until the group had caught up."""
    lag_before: int | None = None
    """The lag before it, if the lag grew."""
    caught_up_at: float | None = None
    """Time at which the lag was as before (Unix seconds); None: not yet, or not seen."""
    away_partition_seconds: float | None = None
    """Part of the cost that no setting saves: returned members were away from their partitions."""
    partitions_to_move: int | None = None
    """Partitions that had to move, by the numbers that each member had before and after."""
    moved_partition_seconds: float | None = None
    """The same, each for the length of its rebalance."""
    partitions_handed_over: int | None = None
    """The part of them that remaining members give to others."""


def save_by_waiting(unread_s: float | None, away_s: float | None) -> float | None:
    """Return the unread seconds that a group saves if it waits for members that come back.

    The partitions of these members are unread during the wait. A result below 0 means that the
    wait costs more than the recorded rebalances.
    """
    return None if unread_s is None or away_s is None else unread_s - away_s


class RelatedCause(NamedTuple):
    """An independent cause that fell into the incident's rebalance."""

    kind: IncidentKind
    members: tuple[MemberRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Everything that follows from one thing that happened to a group. Instants: Unix seconds."""

    id: str
    ref: GroupRef
    kind: IncidentKind
    certainty: Certainty
    started_at: float
    ended_at: float | None
    """None while it goes on."""
    is_final: bool
    """It ended 10 minutes ago or earlier: no rebalance is added any more."""
    members: tuple[MemberRef, ...]
    member_ids: dict[MemberRef, str] = field(default_factory=dict)
    """The last member id of each member that it names, if a source shows one."""
    names: Mapping[MemberRef, str] = field(default_factory=dict)
    """The group's members whose client id is not their name (`member_names`)."""
    reason: str | None = None
    detail: dict[str, object] = field(default_factory=dict)
    rebalances: tuple[RebalanceSpan, ...] = ()
    waiting_for: tuple[Wait, ...] = ()
    departures: tuple[MemberDeparture, ...] = ()
    members_out: tuple[MemberRef, ...] = ()
    """Members that went because of it and are not back."""
    also: tuple[RelatedCause, ...] = ()
    cost: Cost = field(default_factory=Cost)
    sources: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    group_type: str = "classic"
    """Type of the group at its end: classic, consumer, share or streams."""
    client_kind: ClientKind = ClientKind.CONSUMER
    may_stop_others: bool = True
    """Other members take part, and the assignor, a setting, may be an eager one: it stops them."""
    notice_s: float | None = None
    """Seconds until the last of the others had learned of a rebalance, on average."""
    poll_wait_s: float | None = None
    """Seconds from there to a member's join, at its next poll, on average."""
    group_size: int | None = None
    """Members that took part in its largest rebalance."""
    joins_without_poll: bool | None = None
    """All its clients are librdkafka, which joins a cooperative group again without a poll."""

    def name_of(self, member: MemberRef) -> str:
        """Return a member's name: its client id, with a distinction from others that have it."""
        return self.names.get(member) or member.client_id

    @property
    def unread_at_least(self) -> bool:
        """Whether its unread time is a lower bound, or not known: then so is a sum with it.

        The last leave of a group has no rebalance and costs nothing.
        """
        if self.cost.unread_partition_seconds is None:
            return bool(self.rebalances)
        return "unknown_timeout" in self.detail

    @property
    def is_ongoing(self) -> bool:
        """Whether one of its rebalances runs, or its member is still out."""
        return self.ended_at is None
