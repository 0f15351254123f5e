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
from metrics.sample import Outcome, Sample, SampleKind, Scope
from metrics.signals import MemberKey, Signal, SignalKind
from metrics.snapshot import GroupKey, MemberRow, Snapshot, StatusCounts
from metrics.status import RebalanceStatus
from metrics.streams import Instances, Layer
from metrics.track import StatusConfig, Track
from metrics.transition import peak, transition

NONE = RebalanceStatus.NONE
USER_REQUESTED = RebalanceStatus.USER_REQUESTED


@dataclass(slots=True, kw_only=True)
class Consumer:
    """One consumer: its own track, and the streams layer that its assignment sets."""

    track: Track
    layer: Layer
    joining: bool = False
    """A join was sent at status 0 and nothing has told why."""


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
        self._instances = Instances(config, state.instances)
        for entry in state.consumers:
            self._instances.enlist(entry.track, entry.layer)
        self._ledger = GroupLedger(config.groups, state.groups)
        self._counts = Counter(state.counts)

    def apply(self, signal: Signal) -> list[Sample]:
        """Take one signal and return what it changed, in order."""
        entry = self._entry(signal)
        track = entry.track
        if signal.source is not track.source and signal.at < track.since_at:
            self._counts["late"] += 1
            return []
        out = self._expire(entry, signal.at)
        self._meet(entry, signal)
        return out + self._take(entry, signal)

    def advance(self, now: float) -> list[Sample]:
        """Let time pass: drop what is stale as lost, forget members that left."""
        out: list[Sample] = []
        for key, entry in list(self._consumers.items()):
            out += self._expire(entry, now)
            left_at = entry.track.left_at
            if left_at is not None and now >= left_at + self._config.forget_after_s:
                self._forget(key)
        return out

    def detach(self, stream: str, at: float) -> list[Sample]:
        """Drop what only the stream kept alive: its file has gone, its connection was closed."""
        out: list[Sample] = []
        for key, entry in list(self._consumers.items()):
            track = entry.track
            if track.member.stream != stream:
                continue
            if track.status is RebalanceStatus.DROPPED_GROUP:
                out += [track.lose(at), *self._instances.lose(track, at)]
            if track.status is NONE and entry.layer.status is NONE:
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
            consumers=tuple(self._row(t, now) for t in tracks if t.scope is Scope.CONSUMER),
            instances=tuple(self._row(t, now) for t in tracks if t.scope is Scope.STREAMS),
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
        track = entry.track
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
                entry.joining = entry.joining or track.status is NONE
                return []
            case SignalKind.NOTE:
                return [self._mask(track, signal.status, signal.at, signal.reason)]
            case SignalKind.SEEN:
                return []
            case _:
                assert_never(signal.kind)

    def _raise(self, entry: Consumer, signal: Signal) -> list[Sample]:
        track, at, reason = entry.track, signal.at, signal.reason
        out = self._lift(track, signal.status, at, reason)
        if signal.streams_follow_up is not None:
            entry.layer.demand(signal.streams_follow_up)
        return out + self._instances.follow(track, at, reason)

    def _sync(self, entry: Consumer, signal: Signal) -> list[Sample]:
        track, own, layer = entry.track, signal.follow_up, signal.streams_follow_up
        probing = layer is not None and layer.status is RebalanceStatus.ASSIGNMENT_PROBING
        if own is not None:
            out = self._lift(track, own.status, own.at, own.reason)
        else:
            out = self._end(entry, signal, Outcome.SYNCED)
            if layer is None or probing:
                entry.layer.clear()
        entry.joining = False
        if layer is None:
            at, reason = (signal.at, None) if own is None else (own.at, own.reason)
            return out + self._instances.follow(track, at, reason, Outcome.SYNCED)
        if probing:  # raised after the zero: the rebalance has ended, the probing one is pending
            out += self._instances.follow(track, signal.at, None, Outcome.SYNCED)
        entry.layer.demand(layer)
        return out + self._instances.follow(track, layer.at, layer.reason)

    def _leave(self, entry: Consumer, signal: Signal) -> list[Sample]:
        out = self._lift(entry.track, USER_REQUESTED, signal.at, signal.reason)
        out += self._instances.follow(entry.track, signal.at, signal.reason)
        out += self._settle(entry, signal, Outcome.LEFT)
        entry.track.left_at = entry.track.last_at
        return out

    def _settle(self, entry: Consumer, signal: Signal, outcome: Outcome) -> list[Sample]:
        out = self._end(entry, signal, outcome)
        entry.joining = False
        entry.layer.clear()
        return out + self._instances.follow(entry.track, signal.at, signal.reason, outcome)

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
        return track.record(SampleKind.SIGNAL, at, from_=track.status, to=status, reason=reason)

    def _end(self, entry: Consumer, signal: Signal, outcome: Outcome) -> list[Sample]:
        """Bring the consumer to 0; a round at 0 that nothing explained is counted."""
        track = entry.track
        if track.status is not NONE:
            sample = track.move(NONE, signal.at, signal.reason, outcome)
            self._ledger.observe(self._group(track), track.last_at - track.episode_at)
            return [sample]
        if not entry.joining or outcome is not Outcome.SYNCED:
            return []
        self._counts["unexplained"] += 1
        reason = "joined without a visible cause"
        return [track.record(SampleKind.SIGNAL, signal.at, from_=NONE, to=None, reason=reason)]

    def _expire(self, entry: Consumer, now: float) -> list[Sample]:
        track, layer, out = entry.track, entry.layer, list[Sample]()
        limit_s = self._config.stale_after(track.member)
        stale = track.stale_at(self._config)
        if stale is not None and stale <= now:
            out += [track.lose(stale), *self._instances.lose(track, stale)]
            self._counts["lost"] += 1
        stale = layer.stale_at(limit_s)
        if stale is not None and stale <= now:
            layer.clear()
            out += self._instances.lose(track, stale)
            self._counts["lost"] += 1
        return out

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
        if len(self._consumers) > self._config.members:
            self._forget(next(iter(self._consumers)))
            self._counts["evicted"] += 1
        return entry

    def _meet(self, entry: Consumer, signal: Signal) -> None:
        track = entry.track
        track.member, track.source, track.known = signal.member, signal.source, True
        track.confirmed_at = max(track.confirmed_at, signal.at)
        if signal.generation is not None:
            track.generation = signal.generation
        if signal.kind not in {SignalKind.SEEN, SignalKind.NOTE}:
            track.left_at = None
        self._ledger.see(self._group(track))

    def _forget(self, key: MemberKey) -> None:
        self._instances.dismiss(self._consumers.pop(key).track)

    def _tracks(self) -> list[Track]:
        return [entry.track for entry in self._consumers.values()] + self._instances.tracks

    def _group(self, track: Track) -> GroupKey:
        member = track.member
        return GroupKey(member.cluster, track.app, member.group, member.group_type)

    def _row(self, track: Track, now: float) -> MemberRow:
        member, status = track.member, track.shown(now, self._config)
        instance = member.instance_key if track.scope is Scope.CONSUMER else None
        held_s = max(0.0, now - track.since_at)
        seconds = track.seconds | {track.status: track.seconds.get(track.status, 0.0) + held_s}
        return MemberRow(
            cluster=member.cluster,
            app=track.app,
            group=member.group,
            group_type=member.group_type,
            client_id=track.client_id,
            host=member.host,
            status=status,
            peak=peak(status, track.steps, now, self._config.peak_window_s),
            since_at=track.since_at,
            reason=track.reason,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            protocol_type=member.protocol_type,
            assignor=member.assignor,
            software=member.software,
            generation=track.generation,
            instance=None if instance is None else instance.client_id,
            counts=StatusCounts(dict(track.rebalances), dict(track.transitions), seconds),
        )
