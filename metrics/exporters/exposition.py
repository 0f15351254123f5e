"""Exporters' input: merged rows and the agent's own counts, frozen at one instant.

`aggregation.live.live` builds the live part from a `Snapshot`, the application the agent's part.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from metrics.model.snapshot import (
    Durations,
    GroupKey,
    IncidentTotals,
    InspectedGroup,
    MemberRow,
    RebalanceKey,
    Rebalances,
)
from metrics.model.status import RebalanceStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group: the plain max of its members and instances."""

    cluster: str
    group: str
    group_type: str
    status: RebalanceStatus
    peak: RebalanceStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRow:
    """An application: the plain max of its consumers and instances."""

    cluster: str
    app: str
    status: RebalanceStatus
    peak: RebalanceStatus


class DurationKey(NamedTuple):
    """The labels of the episode histogram."""

    cluster: str
    app: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """One row per exported label set."""

    consumers: tuple[MemberRow, ...] = ()
    instances: tuple[MemberRow, ...] = ()
    members: tuple[MemberRow, ...] = ()
    """The consumers before equal labels are merged: each has its own member id."""
    groups: tuple[GroupRow, ...] = ()
    unseen: tuple[GroupKey, ...] = ()
    """Groups with members in an unknown state: no data is never a 0."""
    apps: tuple[AppRow, ...] = ()
    inspected: tuple[InspectedGroup, ...] = ()
    durations: dict[DurationKey, Durations] = field(default_factory=dict)
    rebalances: dict[RebalanceKey, Rebalances] = field(default_factory=dict)
    incidents: IncidentTotals = field(default_factory=IncidentTotals)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStats:
    """One file's own counts."""

    path: str
    read_bytes: int
    client_lines: int
    """Lines that may be a client's."""
    signals: int
    members: int
    is_blind: bool = False
    """It has many lines of a client, and no member came of them."""
    has_no_group: bool = False
    """The application assigns the partitions of its consumers itself: no member is missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStats:
    """One source's own counts."""

    name: str
    type: str
    up: bool
    members: int
    """Members that it has reported since the agent's start."""
    read_bytes: int
    signals: int
    unparsed: int
    lag_s: float
    errors: dict[str, int]
    files: tuple[FileStats, ...] | None = None
    """Of a source that reads files."""
    clocks: dict[str, float] = field(default_factory=dict)
    """Seconds that clocks of agents are ahead, which a hub corrects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputStats:
    """One output's own counts."""

    name: str
    written: int
    buffered: int
    dropped: int
    errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStats:
    """The agent's own counts. ``tracker`` holds the tracker's, by its names."""

    version: str
    python_version: str
    sources: tuple[SourceStats, ...] = ()
    outputs: tuple[OutputStats, ...] = ()
    tracker: dict[str, int] = field(default_factory=dict)
    reloads: dict[str, int] = field(default_factory=dict)
    """By outcome: ``success`` or ``failure``."""
    external_url: str = ""
    """Address of the agent's pages; empty: not set."""


@dataclass(frozen=True, slots=True)
class Exposition:
    """Content of one scrape."""

    live: Live
    agent: AgentStats
