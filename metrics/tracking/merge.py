"""Effect of signals on a member that several sources report.

`metrics.tracking.verdicts` decides, this module acts. The first report of an event moves the
status; another source's report of it only confirms, and adds a reason if the first had none.

A cause that only the slower source reports cannot join a rebalance that is over. It becomes an
episode of its own if the status has not moved since, else a ``signal``. So does the follow-up of an
assignment once the next cause has been reported: a client may reject an assignment.
"""

from collections import Counter
from collections.abc import Container
from typing import assert_never

from metrics.model.sample import Sample
from metrics.model.signals import Signal, SignalKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.consumer import NEUTRAL_KINDS, PENDING_MAX, Consumer, StreamsFollowUp
from metrics.tracking.duplicates import (
    DROPPED,
    FOLLOW_UPS,
    LEFT,
    RAISES,
    Observation,
    find_duplicate,
    has_later_cause,
    match_observation,
    remember,
    split_signal,
)
from metrics.tracking.group_durations import GroupDurations
from metrics.tracking.ordering import earliest_at, outstanding_ends
from metrics.tracking.source_traits import TRAITS
from metrics.tracking.status_track import Provenance
from metrics.tracking.streams_instances import StreamsInstances
from metrics.tracking.transitions import Transitions
from metrics.tracking.verdicts import (
    PENDING_S,
    Decision,
    Verdict,
    has_held_cause,
    has_held_end,
    judge,
)

NONE = RebalanceStatus.NONE

PLACEHOLDER_S = 8.0
"""Time that a broker's new member waits for its own source: a new log is found within 5 s."""
_RELEASED = frozenset({Verdict.HOLD, Verdict.RELEASE})


