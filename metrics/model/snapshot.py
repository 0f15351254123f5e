"""Frozen rows: all states at one instant, as exporters and sinks read them.

Members with equal labels are separate rows here; `aggregation.live.live` computes their max.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from metrics.model.status import RebalanceStatus

DURATION_BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
"""Bounds of the histogram: a cooperative rebalance takes 0.1 s, a stuck one half an hour."""


class StatusCounts(NamedTuple):
    """A member's counts so far, by status. Seconds are a float, the others whole."""

    rebalances: dict[RebalanceStatus, int]
    transitions: dict[RebalanceStatus, int]
    seconds: dict[RebalanceStatus, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """One consumer or one Streams instance. ``status`` is the gauge's value: a 6 lingers."""

    cluster: str
    app: str
    group: str
    group_type: str
    client_id: str
    host: str
    status: RebalanceStatus
    peak: RebalanceStatus
    since_at: float
    reason: str | None = None
    member_id: str | None = None
    group_instance_id: str | None = None
    protocol_type: str | None = None
    assignor: str | None = None
    assignors: tuple[str, ...] | None = None
    """The assignors that it supports, the preferred one first."""
    leader: str | None = None
    software: str | None = None
    state: str | None = None
    """A Streams thread's; an instance has that of its last reported thread."""
    generation: int | None = None
    instance: str | None = None
    """Streams instance of a thread's consumer."""
    counts: StatusCounts


class GroupKey(NamedTuple):
    """A group of one cluster, and the application that it belongs to."""

    cluster: str
    app: str
    group: str
    group_type: str


class TopicLag(NamedTuple):
    """A group's lag in one topic, in records."""

    topic: str
    total: int | None
    """None: the lag of one partition is not known."""
    partitions: tuple[tuple[int, int], ...] = ()
    """Partition and lag, if they are wanted."""


class InspectedMember(NamedTuple):
    """A member of a group, as its coordinator names it."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedGroup:
    """A group as its coordinator described it at the last poll."""

    cluster: str
    group: str
    group_type: str
    state: str
    """As Kafka writes it."""
    members: int | None
    """None: the group is listed, and could not be described."""
    generation: int | None
    """The group's epoch; only members report a classic group's generation."""
    changes: int
    """Number of membership changes between polls."""
    lags: tuple[TopicLag, ...] = ()
    who: frozenset[InspectedMember] = frozenset()
    """Its members; no metric shows them."""


@dataclass(frozen=True, slots=True)
class Durations:
    """A group's histogram of episodes: counts per bucket of `DURATION_BUCKETS_S`, and above."""

    buckets: tuple[int, ...]
    sum_s: float


class GroupName(NamedTuple):
    """The labels of a group's own metrics."""

    cluster: str
    group: str


class RebalanceKey(NamedTuple):
    """The labels of a group's own rebalances: ``status`` names the code of their trigger."""

    cluster: str
    group: str
    status: str


class IncidentKey(NamedTuple):
    """The labels of a group's incidents."""

    cluster: str
    group: str
    kind: str


class JoinFailureKey(NamedTuple):
    """The labels of a group's joins that failed."""

    cluster: str
    group: str
    error: str
    """Kafka's name of the error."""


class ChangeKey(NamedTuple):
    """Labels of the avoidable cost: a group, and the change of one setting."""

    cluster: str
    group: str
    setting: str
    change: str
    """The same for people: static membership."""


class AvoidableCost(NamedTuple):
    """Rebalances and unread time that a change would have avoided, in the known incidents."""

    rebalances: int
    unread_s: float | None
    """None: no source shows assignments."""
    of_rebalances: int
    within_s: float
    """From the first incident's start to the last one's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentTotals:
    """Totals of incidents for exporters; only hub and standalone have them, to count each once."""

    final: dict[IncidentKey, int] = field(default_factory=dict)
    ongoing: dict[IncidentKey, int] = field(default_factory=dict)
    recent: dict[IncidentKey, int] = field(default_factory=dict)
    """Numbers of those that are not final."""
    unplanned: dict[GroupName, int] = field(default_factory=dict)
    """Numbers of the unplanned ones among them."""
    unread_s: dict[GroupName, float] = field(default_factory=dict)
    """Partition seconds without a reader."""
    member_s: dict[GroupName, float] = field(default_factory=dict)
    """Member seconds above status 0."""
    join_failures: dict[JoinFailureKey, int] = field(default_factory=dict)
    last_ends: dict[GroupName, float] = field(default_factory=dict)
    """End of each group's last rebalance (Unix seconds)."""
    avoidable: dict[ChangeKey, AvoidableCost] = field(default_factory=dict)
    """Of the best change of each group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalances:
    """Their number and durations, and the last one. ``last_at`` is Unix seconds."""

    durations: Durations
    last_id: str = ""
    last_s: float = 0.0
    last_at: float = 0.0
    last_member_s: float = 0.0
    last_member_at: float = 0.0
    """Duration and end of the slowest member in the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All states at ``at`` (Unix seconds)."""

    at: float
    consumers: tuple[MemberRow, ...] = ()
    instances: tuple[MemberRow, ...] = ()
    groups: tuple[GroupKey, ...] = ()
    """Every group so far: a group without members stays, at 0."""
    unseen: frozenset[tuple[str, str]] = frozenset()
    """Cluster and name of groups with a member in an unknown state: if the group has no other
    member, it has no status."""
    inspected: tuple[InspectedGroup, ...] = ()
    durations: dict[GroupKey, Durations] = field(default_factory=dict)
    rebalances: dict[RebalanceKey, Rebalances] = field(default_factory=dict)
    """Of whole groups; from hub and standalone alone, so that nothing is counted twice."""
    incidents: IncidentTotals = field(default_factory=IncidentTotals)
    members_by_origin: dict[str, int] = field(default_factory=dict)
    """Number of members by origin."""
    counts: dict[str, int] = field(default_factory=dict)
    """The tracker's counts: suppressed, unexplained, late, lost, evicted, groups_evicted."""
