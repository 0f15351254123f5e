"""Signals in, samples out: the one stateful class of the core.

Theory of operation. Each consumer has a track; a Kafka Streams thread's consumer also has a
*layer*, which holds what the last assignment demands of the instance (10-13). An instance's track
follows its threads (`metrics.streams`). Time comes in with the signals and with `Tracker.advance`;
there is no clock here. Within one source the read order rules; between sources a signal older than
what it would undo moves nothing.

Sources: KAFKA-12472 for the two rules; semantics.md sections 2, 3 and 5 for the ends of an episode.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from metrics.ledger import GroupEntry, GroupLedger
from metrics.rows import member_row
from metrics.sample import UNEXPLAINED, Outcome, Sample, SampleKind, Scope
from metrics.signals import FollowUp, MemberKey, Signal, SignalKind
from metrics.snapshot import GroupKey, Snapshot
from metrics.status import RebalanceStatus
from metrics.streams import Instances, Layer
from metrics.track import StatusConfig, Track
from metrics.transition import peak, transition

NONE = RebalanceStatus.NONE
USER_REQUESTED = RebalanceStatus.USER_REQUESTED

_BYSTANDERS = {SignalKind.SEEN, SignalKind.NOTE}
"""Say nothing of the member's status: they undo, confirm and begin nothing, and are never late."""


