"""Several sources of one member: what another one has told already, what came late, what waits.

Theory of operation. Whoever tells an event first moves the status; another source's telling of it
only confirms, and brings better words where there were none. A cause that only the slower source
saw cannot be put into a round that is over: it becomes an episode of its own where nothing has
moved since, else it is recorded as a ``signal``; so is what an assignment demands, once who told
its round's end has told the next cause: a client may reject an assignment. A leave without a reason
may be a drop (5), which the wire does not tell from a close: while a source that knows better
lives, it waits for that one. So does a broker's end of a round, whose assignment may demand the
next one (10): while the member tells of that round itself, its own end is the end. What a broker
tells of a new member waits too, where clients are heard: a client's new log is found some seconds
after the broker's line.
"""

from collections import Counter

from metrics.model.sample import Sample
from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.consumer import PRIORITY, Consumer, MemberView, StreamsFollowUp
from metrics.tracking.duplicates import (
    DROPPED,
    FOLLOW_UPS,
    LEFT,
    RAISES,
    SAME_EVENT_S,
    Observation,
    clock_slack_s,
    has_later_cause,
    match_observation,
    remember,
    reporter_name,
    split_signal,
)
from metrics.tracking.group_durations import GroupDurations
from metrics.tracking.ordering import (
    SHOWS_FOLLOW_UPS,
    ends_of_others,
    ends_own,
    is_for_departed_member,
    is_late,
    is_of_ended_round,
)
from metrics.tracking.streams_instances import StreamsInstances
from metrics.tracking.transitions import Transitions

NONE = RebalanceStatus.NONE

NEUTRAL_KINDS = {SignalKind.SEEN, SignalKind.NOTE}
"""Say nothing of the member's status: they undo, confirm and begin nothing, and are never late."""
PENDING_S = 5.0
"""How long an unclear leave or end waits: a log is read within a second, but some come late."""
PLACEHOLDER_S = 8.0
"""How long a broker's new member waits for its own words: a new log is found within 5 s."""
_PENDING = 100
"""What one voice may tell behind an unclear leave or end until that is taken as it is."""


