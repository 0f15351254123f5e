"""Transitions of a consumer and its Streams instance: the rules of raising and ending.

Sources: KAFKA-12472 for the two rules; semantics.md sections 2 and 3 for the ends of an episode.
"""

from collections import Counter
from typing import assert_never

from metrics.model.sample import (
    NOT_CONFIRMED,
    NOT_WATCHED,
    REMOVED_AND_ENDED,
    UNEXPLAINED,
    Outcome,
    Sample,
    SampleKind,
    clip_reason,
    format_time,
)
from metrics.model.signals import FollowUp, Signal, SignalKind
from metrics.model.status import RebalanceStatus
from metrics.model.transition import transition
from metrics.tracking.consumer import Consumer
from metrics.tracking.group_durations import GroupDurations
from metrics.tracking.source_traits import TRAITS
from metrics.tracking.status_track import Provenance, StatusConfig, Track
from metrics.tracking.streams_instances import StreamsInstances

NONE = RebalanceStatus.NONE
REFUSALS_S = 5.0
"""Refused requests of one member are recorded this far apart."""
USER_REQUESTED = RebalanceStatus.USER_REQUESTED


class Transitions:
    """Moves of tracks by signals; counts are the tracker's."""

    def __init__(
        self,
        config: StatusConfig,
        instances: StreamsInstances,
        durations: GroupDurations,
        counts: Counter[str],
    ) -> None:
        self._config, self._instances = config, instances
        self._durations, self._counts = durations, counts

    def apply(self, consumer: Consumer, signal: Signal) -> list[Sample]:  # noqa: PLR0911 - one line each
        """Apply a signal and return the samples, in order."""
        match signal.kind:
            case SignalKind.RAISE:
                return self._raise(consumer, signal)
            case SignalKind.SYNC:
                return self._sync(consumer, signal)
            case SignalKind.LEAVE:
                return self._leave(consumer, signal)
            case SignalKind.FAIL:
                return self._fail(consumer, signal)
            case SignalKind.JOIN:
                consumer.joining = consumer.track.status is NONE
                sent_at = signal.at if signal.sent_at is None else signal.sent_at
                consumer.track.joined_at = sent_at
                return self.report_join(consumer.track, signal.at, sent_at)
            case SignalKind.NOTE | SignalKind.REFUSE:
                return self._take_note(consumer.track, signal)
            case SignalKind.SEEN:
                return []
            case _:
                assert_never(signal.kind)

    def _fail(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        """Record a refused join, or the removal of a member by its coordinator."""
        if TRAITS[signal.source].is_broker:
            consumer.track.removed_at = signal.at
        out = self._refuse(consumer, signal)
        return out + self._settle(consumer, signal, Outcome.FAILED)

    def end_removed(self, consumer: Consumer, by: Provenance, at: float) -> list[Sample]:
        """End the status of a member that its coordinator removed, and whose sources have ended."""
        consumer.removed_by = None
        consumer.track.set_reporter(by.source, by.origin, at)
        signal = Signal(
            kind=SignalKind.FAIL,
            at=at,
            member=consumer.track.member,
            source=by.source,
            reason=REMOVED_AND_ENDED,
        )
        return self._fail(consumer, signal)

    def note(
        self,
        track: Track,
        status: RebalanceStatus | None,
        at: float,
        reason: str | None,
        outcome: Outcome | None = None,
    ) -> Sample:
        """Record a cause that changes nothing."""
        return track.record(
            SampleKind.SIGNAL, at, from_=track.status, to=status, reason=reason, outcome=outcome
        )

    def report_join(self, track: Track, at: float, sent_at: float) -> list[Sample]:
        """Record a join: others wait for the rest, and one that then hangs took part."""
        return [track.record_change("joined", None, None, at, joined_ts=format_time(sent_at))]

    def _refuse(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        """Record a refused join that ends no episode."""
        if consumer.track.status is not NONE or signal.reason is None:
            return []
        return [self.note(consumer.track, None, signal.at, signal.reason, Outcome.FAILED)]

    def _take_note(self, track: Track, signal: Signal) -> list[Sample]:
        """Record a note, or a refused request: clients repeat that with each heartbeat or poll."""
        if signal.kind is SignalKind.NOTE:
            return [self.note(track, signal.status or None, signal.at, signal.reason)]
        if abs(signal.at - track.refused_at) < REFUSALS_S:
            return []
        track.refused_at = signal.at
        return [self.note(track, None, signal.at, signal.reason, Outcome.FAILED)]

    def expire(self, consumer: Consumer, now: float) -> list[Sample]:
        """Drop a status and a follow-up that nothing has confirmed in time."""
        track, streams, out = consumer.track, consumer.streams_follow_up, list[Sample]()
        if track.status is NONE and streams.status is NONE:
            return out
        reason = NOT_CONFIRMED if track.is_watched else NOT_WATCHED
        stale = track.stale_at(self._config)
        if stale is not None and stale <= now:
            out = self.lose(consumer, stale, reason)
        stale = streams.stale_at(track.confirmed_at, self._config.stale_after(track.member))
        if stale is not None and stale <= now:
            out += self.lose_follow_up(consumer, stale, reason)
        return out

    def lose_all(self, consumer: Consumer, at: float, reason: str) -> list[Sample]:
        """Drop the status and follow-up of a member that is removed: recorded as lost."""
        lost = [] if consumer.track.status is NONE else self.lose(consumer, at, reason)
        return lost + self.lose_follow_up(consumer, at, reason)

    def lose(self, consumer: Consumer, at: float, reason: str) -> list[Sample]:
        """Drop the member's status, and its instance's if nothing else supports that."""
        lost = [consumer.track.lose(at, reason), *self._instances.lose(consumer, at, reason)]
        self._counts["lost"] += len(lost)
        return lost

    def lose_follow_up(self, consumer: Consumer, at: float, reason: str) -> list[Sample]:
        """Drop the follow-up that the member's assignment requires of its instance."""
        consumer.streams_follow_up.clear()
        lost = self._instances.lose(consumer, at, reason)
        self._counts["lost"] += len(lost)
        return lost

    def _raise(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        track, streams = consumer.track, signal.streams_follow_up
        consumer.joining = False
        out = self._raise_status(track, signal.status, signal.at, signal.reason)
        if streams is not None:
            return out + self._raise_follow_up(consumer, streams)
        return out + self._instances.follow(consumer, signal.at, signal.reason)

    def _sync(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        track, own, streams = consumer.track, signal.follow_up, signal.streams_follow_up
        # AssignmentProbing (11) follows the zero: this rebalance is over, the probing one pending
        at_once = streams is not None and streams.status is not RebalanceStatus.ASSIGNMENT_PROBING
        out = self._count_unexplained(consumer, signal.at, signal.reason)
        if signal.gained is not None and track.status is not NONE:
            track.gained = signal.gained + (track.gained or 0)
        if own is not None:
            track.end(signal.at)
            out += self._raise_status(track, own.status, own.at, own.reason)
        else:
            out += self._end(track, signal, Outcome.SYNCED)
        if not at_once:
            if own is None:
                consumer.streams_follow_up.clear()
            at, reason = (signal.at, None) if own is None else (own.at, own.reason)
            out += self._instances.follow(consumer, at, reason, Outcome.SYNCED)
        return out if streams is None else out + self._raise_follow_up(consumer, streams)

    def _leave(self, consumer: Consumer, signal: Signal) -> list[Sample]:
        out = self._raise_status(consumer.track, USER_REQUESTED, signal.at, signal.reason)
        out += self._instances.follow(consumer, signal.at, signal.reason)
        out += self._settle(consumer, signal, Outcome.LEFT)
        consumer.track.left_at = signal.at
        return out

    def _settle(self, consumer: Consumer, signal: Signal, outcome: Outcome) -> list[Sample]:
        out = self._end(consumer.track, signal, outcome)
        consumer.joining = False
        consumer.streams_follow_up.clear()
        return out + self._instances.follow(consumer, signal.at, signal.reason, outcome)

    def _raise_follow_up(self, consumer: Consumer, follow_up: FollowUp) -> list[Sample]:
        """Raise the follow-up status, or record that the instance's higher one suppresses it."""
        at, reason = follow_up.at, follow_up.reason
        consumer.streams_follow_up.raise_to(follow_up)
        moved = self._instances.follow(consumer, at, reason)
        instance = self._instances.track_of(consumer)
        if moved or instance is None:
            return moved
        return [self._suppress(instance, follow_up.status, at, reason)]

    def _raise_status(
        self, track: Track, status: RebalanceStatus, at: float, reason: str | None
    ) -> list[Sample]:
        """Move up, or record that a higher status suppresses it."""
        if status is NONE:
            return []
        if transition(track.status, status) is track.status:
            return [self._suppress(track, status, at, reason)]
        return [track.move(status, at, reason)]

    def _suppress(
        self, track: Track, status: RebalanceStatus, at: float, reason: str | None
    ) -> Sample:
        self._counts["suppressed"] += 1
        return self.note(track, status, at, reason)

    def _count_unexplained(self, consumer: Consumer, at: float, shown: str | None) -> list[Sample]:
        if not consumer.joining:
            return []
        consumer.joining = False
        self._counts["unexplained"] += 1
        reason = UNEXPLAINED if shown is None else clip_reason(f"{UNEXPLAINED}: {shown}")
        return [self.note(consumer.track, None, at, reason)]

    def _end(self, track: Track, signal: Signal, outcome: Outcome) -> list[Sample]:
        track.end(signal.at)
        if track.status is NONE:
            track.joined_at = None  # of this rebalance, not of the next one
            return []
        sample = track.move(NONE, signal.at, signal.reason, outcome)
        self._durations.observe(track.group_key, track.since_at - track.episode_at)
        return [sample]