@dataclass(slots=True, kw_only=True)
class Consumer:
    """One consumer: its own track, and the streams layer that its assignment sets."""

    track: Track
    layer: Layer
    joining: bool = False
    """A join was sent at status 0 and nothing has told why."""
    attached: bool = True
    """Its source lives; without one it stays only until its status has ended or is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerState:
    """All that a restart needs, in types that JSON can carry."""

    consumers: list[Consumer] = field(default_factory=list)
    instances: list[Track] = field(default_factory=list)
    groups: list[GroupEntry] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


class Tracker:
    """The state of every consumer and Streams instance."""

    def __init__(
        self,
        config: StatusConfig,
        app_of: Callable[[str], str] = str,
        state: TrackerState | None = None,
    ) -> None:
        """Start empty or from ``state``; ``app_of`` names the application of a group."""
        state = state or TrackerState()
        self._config = config
        self._app_of = app_of
        self._consumers = {entry.track.member.key: entry for entry in state.consumers}
        self._instances = Instances(state.instances)
        for entry in state.consumers:
            self._instances.enlist(entry.track, entry.layer)
        self._counts = Counter(state.counts)
        self._ledger = GroupLedger(config.groups, state.groups, self._counts)

    def apply(self, signal: Signal) -> list[Sample]:
        """Take one signal and return what it changed, in order."""
        entry = self._entry(signal)
        if _is_late(entry.track, signal):
            self._counts["late"] += 1
            return []
        out = self._make_room(signal.at) + self._expire(entry, signal.at)
        self._meet(entry, signal)
        return out + self._take(entry, signal)

    def advance(self, now: float) -> list[Sample]:
        """Let time pass: drop what is stale as lost, forget members that have gone."""
        out: list[Sample] = []
        for key, entry in list(self._consumers.items()):
            out += self._expire(entry, now)
            if self._is_gone(entry, now):
                self._forget(key)
        return out

    def detach(self, stream: str, at: float) -> list[Sample]:
        """Drop what only the stream kept alive: its file has gone, its connection was closed."""
        out: list[Sample] = []
        for key, entry in list(self._consumers.items()):
            if entry.track.member.stream != stream:
                continue
            entry.attached = False
            if entry.track.status is RebalanceStatus.DROPPED_GROUP:
                out += self._lose(entry.track, at, "its source has ended")
            if self._is_gone(entry, at):
                self._forget(key)
        return out

    def sample(self, deadline: float, interval_s: float) -> list[Sample]:
        """Return the periodic samples that fall due at ``deadline`` (Unix seconds)."""
        return [
            track.record(
                SampleKind.SAMPLE,
                deadline,
                from_=None,
                to=track.status,
                reason=track.reason,
                peak=peak(track.status, track.steps, deadline, interval_s),
            )
            for track in self._tracks()
            if track.known and track.last_at <= deadline
        ]

    def snapshot(self, now: float) -> Snapshot:
        """Return what exporters show at ``now``; changes nothing."""
        tracks = [track for track in self._tracks() if track.known]
        return Snapshot(
            at=now,
            consumers=tuple(
                member_row(t, now, self._config) for t in tracks if t.scope is Scope.CONSUMER
            ),
            instances=tuple(
                member_row(t, now, self._config) for t in tracks if t.scope is Scope.STREAMS
            ),
            groups=tuple(entry.key for entry in self._ledger.entries),
            durations=self._ledger.durations(),
            counts=dict(self._counts),
        )

    def state(self) -> TrackerState:
        """Return what a checkpoint keeps. The objects are live: encode them before going on."""
        return TrackerState(
            consumers=list(self._consumers.values()),
            instances=self._instances.tracks,
            groups=self._ledger.entries,
            counts=dict(self._counts),
        )

    def _take(  # noqa: PLR0911 - a table of one line each
        self, entry: Consumer, signal: Signal
    ) -> list[Sample]:
        match signal.kind:
            case SignalKind.RAISE:
                return self._raise(entry, signal)
            case SignalKind.SYNC:
                return self._sync(entry, signal)
            case SignalKind.LEAVE:
                return self._leave(entry, signal)
            case SignalKind.FAIL:
                return self._settle(entry, signal, Outcome.FAILED)
            case SignalKind.JOIN:
                entry.joining = entry.track.status is NONE
                entry.track.joined_at = signal.at
                return []
            case SignalKind.NOTE:
                return [self._note(entry.track, signal.status or None, signal.at, signal.reason)]
            case SignalKind.SEEN:
                return []
            case _:
                assert_never(signal.kind)

    def _raise(self, entry: Consumer, signal: Signal) -> list[Sample]:
        track, layer = entry.track, signal.streams_follow_up
        entry.joining = False
        out = self._lift(track, signal.status, signal.at, signal.reason)
        if layer is not None:
            return out + self._demand(entry, layer)
        return out + self._instances.follow(track, signal.at, signal.reason)

    def _sync(self, entry: Consumer, signal: Signal) -> list[Sample]:
        track, own, layer = entry.track, signal.follow_up, signal.streams_follow_up
        # 11 is raised after the zero: this rebalance has ended, the probing one is pending
        at_once = layer is not None and layer.status is not RebalanceStatus.ASSIGNMENT_PROBING
        out = self._count_unexplained(entry, signal.at)
        if own is not None:
            out += self._lift(track, own.status, own.at, own.reason)
        else:
            out += self._end(track, signal, Outcome.SYNCED)
        if not at_once:
            if own is None:
                entry.layer.clear()
            at, reason = (signal.at, None) if own is None else (own.at, own.reason)
            out += self._instances.follow(track, at, reason, Outcome.SYNCED)
        return out if layer is None else out + self._demand(entry, layer)

    def _leave(self, entry: Consumer, signal: Signal) -> list[Sample]:
        out = self._lift(entry.track, USER_REQUESTED, signal.at, signal.reason)
        out += self._instances.follow(entry.track, signal.at, signal.reason)
        out += self._settle(entry, signal, Outcome.LEFT)
        entry.track.left_at = entry.track.last_at
        return out

    def _settle(self, entry: Consumer, signal: Signal, outcome: Outcome) -> list[Sample]:
        out = self._end(entry.track, signal, outcome)
        entry.joining = False
        entry.layer.clear()
        return out + self._instances.follow(entry.track, signal.at, signal.reason, outcome)

    def _demand(self, entry: Consumer, follow_up: FollowUp) -> list[Sample]:
        """Raise the streams layer, or record on the instance what its higher status masks."""
        at, reason = follow_up.at, follow_up.reason
        entry.layer.demand(follow_up)
        moved = self._instances.follow(entry.track, at, reason)
        instance = self._instances.track_of(entry.track)
        if moved or instance is None:
            return moved
        return [self._mask(instance, follow_up.status, at, reason)]

    def _lift(
        self, track: Track, status: RebalanceStatus, at: float, reason: str | None
    ) -> list[Sample]:
        """Move up, or record what the higher status masks."""
        if status is NONE:
            return []
        if transition(track.status, status) is track.status:
            return [self._mask(track, status, at, reason)]
        return [track.move(status, at, reason)]

    def _mask(self, track: Track, status: RebalanceStatus, at: float, reason: str | None) -> Sample:
        self._counts["suppressed"] += 1
        return self._note(track, status, at, reason)

    def _note(
        self, track: Track, status: RebalanceStatus | None, at: float, reason: str | None
    ) -> Sample:
        return track.record(SampleKind.SIGNAL, at, from_=track.status, to=status, reason=reason)

    def _count_unexplained(self, entry: Consumer, at: float) -> list[Sample]:
        if not entry.joining:
            return []
        entry.joining = False
        self._counts["unexplained"] += 1
        return [self._note(entry.track, None, at, UNEXPLAINED)]

    def _end(self, track: Track, signal: Signal, outcome: Outcome) -> list[Sample]:
        if track.status is NONE:
            return []
        sample = track.move(NONE, signal.at, signal.reason, outcome)
        self._ledger.observe(self._group(track), track.since_at - track.episode_at)
        return [sample]

    def _expire(self, entry: Consumer, now: float) -> list[Sample]:
        track, layer, out = entry.track, entry.layer, list[Sample]()
        stale = track.stale_at(self._config)
        if stale is not None and stale <= now:
            out = self._lose(track, stale, "not confirmed")
        stale = layer.stale_at(track.confirmed_at, self._config.stale_after(track.member))
        if stale is not None and stale <= now:
            out += self._lose_layer(entry, stale, "not confirmed")
        return out

    def _lose(self, track: Track, at: float, reason: str) -> list[Sample]:
        lost = [track.lose(at, reason), *self._instances.lose(track, at, reason)]
        self._counts["lost"] += len(lost)
        return lost

    def _lose_layer(self, entry: Consumer, at: float, reason: str) -> list[Sample]:
        entry.layer.clear()
        lost = self._instances.lose(entry.track, at, reason)
        self._counts["lost"] += len(lost)
        return lost

    def _entry(self, signal: Signal) -> Consumer:
        """Find or make the consumer, and put it last: the longest silent is evicted first."""
        key = signal.member.key
        entry = self._consumers.pop(key, None)
        if entry is None:
            track = Track(
                scope=Scope.CONSUMER,
                member=signal.member,
                client_id=signal.member.client_id,
                app=self._app_of(signal.member.group),
                source=signal.source,
                since_at=signal.at,
                last_at=signal.at,
                confirmed_at=signal.at,
            )
            entry = Consumer(track=track, layer=Layer())
            self._instances.enlist(track, entry.layer)
        self._consumers[key] = entry
        return entry

    def _make_room(self, at: float) -> list[Sample]:
        """Evict the longest silent members; a status goes as lost, not without a word."""
        out, reason = list[Sample](), "evicted: too many members"
        while len(self._consumers) > self._config.members:
            key, entry = next(iter(self._consumers.items()))
            if entry.track.status is not NONE:
                out += self._lose(entry.track, at, reason)
            out += self._lose_layer(entry, at, reason)
            self._forget(key)
            self._counts["evicted"] += 1
        return out

    def _meet(self, entry: Consumer, signal: Signal) -> None:
        track = entry.track
        track.meet(signal.member, signal.source, signal.at)
        entry.attached = True
        if signal.generation is not None:
            track.generation = signal.generation
        if signal.kind not in _BYSTANDERS:
            track.confirmed_at = max(track.confirmed_at, signal.at)
            track.left_at = None
        self._instances.meet(track, signal.at)
        self._ledger.see(self._group(track))

    def _is_gone(self, entry: Consumer, now: float) -> bool:
        """Tell whether a member that left has had its time, or one without a source its end."""
        left_at = entry.track.left_at
        if left_at is not None:
            return now >= left_at + self._config.forget_after_s
        at_rest = entry.track.status is NONE and entry.layer.status is NONE
        return at_rest and not entry.attached

    def _forget(self, key: MemberKey) -> None:
        self._instances.dismiss(self._consumers.pop(key).track)

    def _tracks(self) -> list[Track]:
        return [entry.track for entry in self._consumers.values()] + self._instances.tracks

    def _group(self, track: Track) -> GroupKey:
        member = track.member
        return GroupKey(member.cluster, track.app, member.group, member.group_type)


def _is_late(track: Track, signal: Signal) -> bool:
    """Tell whether a signal is older than what it would undo, which another source has told.

    A raise undoes nothing but a zero: in which order two sources raise is all one.
    """
    undone = track.settled if signal.kind is SignalKind.RAISE else track.moved
    if undone is None or signal.kind in _BYSTANDERS:
        return False
    is_same = (undone.source, undone.stream) == (signal.source, signal.member.stream)
    return not is_same and signal.at < undone.at