class SourceMerger:
    """Between the signals of all sources and the moves of a member."""

    def __init__(
        self,
        transitions: Transitions,
        instances: StreamsInstances,
        durations: GroupDurations,
        counts: Counter[str],
    ) -> None:
        self._transitions, self._instances = transitions, instances
        self._durations, self._counts = durations, counts

    def take(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        """Take a signal of whichever source, and return what it changed."""
        if consumer.pending_until is not None:
            if consumer.is_broker_only and len(consumer.pending) < _PENDING:
                consumer.pending.append(signal)
                return []
            consumer.pending_until = None
        if signal.kind in NEUTRAL_KINDS:
            return self._do(consumer, signal)
        if _is_removal(signal) and _is_known_better(consumer, signal):
            return []
        consumer.record_progress(signal)
        out = self.release(consumer) if _has_passed(consumer, signal) else []
        if _waits(consumer, signal):
            consumer.pending.append(signal)
        else:
            out += self._take(consumer, signal)
        if consumer.pending and (
            len(consumer.pending) > _PENDING or _is_told(consumer, consumer.pending[0])
        ):
            out += self.release(consumer)
        return out

    def release(self, consumer: Consumer) -> list[Sample]:
        """Take an unclear leave or end as it is, and what waits behind it."""
        (first, *behind), consumer.pending, consumer.pending_until = consumer.pending, [], None
        out = (
            self._do(consumer, first)
            if first.kind in NEUTRAL_KINDS
            else self._take(consumer, first)
        )
        for signal in behind:
            out += self.take(consumer, signal)
        return out

    def release_due(self, consumer: Consumer, now: float) -> list[Sample]:
        """Take what has waited long enough."""
        out: list[Sample] = []
        while (
            consumer.pending
            and (consumer.pending_until or consumer.pending[0].at + PENDING_S) <= now
        ):
            out += self.release(consumer)
        return out

    def _take(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        told = split_signal(signal)
        claimed = (
            [match_observation(consumer.observations, fact) for fact in told]
            if len(consumer.views) > 1
            else []
        )
        if not claimed or claimed[0] is None or ends_own(consumer.track, signal, claimed[0]):
            return self._take_news(consumer, signal, told)
        out = self._confirm_duplicate(consumer, signal, told[0], claimed[0])
        new = {fact.name for fact, echo in zip(told, claimed, strict=True) if echo is None}
        rest = _rest(signal, new)
        if rest is None:
            return out
        is_end = signal.kind is SignalKind.SYNC
        if is_end and has_later_cause(
            consumer.observations, claimed[0]
        ):  # it may have rejected the assignment
            return out + self._note_follow_ups(consumer, rest)
        return out + self._take_news(consumer, rest, split_signal(rest))

    def _take_news(
        self, consumer: Consumer, signal: Signal, told: list[Observation]
    ) -> list[Sample]:
        if is_late(consumer, signal):
            self._counts["late"] += 1
            return self._take_late(consumer, signal, told)
        if is_of_ended_round(consumer, signal):
            self._counts["late"] += 1
            return [self._transitions.note(consumer.track, signal.status, signal.at, signal.reason)]
        if is_for_departed_member(consumer.track, signal):
            return [self._transitions.note(consumer.track, signal.status, signal.at, signal.reason)]
        if _is_broker_s_end(signal) and _ends_by_itself(consumer):
            consumer.track.confirmed_at = max(consumer.track.confirmed_at, signal.at)
            return []
        remember(consumer.observations, told)
        return self._do(consumer, signal)

    def _do(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        """Take a signal into the track."""
        track, out = consumer.track, self._transitions.expire(consumer, signal.at)
        track.set_reporter(signal.source, signal.member.origin, signal.at)
        if signal.generation is not None:
            track.generation = signal.generation
        if signal.kind not in NEUTRAL_KINDS:
            track.confirmed_at = max(track.confirmed_at, signal.at)
            track.left_at = None
        self._instances.set_reporter(consumer, signal.at)
        self._durations.touch(track.group_key)
        return out + self._transitions.apply(consumer, signal)

    def _confirm_duplicate(
        self, consumer: Consumer, signal: Signal, fact: Observation, told: Observation
    ) -> list[Sample]:
        """Take an echo: the same event, perhaps in better words."""
        track = consumer.track
        track.confirmed_at = max(track.confirmed_at, signal.at)
        if signal.kind is SignalKind.SYNC:
            consumer.joining = False
        if (told.name, fact.name) == (LEFT, DROPPED):  # it was taken for a close
            return [self._transitions.note(track, signal.status, signal.at, signal.reason)]
        known, told.reason = told.reason, _better(told, fact)
        if track.status is NONE or track.status is not signal.status or told.reason == known:
            return []
        track.reason = told.reason
        if known is not None:
            return []
        return [self._transitions.note(track, signal.status, signal.at, signal.reason)]

    def _note_follow_ups(self, consumer: Consumer, rest: Signal) -> list[Sample]:
        """Record what an assignment would have demanded, each of whom it is demanded."""
        layer, instance = rest.streams_follow_up, self._instances.track_of(consumer)
        out: list[Sample] = []
        if rest.status:
            out.append(self._transitions.note(consumer.track, rest.status, rest.at, rest.reason))
        if layer is not None and instance is not None:
            out.append(self._transitions.note(instance, layer.status, layer.at, layer.reason))
        return out

    def _take_late(
        self, consumer: Consumer, signal: Signal, told: list[Observation]
    ) -> list[Sample]:
        """Take a cause of a round that another source has ended."""
        track, at = consumer.track, signal.at - clock_slack_s(signal.source)
        ends = [each for each in ends_of_others(consumer, signal) if each.at >= at]
        if signal.kind is not SignalKind.RAISE or not signal.status or not ends:
            return []
        remember(consumer.observations, told)
        if track.status is not NONE or (track.moved is not None and track.moved.at > at):
            return [self._transitions.note(track, signal.status, signal.at, signal.reason)]
        now = track.ended, consumer.instance, consumer.streams_follow_up
        if not self._instances.is_idle_since(consumer, at):
            consumer.instance = None  # it has gone on
        consumer.streams_follow_up = StreamsFollowUp()  # of a later assignment
        out = self._do(consumer, signal)
        out += self._do(consumer, _ending(signal, min(ends, key=lambda each: each.at)))
        track.ended, consumer.instance, consumer.streams_follow_up = now
        return out


def _better(told: Observation, fact: Observation) -> str | None:
    if fact.reason is None or (
        told.reason is not None and PRIORITY.index(told.source) <= PRIORITY.index(fact.source)
    ):
        return told.reason
    return fact.reason


def _rest(signal: Signal, new: set[str]) -> Signal | None:
    """Return what a signal tells beside an echo: the follow-ups that nobody has told."""
    own, layer = signal.follow_up, signal.streams_follow_up
    if own is not None and RAISES[own.status] not in new:
        own = None
    if layer is not None and FOLLOW_UPS[layer.status] not in new:
        layer = None
    first = own or layer
    if first is None:
        return None
    return Signal(
        kind=SignalKind.RAISE,
        at=first.at,
        member=signal.member,
        source=signal.source,
        status=NONE if own is None else own.status,
        reason=first.reason,
        generation=signal.generation,
        streams_follow_up=layer,
    )


def _ending(signal: Signal, end: Observation) -> Signal:
    return Signal(
        kind=SignalKind(end.name),
        at=end.at,
        member=signal.member,
        source=signal.source,
        reason=end.reason,
    )


def _waits(consumer: Consumer, signal: Signal) -> bool:
    """Tell whether a signal is an unclear leave or end, or comes behind one."""
    if consumer.pending and reporter_name(signal) in map(reporter_name, consumer.pending):
        return True
    is_leave = signal.kind is SignalKind.LEAVE and signal.reason is None
    return (
        (is_leave and _is_known_better(consumer, signal))
        or (_is_broker_s_end(signal) and any(map(_shows_demands, consumer.views)))
    ) and not _is_told(consumer, signal)


def _is_removal(signal: Signal) -> bool:
    """Tell whether a broker has only done with a member, which may yet come back."""
    return signal.kind is SignalKind.FAIL and signal.source is SourceKind.BROKER_LOG


def _is_broker_s_end(signal: Signal) -> bool:
    """Tell whether a round seems to be over; the assignment may demand the next one."""
    return signal.kind is SignalKind.SYNC and signal.source is SourceKind.BROKER_LOG


def _shows_demands(voice: MemberView) -> bool:
    return voice.attached and voice.source in SHOWS_FOLLOW_UPS


def _ends_by_itself(consumer: Consumer) -> bool:
    """Tell whether the member is under way by its own words, and will tell the end as well."""
    return any(_shows_demands(v) and v.reports_ends and v.is_rebalancing for v in consumer.views)


def _is_known_better(consumer: Consumer, signal: Signal) -> bool:
    """Tell whether a source lives that knows the member better."""
    rank = PRIORITY.index(signal.source)
    return any(voice.attached and voice.priority < rank for voice in consumer.views)


def _is_told(consumer: Consumer, signal: Signal) -> bool:
    return any(
        each.is_same(fact)
        for fact in split_signal(signal)[:1]  # none, if it raises nothing
        for each in consumer.observations
        if fact.reporters[0] not in each.reporters
    )


def _has_passed(consumer: Consumer, signal: Signal) -> bool:
    """Tell whether the one who was waited for tells of what came after the leave."""
    if not consumer.pending:
        return False
    behind = reporter_name(signal) in map(reporter_name, consumer.pending)
    return signal.at > consumer.pending[0].at + (PENDING_S if behind else SAME_EVENT_S)
