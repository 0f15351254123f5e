"""Status of members now, from many agents' records.

Theory of operation. Each agent's records arrive in its own order, and only they move the members
that it sees, so no clocks are compared. Members that one agent cannot distinguish share a row: its
status is the max over their open episodes. The rows of a silent agent are not shown: no data is no
series. Once it is back they are shown again, as its records hold the time between.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import msgspec

from metrics.model.sample import Outcome, Sample, SampleKind, Scope, parse_time
from metrics.model.snapshot import GroupKey, MemberRow, StatusCounts
from metrics.model.status import RebalanceStatus
from metrics.model.transition import PeakWindow, add_to_window, peak
from metrics.tracking.status_track import StatusConfig

NONE = RebalanceStatus.NONE
SILENT_S = 90.0
"""An agent sends periodic samples every 15 s; after this long without any, it is silent."""
GONE_S = 900.0
"""After this long its rows are evicted: pods come and go; a later return takes 15 s to refill."""
_NO_COUNTS = StatusCounts({}, {}, {})


class FleetMemberKey(NamedTuple):
    """A member as one agent sees it."""

    spool: str
    cluster: str
    group: str
    scope: str
    client_id: str
    group_instance_id: str
    host: str


class OpenEpisode(NamedTuple):
    """An episode under way. ``since_at`` is Unix seconds."""

    status: RebalanceStatus
    since_at: float
    reason: str | None


@dataclass(slots=True, kw_only=True)
class FleetMember:
    """One member's state; instants are Unix seconds of its agent's clock."""

    app: str
    group_type: str
    member_id: str | None = None
    generation: int | None = None
    open: dict[str, OpenEpisode] = field(default_factory=dict)
    steps: PeakWindow = ()
    since_at: float = 0.0
    left_at: float | None = None
    known: bool = True

    @property
    def highest(self) -> OpenEpisode:
        """The open episode with the highest status."""
        return max(self.open.values(), default=OpenEpisode(NONE, self.since_at, None))


class Fleet:
    """All members, by agent; the longest silent are evicted when there are too many."""

    def __init__(self, config: StatusConfig, state: object = None) -> None:
        """Start empty or from a `state`."""
        self._config = config
        self._rows: dict[FleetMemberKey, FleetMember] = {}
        self._contact_at: dict[str, float] = {}
        self._groups: dict[GroupKey, None] = {}
        self.evicted = 0
        if state is not None:
            saved = msgspec.convert(state, _FleetState)
            self._rows = dict(saved.rows)
            self._contact_at = saved.heard
            self._groups = dict.fromkeys(saved.groups)

    def state(self) -> object:
        """Return the state for a restart, in JSON types."""
        saved = _FleetState(list(self._rows.items()), self._contact_at, list(self._groups))
        return msgspec.to_builtins(saved)

    def record_contact(self, spool: str, now: float) -> None:
        """Note a sign of life of an agent."""
        self._contact_at[spool] = now

    def apply(self, spool: str, record: Sample) -> None:
        """Apply one record, in its agent's order."""
        if record.scope not in {Scope.CONSUMER, Scope.STREAMS}:
            return
        row = self._get_or_create(spool, record)
        at = min(parse_time(record.ts), self._contact_at.get(spool, inf))  # a clock may be ahead
        row.app, row.group_type = record.app, record.group_type
        row.member_id = record.member_id or row.member_id
        row.generation = record.generation if record.generation is not None else row.generation
        match record.kind:
            case SampleKind.TRANSITION:
                _move(row, record, at)
            case SampleKind.LOST:
                row.open.pop(record.episode or "", None)
                row.known = bool(row.open)
            case SampleKind.SAMPLE:
                _confirm(row, record, at)
            case SampleKind.SIGNAL:
                row.known = True
            case _:  # of groups, or of attributes
                pass

    def rows(self, scope: Scope, now: float) -> Iterator[MemberRow]:
        """Return the members of live agents; evict those that left long ago."""
        self._evict_silent(now)
        for key, row in self._rows.items():
            if key.scope == scope and self._is_shown(key, row, now):
                yield self._member_row(key, row, now)

    def groups(self) -> tuple[GroupKey, ...]:
        """Return every group seen so far."""
        return tuple(self._groups)

    def unseen(self, now: float) -> frozenset[tuple[str, str]]:
        """Return cluster and name of groups with a member that no live agent shows now."""
        return frozenset(
            (key.cluster, key.group)
            for key, row in self._rows.items()
            if row.left_at is None and not self._is_shown(key, row, now)
        )

    def _is_shown(self, key: FleetMemberKey, row: FleetMember, now: float) -> bool:
        return row.known and now < self._contact_at.get(key.spool, -inf) + SILENT_S

    def _get_or_create(self, spool: str, record: Sample) -> FleetMember:
        key = FleetMemberKey(
            spool,
            record.cluster,
            record.group,
            record.scope.value,
            record.client_id or "",
            record.group_instance_id or "",
            record.host,
        )
        row = self._rows.pop(key, None)
        if row is None:
            row = FleetMember(
                app=record.app, group_type=record.group_type, since_at=parse_time(record.ts)
            )
            self._groups.setdefault(
                GroupKey(record.cluster, record.app, record.group, record.group_type)
            )
            self._keep_bounds()
        self._rows[key] = row
        return row

    def _keep_bounds(self) -> None:
        while len(self._rows) >= self._config.members:
            del self._rows[next(iter(self._rows))]
            self.evicted += 1
        while len(self._groups) > self._config.groups:
            del self._groups[next(iter(self._groups))]
            self.evicted += 1

    def _evict_silent(self, now: float) -> None:
        self._contact_at = {
            spool: at for spool, at in self._contact_at.items() if now < at + GONE_S
        }
        kept = {
            key: row
            for key, row in self._rows.items()
            if key.spool in self._contact_at and not self._is_gone(row, now)
        }
        if len(kept) < len(self._rows):
            self._forget_groups(kept)
        self._rows = kept

    def _forget_groups(self, kept: Mapping[FleetMemberKey, FleetMember]) -> None:
        """Drop each group with a last member that disappeared together with its agent.

        If its last member has left, the group stays, at status 0.
        """
        there = {(key.cluster, key.group) for key in kept}
        gone = {
            (key.cluster, key.group)
            for key, row in self._rows.items()
            if key not in kept and row.left_at is None
        }
        self._groups = {
            group: None
            for group in self._groups
            if (group.cluster, group.group) not in gone - there
        }

    def _is_gone(self, row: FleetMember, now: float) -> bool:
        return row.left_at is not None and now >= row.left_at + self._config.forget_after_s

    def _member_row(self, key: FleetMemberKey, row: FleetMember, now: float) -> MemberRow:
        held = row.highest
        lingers = row.left_at is not None and now < row.left_at + self._config.linger_s
        status = RebalanceStatus.USER_REQUESTED if lingers and not held.status else held.status
        return MemberRow(
            cluster=key.cluster,
            app=row.app,
            group=key.group,
            group_type=row.group_type,
            client_id=key.client_id,
            host=key.host,
            status=status,
            peak=peak(status, row.steps, now, self._config.peak_window_s),
            since_at=held.since_at,
            reason=held.reason,
            member_id=row.member_id,
            group_instance_id=key.group_instance_id or None,
            generation=row.generation,
            counts=_NO_COUNTS,
        )


class _FleetState(msgspec.Struct):
    rows: list[tuple[FleetMemberKey, FleetMember]]
    heard: dict[str, float]
    groups: list[GroupKey]


def _confirm(row: FleetMember, record: Sample, at: float) -> None:
    """Apply a periodic sample: it may show an episode that began before this hub's start."""
    row.known = True
    if record.to and record.episode and record.episode not in row.open:
        row.open[record.episode] = OpenEpisode(RebalanceStatus(record.to), at, record.reason)


def _move(row: FleetMember, record: Sample, at: float) -> None:
    name = record.episode or ""
    row.known = True
    row.steps = add_to_window(row.steps, row.highest.status, at)
    if record.to:
        row.open[name] = OpenEpisode(RebalanceStatus(record.to), at, record.reason)
        row.left_at = None
        return
    row.open.pop(name, None)
    row.since_at = at
    row.left_at = at if record.outcome is Outcome.LEFT else None
