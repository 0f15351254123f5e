"""One consumer: its status, its Streams follow-up, and the views of its sources.

Several sources may report one member (its log, the wire). Each has a `MemberView`. The labels come
from the view with the best priority, not from the latest, so that series keep their labels.
"""

from itertools import pairwise
from sys import intern

import msgspec

from metrics.model.signals import (
    FollowUp,
    InstanceKey,
    Member,
    Signal,
    SignalKind,
    SourceKind,
    share_texts,
)
from metrics.model.status import RebalanceStatus
from metrics.model.transition import stale_at
from metrics.tracking.duplicates import Observation
from metrics.tracking.source_traits import TRAITS
from metrics.tracking.status_track import Provenance, Track

NONE = RebalanceStatus.NONE

NEUTRAL_KINDS = {SignalKind.SEEN, SignalKind.NOTE, SignalKind.REFUSE}
"""Kinds without effect on the status: they begin and end nothing, and are never late. They confirm
nothing either, unless the member sends a join with them."""
PENDING_MAX = 100
"""Signals of one member that wait; one more applies them all."""
_VIEWS = 4
"""Views kept of one member; a detached one makes room first, then the oldest."""
_IDS = 4
"""Member ids kept of one member: a log that is behind still reports an older one."""
_LABELS = ("cluster", "host", "log_file")
_OF_PROCESS = (
    "software",
    "state",
    "assignor",
    "assignors",
    "leader",
    "session_timeout_s",
    "max_poll_interval_s",
    "protocol_type",
)
"""Fields of one process: a view of its predecessor has them only if no other view does."""
_OF_PROTOCOL = ("group_type", "protocol_type")
_FILLED = _LABELS + _OF_PROCESS
"""Fields that other views fill if the best one has no value."""


