"""One consumer: its status, its streams layer, and the sources that tell of it.

A member may be seen by several sources at once (its log, the wire). Each of them is a *voice*; the
labels come from one of them, whoever spoke last, so that series do not change to and fro.
"""

import msgspec

from metrics.model.signals import FollowUp, Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.model.transition import stale_at
from metrics.tracking.duplicates import Observation
from metrics.tracking.status_track import Track

NONE = RebalanceStatus.NONE

PRIORITY = (
    SourceKind.LOGS,  # the client's own words, in full
    SourceKind.HTTP,
    SourceKind.STATS,
    SourceKind.WIRE,  # its words in short, or the coordinator's error
    SourceKind.BROKER_LOG,
    SourceKind.ADMIN,
)
"""Who knows a member best: whose labels and reasons win, and for whom an unclear leave waits."""

_VIEWS = 4
"""Sources remembered of one member; the one that has gone, or came first, makes room."""
_IDS = 4
"""Member ids remembered of one member: a log that is behind still tells an older one."""
_FILLED = (
    "cluster",
    "host",
    "software",
    "state",
    "assignor",
    "leader",
    "session_timeout_s",
    "max_poll_interval_s",
    "protocol_type",
)
"""What another voice may add where the best one does not know it."""


class StreamsFollowUp(msgspec.Struct, kw_only=True):
    """What a thread's last assignment demands of its instance. Instants are Unix seconds."""

    status: RebalanceStatus = NONE
    due_at: float | None = None

    def raise_to(self, follow_up: FollowUp) -> None:
        """Take a follow-up; only upward."""
        self.status = max(self.status, follow_up.status)
        if follow_up.due_at is not None:
            self.due_at = follow_up.due_at

    def clear(self) -> None:
        """Hold nothing: the assignment demanded no immediate follow-up."""
        self.status, self.due_at = NONE, None

    def stale_at(self, confirmed_at: float, stale_after_s: float) -> float | None:
        """Return when the demand is lost if nothing confirms it."""
        return stale_at(self.status, confirmed_at, self.due_at, stale_after_s)


class MemberView(
    msgspec.Struct,
    kw_only=True,
    rename={"has_member_id": "named", "reports_ends": "ends", "is_rebalancing": "under_way"},
):
    """One source of a member, and the member as it tells it."""

    source: SourceKind
    member: Member
    attached: bool = True
    has_member_id: bool = False
    """It has told a member id: that it speaks of this member is sure."""
    reports_ends: bool = False
    """It has told the end of a round: not every client's log can."""
    is_rebalancing: bool = False
    """It has told of a round that it has not ended yet."""

    @property
    def priority(self) -> int:
        """Its place in `RANK`."""
        return PRIORITY.index(self.source)

    def is_source_of(self, signal: Signal) -> bool:
        """Tell whether a signal is this voice's."""
        return self.source is signal.source and self.member.origin == signal.member.origin

    def record_progress(self, signal: Signal) -> None:
        """Take how far it is in its round."""
        begins = signal.kind in {SignalKind.RAISE, SignalKind.JOIN}
        self.is_rebalancing = begins or signal.follow_up is not None
        self.reports_ends = self.reports_ends or signal.kind is SignalKind.SYNC


class Consumer(
    msgspec.Struct,
    kw_only=True,
    rename={
        "streams_follow_up": "layer",
        "views": "voices",
        "member_ids": "ids",
        "observations": "told",
        "pending": "held",
        "pending_until": "awaited_until",
    },
):
    """One consumer: its own track, and the streams layer that its assignment sets."""

    track: Track
    streams_follow_up: StreamsFollowUp = msgspec.field(default_factory=StreamsFollowUp)
    joining: bool = False
    """A join was sent at status 0 and nothing has told why."""
    instance: tuple[str, ...] | None = None
    """The key of the Streams instance that it is a thread of."""
    views: list[MemberView] = msgspec.field(default_factory=list)
    member_ids: list[str] = msgspec.field(default_factory=list)
    """The member ids that it had, the newest last."""
    observations: list[Observation] = msgspec.field(default_factory=list)
    """What was told lately: each is told once by every voice."""
    pending: list[Signal] = msgspec.field(default_factory=list)
    """A leave or an end that is not clear, and what its voice has told since."""
    pending_until: float | None = None
    """Till when all that brokers tell of a new member waits for its own words."""

    @property
    def is_attached(self) -> bool:
        """One of its sources lives; else it stays only until its status has ended or is lost."""
        return any(voice.attached for voice in self.views)

    @property
    def is_broker_only(self) -> bool:
        """No other source tells of it; brokers may call it by another of its ids."""
        return all(voice.source is SourceKind.BROKER_LOG for voice in self.views)

    def view_of(self, signal: Signal) -> MemberView | None:
        """Return the voice that a signal is of, if it was heard before."""
        return next((voice for voice in self.views if voice.is_source_of(signal)), None)

    def record_view(self, signal: Signal) -> None:
        """Take who speaks, and as whom."""
        voice, member = self.view_of(signal), signal.member
        if voice is None:
            voice = MemberView(source=signal.source, member=member)
            self._add(voice)
        voice.member, voice.attached = member, True
        if member.member_id:
            voice.has_member_id = True
            if member.member_id not in self.member_ids:
                self.member_ids = [*self.member_ids[1 - _IDS :], member.member_id]
        self.track.member = self.merge_views()

    def record_progress(self, signal: Signal) -> None:
        """Take how far the voice of a signal is in its round."""
        for voice in self.views:
            if voice.is_source_of(signal):
                voice.record_progress(signal)

    def absorb(self, other: "Consumer") -> None:
        """Take the voices of a member that turned out to be this one."""
        for voice in other.views:
            self._add(voice)
        self.member_ids = [*dict.fromkeys(other.member_ids + self.member_ids)][-_IDS:]
        self.pending += other.pending

    def _add(self, voice: MemberView) -> None:
        self.views.append(voice)
        if len(self.views) > _VIEWS:
            gone = next((each for each in self.views if not each.attached), self.views[0])
            self.views.remove(gone)

    def merge_views(self) -> Member:
        """Return the member as its best voice tells it, with what the others know beyond that."""
        best, *others = sorted(self.views, key=lambda voice: voice.priority)
        if not others:
            return best.member
        changes: dict[str, object] = {"member_id": self.member_ids[-1] if self.member_ids else None}
        for name in _FILLED:
            if not getattr(best.member, name):
                told = (getattr(voice.member, name) for voice in others)
                changes[name] = next(filter(None, told), getattr(best.member, name))
        return msgspec.structs.replace(best.member, **changes)
