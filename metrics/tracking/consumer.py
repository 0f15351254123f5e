"""One consumer: its status, its streams layer, and the sources that tell of it.

A member may be seen by several sources at once (its log, the wire). Each of them is a *voice*; the
labels come from one of them, whoever spoke last, so that series do not change to and fro.
"""

from dataclasses import dataclass, field, replace

from metrics.model.signals import FollowUp, Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.model.transition import stale_at
from metrics.tracking.duplicates import Fact
from metrics.tracking.status_track import Track

NONE = RebalanceStatus.NONE

RANK = (
    SourceKind.LOGS,  # the client's own words, in full
    SourceKind.HTTP,
    SourceKind.STATS,
    SourceKind.WIRE,  # its words in short, or the coordinator's error
    SourceKind.BROKER_LOG,
    SourceKind.ADMIN,
)
"""Who knows a member best: whose labels and reasons win, and for whom an unclear leave waits."""

_VOICES = 4
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
    "max_poll_interval_s",
    "protocol_type",
)
"""What another voice may add where the best one does not know it."""


@dataclass(slots=True, kw_only=True)
class Layer:
    """What a thread's last assignment demands of its instance. Instants are Unix seconds."""

    status: RebalanceStatus = NONE
    due_at: float | None = None

    def demand(self, follow_up: FollowUp) -> None:
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


@dataclass(slots=True, kw_only=True)
class Voice:
    """One source of a member, and the member as it tells it."""

    source: SourceKind
    member: Member
    attached: bool = True
    named: bool = False
    """It has told a member id: that it speaks of this member is sure."""
    ends: bool = False
    """It has told the end of a round: not every client's log can."""
    under_way: bool = False
    """It has told of a round that it has not ended yet."""

    @property
    def rank(self) -> int:
        """Its place in `RANK`."""
        return RANK.index(self.source)

    def is_of(self, signal: Signal) -> bool:
        """Tell whether a signal is this voice's."""
        return self.source is signal.source and self.member.stream == signal.member.stream

    def tell(self, signal: Signal) -> None:
        """Take how far it is in its round."""
        begins = signal.kind in {SignalKind.RAISE, SignalKind.JOIN}
        self.under_way = begins or signal.follow_up is not None
        self.ends = self.ends or signal.kind is SignalKind.SYNC


@dataclass(slots=True, kw_only=True)
class Consumer:
    """One consumer: its own track, and the streams layer that its assignment sets."""

    track: Track
    layer: Layer = field(default_factory=Layer)
    joining: bool = False
    """A join was sent at status 0 and nothing has told why."""
    instance: tuple[str, ...] | None = None
    """The key of the Streams instance that it is a thread of."""
    voices: list[Voice] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    """The member ids that it had, the newest last."""
    told: list[Fact] = field(default_factory=list)
    """What was told lately: each is told once by every voice."""
    held: list[Signal] = field(default_factory=list)
    """A leave or an end that is not clear, and what its voice has told since."""
    awaited_until: float | None = None
    """Till when all that brokers tell of a new member waits for its own words."""

    @property
    def attached(self) -> bool:
        """One of its sources lives; else it stays only until its status has ended or is lost."""
        return any(voice.attached for voice in self.voices)

    @property
    def is_told_by_brokers(self) -> bool:
        """No other source tells of it; brokers may call it by another of its ids."""
        return all(voice.source is SourceKind.BROKER_LOG for voice in self.voices)

    def voice_of(self, signal: Signal) -> Voice | None:
        """Return the voice that a signal is of, if it was heard before."""
        return next((voice for voice in self.voices if voice.is_of(signal)), None)

    def hear(self, signal: Signal) -> None:
        """Take who speaks, and as whom."""
        voice, member = self.voice_of(signal), signal.member
        if voice is None:
            voice = Voice(source=signal.source, member=member)
            self._add(voice)
        voice.member, voice.attached = member, True
        if member.member_id:
            voice.named = True
            if member.member_id not in self.ids:
                self.ids = [*self.ids[1 - _IDS :], member.member_id]
        self.track.member = self.merged()

    def tell(self, signal: Signal) -> None:
        """Take how far the voice of a signal is in its round."""
        for voice in self.voices:
            if voice.is_of(signal):
                voice.tell(signal)

    def absorb(self, other: "Consumer") -> None:
        """Take the voices of a member that turned out to be this one."""
        for voice in other.voices:
            self._add(voice)
        self.ids = [*dict.fromkeys(other.ids + self.ids)][-_IDS:]
        self.held += other.held

    def _add(self, voice: Voice) -> None:
        self.voices.append(voice)
        if len(self.voices) > _VOICES:
            gone = next((each for each in self.voices if not each.attached), self.voices[0])
            self.voices.remove(gone)

    def merged(self) -> Member:
        """Return the member as its best voice tells it, with what the others know beyond that."""
        best, *others = sorted(self.voices, key=lambda voice: voice.rank)
        if not others:
            return best.member
        changes: dict[str, object] = {"member_id": self.ids[-1] if self.ids else None}
        for name in _FILLED:
            if not getattr(best.member, name):
                told = (getattr(voice.member, name) for voice in others)
                changes[name] = next(filter(None, told), getattr(best.member, name))
        return replace(best.member, **changes)  # type: ignore[arg-type]