class StreamsFollowUp(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The follow-up that a thread's last assignment requires of its instance (10 to 13).

    Instants are Unix seconds.
    """

    status: RebalanceStatus = NONE
    due_at: float | None = None

    def raise_to(self, follow_up: FollowUp) -> None:
        """Add a follow-up; the status moves only upward."""
        self.status = max(self.status, follow_up.status)
        if follow_up.due_at is not None:
            self.due_at = follow_up.due_at

    def clear(self) -> None:
        """Reset to none: the assignment requires no immediate follow-up."""
        self.status, self.due_at = NONE, None

    def stale_at(self, confirmed_at: float, stale_after_s: float) -> float | None:
        """Return the time when an unconfirmed follow-up is lost."""
        return stale_at(self.status, confirmed_at, self.due_at, stale_after_s)


class MemberView(
    msgspec.Struct,
    kw_only=True,
    omit_defaults=True,
    rename={"has_member_id": "named", "reports_ends": "ends", "is_rebalancing": "under_way"},
):
    """One source's view of a member. ``rename`` has the checkpoint's keys."""

    source: SourceKind
    member: Member
    attached: bool = True
    """The source is alive: its file exists, its connection is open."""
    has_member_id: bool = False
    """It has reported a member id: it certainly reports this member."""
    reports_ends: bool = False
    """It has reported the end of a rebalance: some clients' logs have no such line."""
    is_rebalancing: bool = False
    """It has reported a rebalance without its end so far."""

    @property
    def priority(self) -> int:
        """The priority of its source; the lowest wins."""
        return TRAITS[self.source].priority

    def is_source_of(self, signal: Signal) -> bool:
        """Return True if a signal comes from this source and origin."""
        return self.source is signal.source and self.member.origin == signal.member.origin

    def is_of(self, member_id: str | None) -> bool:
        """Return False for a view of another process: it reports another member id."""
        return self.member.member_id in {None, "", member_id}

    def record_progress(self, signal: Signal) -> None:
        """Record the source's own position in the rebalance."""
        begins = signal.kind in {SignalKind.RAISE, SignalKind.JOIN}
        self.is_rebalancing = begins or signal.follow_up is not None
        self.reports_ends = self.reports_ends or signal.kind is SignalKind.SYNC


class Consumer(
    msgspec.Struct,
    kw_only=True,
    omit_defaults=True,
    rename={
        "streams_follow_up": "layer",
        "views": "voices",
        "member_ids": "ids",
        "observations": "told",
        "pending": "held",
        "pending_until": "awaited_until",
    },
):
    """One consumer: its own track, and the follow-up of its assignment.

    ``rename`` has the checkpoint's keys.
    """

    track: Track
    streams_follow_up: StreamsFollowUp = msgspec.field(default_factory=StreamsFollowUp)
    joining: bool = False
    """A join at status 0 without a reported cause."""
    instance: InstanceKey | None = None
    """The key of its Streams instance; None for a plain consumer."""
    views: list[MemberView] = msgspec.field(default_factory=list)
    member_ids: list[str] = msgspec.field(default_factory=list)
    """Its member ids, the newest last."""
    observations: list[Observation] = msgspec.field(default_factory=list)
    """Recent observations: each source reports each of them once."""
    pending: list[Signal] = msgspec.field(default_factory=list)
    """An ambiguous leave or end, and the later signals of its source."""
    pending_until: float | None = None
    """Time until which all reports of brokers wait for the member's own source."""

    is_disconnected: bool = False
    """All its connections have ended, and its own sources have reported nothing since."""
    removed_by: Provenance | None = None
    """A broker's report that it has removed the member, which has reported no move since."""

    def __post_init__(self) -> None:
        """Share equal parts, to save memory: a loaded checkpoint has separate equal strings."""
        if self.views:
            self.track.share_texts()
        for view in self.views:
            is_best = view.member == self.track.member
            view.member = self.track.member if is_best else share_texts(view.member)
        self.member_ids = list(map(intern, self.member_ids))
        for one, next_one in pairwise(self.observations):
            if one.reporters == next_one.reporters:
                next_one.reporters = one.reporters

    @property
    def sees_requests(self) -> bool:
        """Whether a source still sees the member's requests."""
        return any(view.attached and TRAITS[view.source].sees_protocol for view in self.views)

    @property
    def is_attached(self) -> bool:
        """Whether one of its sources is alive; else it stays only until its status ends."""
        return any(view.attached for view in self.views)

    @property
    def is_broker_only(self) -> bool:
        """Only brokers report it; they may call it by another of its ids."""
        return all(TRAITS[view.source].is_broker for view in self.views)

    @property
    def is_removed(self) -> bool:
        """Whether its coordinator has removed it, and it has not come back."""
        return self.removed_by is not None

    @property
    def has_own_source(self) -> bool:
        """Whether a source of the member itself is alive, other than brokers."""
        return any(view.attached and not TRAITS[view.source].is_broker for view in self.views)

    @property
    def is_awaited(self) -> bool:
        """Only brokers report it, and its own source may still report the same."""
        if self.pending_until is None:
            return False
        return len(self.pending) < PENDING_MAX and self.is_broker_only

    def view_of(self, signal: Signal) -> MemberView | None:
        """Return the view of a signal's source and origin; None for a new one.

        After a merge of two entries there may be two: that of the signal's own name goes first.
        """
        found = None
        for view in self.views:  # a generator costs as much as all else here
            if not view.is_source_of(signal):
                continue
            if found is None:
                found = view
            elif view.member.key == signal.member.key:
                return view
        return found

    def has_better_source(self, signal: Signal) -> bool:
        """Return True if an attached source knows the member better than the signal's source."""
        priority = TRAITS[signal.source].priority
        return any(view.attached and view.priority < priority for view in self.views)

    def record_view(self, signal: Signal) -> None:
        """Update the view of a signal's source, and the member ids."""
        view, member = self.view_of(signal), signal.member
        if view is None:
            view = MemberView(source=signal.source, member=member)
            self._add(view)
        view.member, view.attached = member, True
        if member.member_id:
            view.has_member_id = True
            if member.member_id not in self.member_ids:
                self.member_ids = [*self.member_ids[1 - _IDS :], member.member_id]
        self.track.member = self.merge_views()

    def detach(self, origin: str, *, is_silent: bool, shows_end: bool) -> None:
        """Note that an origin has ended.

        If the connections of a silent member have ended, its process is dead, and its log is no
        live source any more. An end that a cut made ``shows_end`` False.
        """
        ended = [view for view in self.views if view.attached and view.member.origin == origin]
        of_process = any(TRAITS[view.source].ends_with_process for view in ended)
        is_dead = is_silent and of_process
        for view in self.views:
            if view in ended or (is_dead and TRAITS[view.source].outlives_process):
                view.attached = False
        if of_process:
            self.is_disconnected = shows_end and not self.sees_requests

    def record_progress(self, signal: Signal) -> None:
        """Record the position of a signal's source in the rebalance."""
        if signal.kind in NEUTRAL_KINDS:
            return
        for view in self.views:  # after a merge of two entries there may be two
            if view.is_source_of(signal):
                view.record_progress(signal)

    def absorb(self, other: "Consumer") -> None:
        """Add the views of a consumer that is the same member."""
        for view in other.views:
            self._add(view)
        self.member_ids = [*dict.fromkeys(other.member_ids + self.member_ids)][-_IDS:]
        self.pending += other.pending

    def _add(self, view: MemberView) -> None:
        self.views.append(view)
        if len(self.views) > _VIEWS:
            dropped = next((v for v in self.views if not v.attached), self.views[0])
            self.views.remove(dropped)

    def merge_views(self) -> Member:
        """Return the member of the best view, with the values that only other views have."""
        best, *others = sorted(self.views, key=lambda view: view.priority)
        if not others:
            return best.member
        newest = self.member_ids[-1] if self.member_ids else None
        others.sort(key=lambda view: not view.is_of(newest))
        is_outdated = not best.is_of(newest)
        changes: dict[str, object] = {"member_id": newest}
        for name in _FILLED:
            own = getattr(best.member, name)
            if not own or (is_outdated and name in _OF_PROCESS):
                values = (getattr(view.member, name) for view in others)
                changes[name] = next(filter(None, values), own)
        sure = next((v for v in others if TRAITS[v.source].sees_protocol and v.is_of(newest)), best)
        if sure.member.group_type != best.member.group_type:
            changes |= {name: getattr(sure.member, name) for name in _OF_PROTOCOL}
        return msgspec.structs.replace(best.member, **changes)
