"""Signals in, samples out: the one stateful class of the core.

Theory of operation. Each consumer has a track. A Kafka Streams thread's consumer also has the
follow-up that its last assignment requires of the instance (10-13). An instance's track follows its
threads (`metrics.tracking.streams_instances`). Time comes in with the signals and with
`Tracker.advance`; there is no clock here.

Several sources may report one member. `metrics.tracking.identity` finds the member of a signal, and
`metrics.tracking.verdicts` decides the signal's effect.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from metrics.model.sample import DUPLICATE, Sample, SampleKind, Scope
from metrics.model.signals import InstanceKey, Signal, SignalKind, SourceKind
from metrics.model.snapshot import Snapshot
from metrics.model.status import RebalanceStatus
from metrics.model.transition import peak
from metrics.tracking.attributes import record_attributes, record_end, record_workload
from metrics.tracking.consumer import Consumer
from metrics.tracking.duplicates import forget
from metrics.tracking.group_durations import GroupDurations, GroupEntry
from metrics.tracking.identity import MemberIndex
from metrics.tracking.merge import PLACEHOLDER_S, SourceMerger
from metrics.tracking.rows import member_row
from metrics.tracking.source_traits import TRAITS
from metrics.tracking.status_track import StatusConfig, Track
from metrics.tracking.streams_instances import StreamsInstances
from metrics.tracking.transitions import Transitions

NONE = RebalanceStatus.NONE

_NO_WORKLOAD: Mapping[str, str] = {}
PARTITIONS_MAX = 500_000
"""Partitions of all members together: some 45 MB. A whole cluster has 200,000 as a rule."""
_SILENT_S = 60.0
"""A member without connections that nobody reported for as long is dead."""
AWAIT_S = 300.0
"""An origin that is not seen again for as long after a restart has ended: librdkafka's statistics
come every minute or so, heartbeats within seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerState:
    """State for a restart, in types that JSON has."""

    consumers: list[Consumer] = field(default_factory=list)
    instances: list[Track] = field(default_factory=list)
    groups: list[GroupEntry] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the keys of instances: a file may be damaged.

        Raises:
            ValueError: one is none.

        """
        for track in self.instances:
            if len(track.key) != len(InstanceKey._fields):
                raise ValueError(f"{track.key!r} is no key of a Streams instance")


class Tracker:
    """The state of every consumer and Streams instance."""

    def __init__(
        self,
        config: StatusConfig,
        app_of: Callable[[str], str] = str,
        state: TrackerState | None = None,
        workload: Mapping[str, str] = _NO_WORKLOAD,
    ) -> None:
        """Start empty or from ``state``; ``app_of`` names the application of a group.

        ``workload`` has version and image of the application of all members, if they are known.
        """
        state = state or TrackerState()
        self._config = config
        self._workload = workload
        self._limit = config.members
        self._app_of = app_of
        self._members = MemberIndex(state.consumers)
        self._instances = StreamsInstances(state.instances)
        for consumer in state.consumers:
            self._instances.restore_thread(consumer)
        self._awaited = set[str]()
        self._awaited_until = 0.0
        self._partitions = self._count_partitions()
        self._counts = Counter(state.counts)
        self._durations = GroupDurations(config.groups, state.groups, self._counts)
        self._transitions = Transitions(config, self._instances, self._durations, self._counts)
        self._merger = SourceMerger(
            self._transitions, self._instances, self._durations, self._counts
        )

    def apply(self, signal: Signal) -> list[Sample]:
        """Apply one signal and return the samples, in order."""
        before = len(self._members)
        if self._awaited:
            self._awaited.discard(signal.member.origin)
        consumer, out = self._consumer_of(signal)
        is_new = len(self._members) > before
        if signal.assigned:
            signal = self._bound_partitions(consumer.track, signal)
        out += self._make_room(signal.at) + self._merger.apply(consumer, signal)
        is_refused = signal.kind is SignalKind.FAIL and TRAITS[signal.source].is_broker
        if is_new and (is_refused or signal.by is not None):  # it is no member: no series
            consumer.track.known, consumer.track.left_at = False, signal.at
        out += record_attributes(consumer.track, signal, out)
        if consumer.track.workload != self._workload:
            out += record_workload(consumer.track, self._workload, signal.at)
        return out

    def freeze_limits(self) -> None:
        """Limit the members to their present number, because memory is short.

        A new member then replaces the one that was silent for longest.
        """
        self._limit = min(self._config.members, max(1, len(self._members)))

    def restore_limits(self) -> None:
        """Allow as many members as the configuration again."""
        self._limit = self._config.members

    def advance(self, now: float) -> list[Sample]:
        """Advance the time: drop stale statuses as lost, remove departed members."""
        out: list[Sample] = []
        for consumer in self._members:
            # nearly every member is stable, and there are 20,000
            if consumer.pending:
                out += self._merger.release_due(consumer, now)
            if consumer.observations:
                forget(consumer.observations, now)
            if consumer.track.status or consumer.streams_follow_up.status:
                out += self._transitions.expire(consumer, now)
            if self._is_gone(consumer, now):
                self._forget(consumer, now)
        if self._awaited and now >= self._awaited_until:
            for origin in sorted(self._awaited):
                out += self._detach(origin, now, shows_end=False)
            self._awaited.clear()
        return out

    def name_cluster(self, cluster: str) -> list[Sample]:
        """Give members and groups of no known cluster this one: the only one that is observed."""
        signals = [
            Signal(
                kind=SignalKind.SEEN,
                at=consumer.track.last_at,
                member=replace(view.member, cluster=cluster),
                source=view.source,
            )
            for consumer in self._members
            for view in consumer.views
            if not view.member.cluster
        ]
        out = [sample for signal in signals for sample in self.apply(signal)]
        self._durations.name_cluster(cluster)
        return out

    def flush(self) -> list[Sample]:
        """Apply pending signals: no other signals will arrive."""
        out: list[Sample] = []
        for consumer in self._members:
            while consumer.pending:
                out += self._merger.release(consumer)
        return out

    def detach(self, origin: str, at: float, *, is_cut: bool = False) -> list[Sample]:
        """Drop members that only this origin reports: its file is gone, its connection closed.

        If the origin ``is_cut``, its end is no sign that its process has ended.
        """
        return self._detach(origin, at, shows_end=not is_cut)

    def remove_origins(
        self, is_departed: Callable[[SourceKind, str], bool], at: float
    ) -> list[Sample]:
        """Detach origins that no source reads any more; forget members without others."""
        out, groups = list[Sample](), set[tuple[str, str]]()
        for origin in sorted(self._find_origins(is_departed)):
            groups.update(map(_group_of, self._members.of_origin(origin)))
            out += self.detach(origin, at)
            for consumer in self._members.of_origin(origin):
                if not consumer.is_attached:
                    out += self._transitions.lose_all(consumer, at, "its source is not configured")
                    self._forget(consumer, at)
        self._durations.forget(groups - set(map(_group_of, self._members)))
        return out

    def await_origins(self, is_awaited: Callable[[SourceKind, str], bool], at: float) -> None:
        """Detach those of these origins that are silent from now on.

        Their sources have started again and know no connections: they would never report the end.
        """
        self._awaited, self._awaited_until = self._find_origins(is_awaited), at + AWAIT_S
        for origin in self._awaited:
            for consumer in self._members.of_origin(origin):
                consumer.track.is_watched = False

    def sample(self, deadline: float, interval_s: float) -> list[Sample]:
        """Return the periodic samples of ``deadline`` (Unix seconds)."""
        return [
            track.record(
                SampleKind.SAMPLE,
                deadline,
                from_=None,
                to=track.status,
                reason=track.reason,
                peak=peak(track.status, track.peak_window, deadline, interval_s),
            )
            for track in self._tracks()
            if track.known and track.last_at <= deadline
        ]

    def snapshot(self, now: float) -> Snapshot:
        """Return the state for exporters at ``now``; change nothing."""
        tracks = [track for track in self._tracks() if track.known]
        return Snapshot(
            at=now,
            unseen=frozenset(
                (track.member.cluster, track.member.group)
                for track in self._tracks()
                if not track.known and track.left_at is None
            ),
            consumers=tuple(
                member_row(t, now, self._config) for t in tracks if t.scope is Scope.CONSUMER
            ),
            instances=tuple(
                member_row(t, now, self._config) for t in tracks if t.scope is Scope.STREAMS
            ),
            groups=tuple(consumer.key for consumer in self._durations.entries),
            durations=self._durations.durations(),
            members_by_origin=Counter(
                view.member.origin
                for consumer in self._members
                for view in consumer.views
                if view.attached
            ),
            counts=dict(self._counts),
        )

    def state(self) -> TrackerState:
        """Return a checkpoint's content. The objects are live: encode them at once."""
        return TrackerState(
            consumers=list(self._members),
            instances=self._instances.tracks,
            groups=self._durations.entries,
            counts=dict(self._counts),
        )

    def _find_origins(self, is_wanted: Callable[[SourceKind, str], bool]) -> set[str]:
        views = (view for consumer in self._members for view in consumer.views)
        return {v.member.origin for v in views if is_wanted(v.source, v.member.origin)}

    def _detach(self, origin: str, at: float, *, shows_end: bool) -> list[Sample]:
        """Detach an origin; without ``shows_end`` silence is no sign of a dead process."""
        out: list[Sample] = []
        for consumer in self._members.of_origin(origin):
            is_silent = consumer.is_removed or consumer.track.confirmed_at < at - _SILENT_S
            is_silent = is_silent and shows_end
            consumer.detach(origin, is_silent=is_silent, shows_end=shows_end)
            if shows_end and consumer.track.left_at is None and not consumer.sees_requests:
                out += record_end(consumer.track, at)
            if consumer.removed_by is not None and not consumer.has_own_source:
                out += self._transitions.end_removed(consumer, consumer.removed_by, at)
            if consumer.is_attached:
                continue
            if consumer.pending:
                out += self._merger.release(consumer)
            if consumer.track.status is RebalanceStatus.DROPPED_GROUP:
                out += self._transitions.lose(consumer, at, "its source has ended")
            if self._is_gone(consumer, at):
                self._forget(consumer, at)
        return out

    def _consumer_of(self, signal: Signal) -> tuple[Consumer, list[Sample]]:
        """Return the consumer of a signal, new if need be."""
        consumer, merged = self._members.identify(signal)
        out: list[Sample] = []
        if merged is not None:
            out = self._transitions.lose_all(merged, signal.at, DUPLICATE)
            self._hand_over(merged, signal.at)
        if consumer is not None:
            self._members.record_view(consumer, signal)
            return consumer, out
        member = signal.member
        track = Track(
            scope=Scope.CONSUMER,
            key=self._members.key_for(member),
            member=member,
            client_id=member.client_id,
            app=self._app_of(member.group),
            source=signal.source,
            origin=member.origin,
            since_at=signal.at,
            last_at=signal.at,
            confirmed_at=signal.at,
        )
        consumer = Consumer(track=track)
        if TRAITS[signal.source].is_broker and self._members.has_clients:
            track.known, consumer.pending_until = False, signal.at + PLACEHOLDER_S
        if merged is not None:
            consumer.absorb(merged)
        consumer.record_view(signal)
        self._instances.add_thread(consumer, signal)
        self._members.add(consumer)
        return consumer, out

    def _bound_partitions(self, track: Track, signal: Signal) -> Signal:
        """Return the signal, without its partitions if all members have too many with them.

        Departed members count until the limit is reached: only then the sum is computed again.
        """
        more = len(signal.assigned or ()) - len(track.assigned or ())
        if self._partitions + more > PARTITIONS_MAX:
            self._partitions = self._count_partitions()
        if self._partitions + more > PARTITIONS_MAX:
            self._counts["partitions_forgotten"] += 1
            return replace(signal, assigned=None)
        self._partitions += more
        return signal

    def _count_partitions(self) -> int:
        return sum(len(consumer.track.assigned or ()) for consumer in self._members)

    def _make_room(self, at: float) -> list[Sample]:
        """Evict the longest silent members; a status is recorded as lost."""
        out = list[Sample]()
        while len(self._members) > self._limit:
            consumer = self._members.longest_silent
            out += self._transitions.lose_all(consumer, at, "evicted: too many members")
            self._forget(consumer, at)
            self._counts["evicted"] += 1
        return out

    def _is_gone(self, consumer: Consumer, now: float) -> bool:
        """Return True if a member left long ago, or is stable and has no source."""
        track = consumer.track
        went_at = track.removed_at if track.left_at is None else track.left_at
        if went_at is not None:
            return now >= went_at + self._config.forget_after_s
        is_stable = consumer.track.status is NONE and consumer.streams_follow_up.status is NONE
        return is_stable and not consumer.is_attached

    def _forget(self, consumer: Consumer, at: float) -> None:
        self._members.remove(consumer)
        self._hand_over(consumer, at)

    def _hand_over(self, consumer: Consumer, at: float) -> None:
        """Remove a member from its instance; one with the same labels inherits its counts."""
        self._instances.remove_thread(consumer)
        heir = next(
            (
                c
                for c in self._members.candidates(consumer.track.member)
                if _has_labels(c, consumer)
            ),
            None,
        )
        if heir is not None:
            heir.track.inherit(consumer.track, at)

    def _tracks(self) -> list[Track]:
        return [consumer.track for consumer in self._members] + self._instances.tracks


def _group_of(consumer: Consumer) -> tuple[str, str]:
    member = consumer.track.member
    return member.cluster, member.group


def _has_labels(one: Consumer, other: Consumer) -> bool:
    a, b = one.track.member, other.track.member
    return (a.cluster, a.client_id, a.host) == (b.cluster, b.client_id, b.host)