class SourceMerger:
    """The signals of all sources become the moves of a member."""

    def __init__(
        self,
        transitions: Transitions,
        instances: StreamsInstances,
        durations: GroupDurations,
        counts: Counter[str],
    ) -> None:
        self._transitions, self._instances = transitions, instances
        self._durations, self._counts = durations, counts

    def apply(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        """Apply a signal of any source and return the samples."""
        if not consumer.is_awaited:
            consumer.pending_until = None
            consumer.record_progress(signal)
        if not TRAITS[signal.source].is_broker:
            consumer.is_disconnected = False
            if signal.kind not in NEUTRAL_KINDS:
                consumer.removed_by = None
        decision = self._judge(consumer, signal)
        out = self._act(consumer, signal, decision)
        if signal.kind in NEUTRAL_KINDS:
            return out
        if self._is_pending_decided(consumer):
            return out + self.release(consumer)
        if decision.is_late and _is_end_of_pending(consumer, signal):
            out += self.release(consumer)
            match_observation(consumer.observations, split_signal(signal)[0])
        return out

    def release(self, consumer: Consumer) -> list[Sample]:
        """Apply the first pending signal as it is, then judge the others again."""
        (first, *behind), consumer.pending, consumer.pending_until = consumer.pending, [], None
        out = self._judge_released(consumer, first)
        for signal in behind:
            out += self.apply(consumer, signal)
        if first.kind is SignalKind.SYNC:
            for sibling in self._instances.siblings_of(consumer):
                others = self._instances.siblings_of(sibling)
                if has_held_cause(sibling) and not any(map(has_held_end, others)):
                    out += self.release(sibling)
        return out

    def _judge(
        self, consumer: Consumer, signal: Signal, passed_over: Container[Verdict] = ()
    ) -> Decision:
        siblings = self._instances.siblings_of(consumer)
        return judge(consumer, signal, TRAITS[signal.source], passed_over, siblings)

    def release_due(self, consumer: Consumer, now: float) -> list[Sample]:
        """Apply pending signals that have waited long enough."""
        out: list[Sample] = []
        while consumer.pending:
            due_at = consumer.pending_until or consumer.pending[0].at + PENDING_S
            if due_at > now:
                break
            out += self.release(consumer)
        return out

    def _judge_released(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        decision = self._judge(consumer, signal, passed_over=_RELEASED)
        return self._act(consumer, signal, decision)

    def _is_pending_decided(self, consumer: Consumer) -> bool:
        """Return True if another source has reported the first pending signal, or it must go."""
        if consumer.is_awaited or not consumer.pending:
            return False
        event = split_signal(consumer.pending[0])[:1]
        return len(consumer.pending) > PENDING_MAX or any(
            find_duplicate(consumer.observations, o) is not None for o in event
        )

    def _act(  # noqa: C901, PLR0911 - one case a verdict
        self, consumer: Consumer, signal: Signal, decision: Decision
    ) -> list[Sample]:
        """Carry out a verdict: the one place for it."""
        if decision.is_late:
            self._counts["late"] += 1
        match decision.verdict:
            case Verdict.HOLD:
                consumer.pending.append(signal)
                return []
            case Verdict.RELEASE:
                out = self.release(consumer)
                again = self._judge(consumer, signal, passed_over={Verdict.RELEASE})
                return out + self._act(consumer, signal, again)
            case Verdict.CONFIRM:
                return self._confirm(consumer, signal)
            case Verdict.APPLY:
                self._observe(consumer, signal, decision)
                return self._move(consumer, signal)
            case Verdict.BACKFILL:
                ends = outstanding_ends(consumer, signal)
                self._observe(consumer, signal, decision)
                return self._backfill(consumer, signal, min(ends, key=lambda end: end.at))
            case Verdict.NOTE:
                self._observe(consumer, signal, decision)
                return [self._note(consumer, signal)]
            case Verdict.REFRESH:
                self._observe(consumer, signal, decision)
                consumer.track.confirm(signal.at)
                return []
            case Verdict.IGNORE:
                if decision.is_late:
                    self._observe(consumer, signal, decision)
                    return self._note_join(consumer, signal)
                if signal.kind is SignalKind.FAIL:
                    return self._note_removal(consumer, signal)
                return []
            case _:
                assert_never(decision.verdict)

    def _note_join(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        """Record when a late join was sent: the log of its client may show the response alone."""
        if signal.sent_at is None:
            return []
        consumer.track.set_reporter(signal.source, signal.member.origin, signal.at, signal.shift_s)
        return self._transitions.report_join(consumer.track, signal.at, signal.sent_at)

    def _note_removal(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        """Note that a coordinator has done with a member; one whose process is dead has ended."""
        if consumer.track.status is not RebalanceStatus.UNKNOWN_MEMBER:
            return []
        by = Provenance(signal.at, signal.source, signal.member.origin)
        if consumer.is_disconnected:
            return self._transitions.end_removed(consumer, by, signal.at)
        consumer.removed_by = by
        return []

    def _observe(self, consumer: Consumer, signal: Signal, decision: Decision) -> None:
        """Mark observations that another source has reported as well; remember first reports."""
        if signal.kind in NEUTRAL_KINDS:
            return
        new = split_signal(signal)
        if len(consumer.views) > 1:
            for observation in new:
                match_observation(consumer.observations, observation)
        if decision.is_remembered:
            remember(consumer.observations, new)

    def _move(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        """Move the member's track by a signal."""
        track, out = consumer.track, self._transitions.expire(consumer, signal.at)
        track.set_reporter(signal.source, signal.member.origin, signal.at, signal.shift_s)
        if signal.generation is not None or _is_next_generation(signal):
            track.generation = signal.generation
        if signal.kind not in NEUTRAL_KINDS:
            track.confirm(signal.at)
            track.left_at, track.removed_at, track.is_muted = None, None, signal.is_muted
        elif signal.joins:  # a further round of the rebalance that its status is of
            track.confirm(signal.at)
        self._instances.set_reporter(consumer, signal.at)
        self._durations.touch(track.group_key)
        return out + self._transitions.apply(consumer, signal)

    def _confirm(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        """Confirm an event that another source has reported; apply its new follow-ups."""
        observations = split_signal(signal)
        originals = [match_observation(consumer.observations, o) for o in observations]
        original = originals[0]
        assert original is not None  # noqa: S101 - the verdict implies it
        out = self._confirm_event(consumer, signal, observations[0], original)
        pairs = zip(observations, originals, strict=True)
        rest = _follow_ups_only(signal, {o.name for o, known in pairs if known is None})
        if rest is None:
            return out
        is_end = signal.kind is SignalKind.SYNC
        if is_end and has_later_cause(consumer.observations, original):
            # the client may have rejected the assignment
            return out + self._note_follow_ups(consumer, rest)
        return out + self._judge_released(consumer, rest)

    def _confirm_event(
        self, consumer: Consumer, signal: Signal, event: Observation, original: Observation
    ) -> list[Sample]:
        """Confirm the status, and record a reason that was missing."""
        track = consumer.track
        track.confirm(signal.at)
        if signal.kind is SignalKind.SYNC:
            consumer.joining = False
            track.generation = track.generation if signal.generation is None else signal.generation
        if signal.sent_at is not None and signal.sent_at < original.at:
            return self._note_join(consumer, signal)
        if (original.name, event.name) == (LEFT, DROPPED):  # it was applied as a close
            return [self._note(consumer, signal)]
        known, original.reason = original.reason, _better_reason(original, event)
        if track.status is NONE or track.status is not signal.status or original.reason == known:
            return []
        track.reason = original.reason
        return [] if known is not None else [self._note(consumer, signal)]

    def _note(self, consumer: Consumer, signal: Signal) -> Sample:
        return self._transitions.note(consumer.track, signal.status, signal.at, signal.reason)

    def _note_follow_ups(self, consumer: Consumer, rest: Signal) -> list[Sample]:
        """Record the follow-ups of a rejected assignment, on the consumer and its instance."""
        streams, instance = rest.streams_follow_up, self._instances.track_of(consumer)
        out = [self._note(consumer, rest)] if rest.status else []
        if streams is not None and instance is not None:
            note = self._transitions.note(instance, streams.status, streams.at, streams.reason)
            out.append(note)
        return out

    def _backfill(self, consumer: Consumer, cause: Signal, end: Observation) -> list[Sample]:
        """Record the cause of a past rebalance as a separate episode."""
        track = consumer.track
        now = track.ended, consumer.instance, consumer.streams_follow_up
        if not self._instances.is_idle_since(consumer, earliest_at(cause)):
            consumer.instance = None  # it has moved on
        consumer.streams_follow_up = StreamsFollowUp()  # of a later assignment
        out = self._move(consumer, cause) + self._move(consumer, _end_signal(cause, end))
        track.ended, consumer.instance, consumer.streams_follow_up = now
        return out


def _is_end_of_pending(consumer: Consumer, signal: Signal) -> bool:
    """Return whether the pending end is this one, by another source.

    It may be ignored: the response came before a cause that its client reports, and was read by
    the client after it.
    """
    if not consumer.pending or {signal.kind, consumer.pending[0].kind} != {SignalKind.SYNC}:
        return False
    pending, end = split_signal(consumer.pending[0])[0], split_signal(signal)[0]
    return pending.reporters != end.reporters and pending.is_same(end)


def _is_next_generation(signal: Signal) -> bool:
    """Return whether a member has another generation from now on, also where none is shown."""
    return signal.kind is SignalKind.SYNC and signal.member.group_type == "classic"


def _better_reason(original: Observation, event: Observation) -> str | None:
    if event.reason is None:
        return original.reason
    is_better = TRAITS[event.source].priority < TRAITS[original.source].priority
    return event.reason if original.reason is None or is_better else original.reason


def _follow_ups_only(signal: Signal, new: set[str]) -> Signal | None:
    """Return the follow-ups of a signal that no other source has reported; None: there are none."""
    own, streams = signal.follow_up, signal.streams_follow_up
    if own is not None and RAISES[own.status] not in new:
        own = None
    if streams is not None and FOLLOW_UPS[streams.status] not in new:
        streams = None
    first = own or streams
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
        streams_follow_up=streams,
    )


def _end_signal(cause: Signal, end: Observation) -> Signal:
    return Signal(
        kind=SignalKind(end.name),
        at=end.at,
        member=cause.member,
        source=cause.source,
        reason=end.reason,
    )
