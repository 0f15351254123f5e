"""The state of one member or instance, and its bookkeeping.

A track has no rules: its caller decides each move. Recorded times never run back within a track, so
a clock that steps back moves nothing into the past.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from metrics.model.sample import (
    Outcome,
    Sample,
    SampleKind,
    Scope,
    clip_reason,
    digest,
    format_time,
)
from metrics.model.signals import Member, SourceKind, share_texts
from metrics.model.snapshot import GroupKey
from metrics.model.status import RebalanceStatus
from metrics.model.transition import PeakWindow, add_to_window, stale_at
from metrics.model.units import Duration

NONE = RebalanceStatus.NONE
_EPISODE_HEX_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusConfig:
    """Times of the status in seconds, and limits of members and groups."""

    linger_s: Duration = field(default=60.0, metadata={"key": "linger"})
    """Time that a gauge shows UserRequested (6) after a leave."""
    stale_after_s: Duration = field(default=600.0, metadata={"key": "stale_after"})
    """Age at which an unconfirmed status is lost, where max.poll.interval is not known."""
    forget_after_s: Duration = field(default=300.0, metadata={"key": "forget_after"})
    """Time after a leave at which a member and all its series are removed."""
    peak_window_s: Duration = field(default=120.0, metadata={"key": "peak_window"})
    members: int = 20_000
    groups: int = 5_000

    def stale_after(self, member: Member) -> float:
        """Return seconds: twice max.poll.interval, or the default if unknown (semantics.md 3)."""
        if member.max_poll_interval_s is None:
            return self.stale_after_s
        return 2 * member.max_poll_interval_s


class Provenance(NamedTuple):
    """Time and reporter of an event: between reporters time rules, within one the read order."""

    at: float
    source: SourceKind
    origin: str


class Track(
    msgspec.Struct,
    kw_only=True,
    omit_defaults=True,
    rename={
        "origin": "stream",
        "peak_window": "steps",
        "event_counts": "counted",
        "event_names": "named",
    },
):
    """State of one consumer or Streams instance. Instants are Unix seconds.

    ``rename`` has the checkpoint's keys.
    """

    scope: Scope
    key: tuple[str, ...]
    """Its identity in sample ids: that of its first source, whatever others add."""
    member: Member
    client_id: str
    app: str
    source: SourceKind
    origin: str
    """With ``source``: the last reporter."""
    since_at: float
    last_at: float
    confirmed_at: float
    status: RebalanceStatus = NONE
    known: bool = True
    """False after a lost status: no series until the next signal."""
    reason: str | None = None
    generation: int | None = None
    peak_window: PeakWindow = ()
    moved: Provenance | None = None
    """Reporter and time of the last move; `since_at` may be later."""
    ended: Provenance | None = None
    """The last reported end of a rebalance, even if the status was 0."""
    joined_at: float | None = None
    """Time of the last join request; None after its sync."""
    gained: int | None = None
    """Partitions or tasks that the syncs of this episode added; None: not known."""
    assigned: tuple[str, ...] | None = None
    """Partitions that it reads, sorted, by the best source that reports them."""
    assigned_by: SourceKind | None = None
    assigned_at: float = 0.0
    """Time of the report that changed them."""
    emptied_at: float = 0.0
    """Time of a leave that took all of them, until the next report; 0: none did."""
    requested_at: float = 0.0
    """Time of its last request on the wire since it came; 0: none was seen."""
    session_timeout_s: float | None = None
    assignors: tuple[str, ...] | None = None
    """The last one that was recorded."""
    assignor: str | None = None
    """The last one that was recorded."""
    software: str | None = None
    workload: dict[str, str] = msgspec.field(default_factory=dict)
    """Version and image of its application that were recorded."""
    leader: str | None = None
    """The member id of the group's leader at its last join."""
    refused_at: float = 0.0
    """Time of the last refused request that was recorded."""
    left_at: float | None = None
    """Time of the last leave; None when the member is back."""
    removed_at: float | None = None
    """Time at which its coordinator removed it; None when the member is back."""
    is_muted: bool = False
    """See `Signal.is_muted`, of the last one."""
    is_watched: bool = True
    """False where a source has begun again since the last confirmation: it may have missed one."""
    episode: str | None = None
    episode_at: float = 0.0
    highest: RebalanceStatus = NONE
    # These are replaced, never changed: rows share them.
    rebalances: dict[RebalanceStatus, int] = msgspec.field(default_factory=dict)
    transitions: dict[RebalanceStatus, int] = msgspec.field(default_factory=dict)
    seconds: dict[RebalanceStatus, float] = msgspec.field(default_factory=dict)
    shift_s: float = 0.0
    """Seconds that the last reporter's stamps are ahead of its times; ids use the stamps."""
    event_ts: str = ""
    """The clock of ids: `last_at` without periodic samples, as another run may not have these."""
    event_counts: dict[str, int] = msgspec.field(default_factory=dict)
    """Events with ids at ``event_ts``, replaced like `seconds`: equal ones get ordinals."""
    event_names: tuple[str, ...] = ()
    """Those of an older release's checkpoint, each as often as it was."""

    @property
    def group_key(self) -> GroupKey:
        """The group that it belongs to."""
        member = self.member
        return GroupKey(member.cluster, self.app, member.group, member.group_type)

    def share_texts(self) -> None:
        """Share equal texts and counts: a checkpoint has a copy of each for each member."""
        self.key = tuple(map(intern, self.key))
        self.member = share_texts(self.member)
        self.client_id, self.app, self.origin = map(intern, (self.client_id, self.app, self.origin))
        self.moved, self.ended = _share_origin(self.moved), _share_origin(self.ended)
        self.rebalances = _intern_counts(tuple(self.rebalances.items()))
        self.transitions = _intern_counts(tuple(self.transitions.items()))
        counts = Counter(self.event_names) or self.event_counts
        self.event_counts, self.event_names = _intern_events(tuple(counts.items())), ()

    def set_reporter(
        self, source: SourceKind, stream: str, at: float, shift_s: float = 0.0
    ) -> None:
        """Set the reporter; a lost status is 0 from now on, and the time between does not count."""
        self.source, self.origin, self.shift_s = source, stream, shift_s
        if not self.known:
            self.known, self.since_at = True, self.clock(at)

    def move(
        self, to: RebalanceStatus, at: float, reason: str | None, outcome: Outcome | None = None
    ) -> Sample:
        """Change the status and return the transition; opens or closes the episode."""
        before = self.status
        self._leave_status(at)
        if before is NONE:
            self.episode = self._new_id(SampleKind.EPISODE, at, NONE, None)[:_EPISODE_HEX_DIGITS]
            self.episode_at, self.highest, self.gained = self.since_at, NONE, None
        self.status, self.reason = to, clip_reason(reason)
        sample = self.record(
            SampleKind.TRANSITION, at, from_=before, to=to, reason=reason, outcome=outcome
        )
        if to is NONE:
            self.joined_at = None
            self.rebalances = _one_more(self.rebalances, self.highest)
            self.episode = None
        else:
            self.transitions = _one_more(self.transitions, to)
            self.highest = max(self.highest, to)
        return sample

    def confirm(self, at: float) -> None:
        """Note that a source has confirmed the status; times never run back."""
        self.confirmed_at, self.is_watched = max(self.confirmed_at, at), True

    def end(self, at: float) -> None:
        """Record the end of a rebalance, whether it moves the status or not."""
        self.ended = Provenance(at, self.source, self.origin)

    def inherit(self, other: "Track", at: float) -> None:
        """Add the counts of a track that is removed at ``at``: a counter of both must not fall."""
        if other.known:
            current_s = max(0.0, at - other.since_at)
            self.seconds = _sum(self.seconds, {other.status: current_s})
        self.rebalances = _sum(self.rebalances, other.rebalances)
        self.transitions = _sum(self.transitions, other.transitions)
        self.seconds = _sum(self.seconds, other.seconds)

    def lose(self, at: float, reason: str) -> Sample:
        """Drop an unconfirmed status: recorded as lost, never as an end."""
        before = self.status
        self._leave_status(at)
        self.status, self.known, self.reason, self.ended = NONE, False, None, self.moved
        sample = self.record(SampleKind.LOST, at, from_=before, to=None, reason=reason)
        self.episode = None
        return sample

    def record(  # noqa: PLR0913 - one argument a column that differs
        self,
        kind: SampleKind,
        at: float,
        *,
        from_: RebalanceStatus | None,
        to: RebalanceStatus | None,
        reason: str | None = None,
        outcome: Outcome | None = None,
        peak: RebalanceStatus | None = None,
    ) -> Sample:
        """Return a sample of this track; equal events at one instant get ordinals."""
        member = self.member
        return Sample(
            id=self._new_id(kind, at, from_, to),
            kind=kind,
            ts=format_time(self.clock(at)),
            cluster=member.cluster,
            app=self.app,
            group=member.group,
            group_type=member.group_type,
            protocol_type=member.protocol_type,
            scope=self.scope,
            client_id=self.client_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id if self.scope is Scope.CONSUMER else None,
            host=member.host,
            log_file=member.log_file or None,
            from_=from_,
            to=to,
            peak=peak,
            status=None if to is None else to.label,
            reason=clip_reason(reason),
            generation=self.generation,
            episode=self.episode,
            outcome=outcome,
            joined_ts=self._format_joined_at(outcome),
            gained=self.gained if outcome is Outcome.SYNCED else None,
            source=self.source,
        )

    def record_change(
        self,
        field: str,
        before: str | None,
        after: str | None,
        at: float,
        joined_ts: str | None = None,
    ) -> Sample:
        """Return a record of a changed attribute of the member."""
        sample = self.record(SampleKind.CHANGE, at, from_=None, to=None)
        return replace(
            sample,
            id=digest(sample.id, field, after),
            subject="member",
            field=field,
            before=before,
            after=after,
            joined_ts=joined_ts,
        )

    def clock(self, at: float) -> float:
        """Return ``at``, or the last recorded time if the clock ran back."""
        self.last_at = max(self.last_at, at)
        return self.last_at

    def stale_at(self, config: StatusConfig) -> float | None:
        """Return the time when an unconfirmed status is lost; None for never."""
        stale_after_s = config.stale_after(self.member)
        if self.is_muted and self.status is not NONE:
            return self.confirmed_at + stale_after_s
        return stale_at(self.status, self.confirmed_at, None, stale_after_s)

    def _new_id(
        self, kind: SampleKind, at: float, from_: RebalanceStatus | None, to: RebalanceStatus | None
    ) -> str:
        """Return an id; equal events at one instant get ordinals, deadlines do not repeat."""
        ts = format_time(at + self.shift_s)
        if kind is SampleKind.SAMPLE:
            return digest(self.scope, *self.key, kind, ts, to)
        if ts > self.event_ts:
            self.event_ts, self.event_counts = ts, {}
        base = digest(self.scope, *self.key, kind, self.event_ts, from_, to)
        event = f"{kind} {from_} {to}"
        ordinal = self.event_counts.get(event, 0)
        self.event_counts = _intern_events(tuple({**self.event_counts, event: ordinal + 1}.items()))
        return digest(base, ordinal)

    def _format_joined_at(self, outcome: Outcome | None) -> str | None:
        if self.joined_at is None or outcome is not Outcome.SYNCED:
            return None
        return format_time(self.joined_at)

    def _leave_status(self, at: float) -> None:
        self.moved = Provenance(at, self.source, self.origin)
        at = self.clock(at)
        self.seconds = _sum(self.seconds, {self.status: at - self.since_at})
        self.peak_window = add_to_window(self.peak_window, self.status, at)
        self.since_at = at


def _share_origin(event: Provenance | None) -> Provenance | None:
    return None if event is None else event._replace(origin=intern(event.origin))


_Number = TypeVar("_Number", int, float)


def _sum(
    counts: Mapping[RebalanceStatus, _Number], others: Mapping[RebalanceStatus, _Number]
) -> dict[RebalanceStatus, _Number]:
    """Return the sums in a new dict: rows keep the old one."""
    out = dict(counts)
    for status, number in others.items():
        out[status] = out.get(status, 0) + number
    return out


_Counts = dict[RebalanceStatus, int]


def _one_more(counts: _Counts, of: RebalanceStatus) -> _Counts:
    return _intern_counts(tuple(_sum(counts, {of: 1}).items()))


@lru_cache(maxsize=1000)
def _intern_counts(items: tuple[tuple[RebalanceStatus, int], ...]) -> _Counts:
    """Return one shared dict for equal counts: most members begin alike."""
    return dict(items)


@lru_cache(maxsize=1000)
def _intern_events(items: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """Return one shared dict for equal counts: most events are alone at their instant."""
    return dict(items)
