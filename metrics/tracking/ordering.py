"""The order of events that several sources report.

Within one source the read order decides, between sources the time. When a source has reported the
same end as another one, all that it reports later is after that end, for any state of the clocks.
"""

from metrics.model.signals import Signal, SignalKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.consumer import Consumer
from metrics.tracking.duplicates import (
    ENDS,
    SAME_EVENT_S,
    Observation,
    has_confirmed_since,
    is_end_outstanding,
    reporter_name,
)
from metrics.tracking.source_traits import TRAITS
from metrics.tracking.status_track import Provenance, Track

NONE = RebalanceStatus.NONE

_MEMBER_ERRORS = {
    RebalanceStatus.COORDINATOR_REQUESTED,
    RebalanceStatus.UNKNOWN_MEMBER,
    RebalanceStatus.STALE_MEMBER,
}
"""Causes that a coordinator's response reports to members only; a member joins by another code."""
_REQUEST_TIMEOUT_S = 30.0
"""Maximum delay of a response: request.timeout.ms by default."""


def earliest_at(signal: Signal) -> float:
    """Return the earliest time of the event, as exact as the source's clock."""
    return signal.at - TRAITS[signal.source].clock_slack_s


def is_late(consumer: Consumer, signal: Signal) -> bool:
    """Return True if a signal is older than the event of another source that it would undo.

    A raise can undo only an end: the order of two sources' raises does not matter.
    """
    moved = consumer.track.moved
    match signal.kind:
        case SignalKind.RAISE:
            return _is_before_end(consumer, signal)
        case SignalKind.JOIN:
            return _is_before_end(consumer, signal) or _is_older(signal.at, signal, moved)
        case _:
            return _is_older(signal.at, signal, moved)


def is_of_ended_rebalance(consumer: Consumer, signal: Signal) -> bool:
    """Return True if a cause is of a rebalance that is over, though its time is after the end.

    A client may find a cause before it reads the end, when the wire has reported the end already.
    In the client's log the end comes after the cause, so the cause begins no new rebalance.
    """
    track, view = consumer.track, consumer.view_of(signal)
    ended = track.ended
    return (
        bool(signal.status)
        and view is not None
        and view.reports_ends
        and ended is not None
        and ended == track.moved
        and signal.at < ended.at + SAME_EVENT_S
        and is_end_outstanding(
            consumer.observations, reporter_name(signal), track.episode_at, ended.at
        )
    )


def is_response_after_leave(track: Track, signal: Signal) -> bool:
    """Return True if a coordinator responds to a request from before the member's leave."""
    return (
        TRAITS[signal.source].shows_follow_ups
        and signal.status in _MEMBER_ERRORS
        and track.left_at is not None
        and signal.at < track.left_at + _REQUEST_TIMEOUT_S
    )


def ends_own_rebalance(consumer: Consumer, signal: Signal, end: Observation) -> bool:
    """Return True if a source ends its own episode, begun after the end that it seems to repeat.

    It began the episode, or has confirmed another source's begin of it.
    """
    track, moved = consumer.track, consumer.track.moved
    return (
        end.name in ENDS
        and track.status is not NONE
        and moved is not None
        and moved.at >= end.at
        and (
            _is_by(moved, signal)
            or has_confirmed_since(consumer.observations, reporter_name(signal), end.at)
        )
    )


def outstanding_ends(consumer: Consumer, signal: Signal) -> list[Observation]:
    """Return the ends at or after a signal that its own source has not reported yet."""
    reporter, at = reporter_name(signal), earliest_at(signal)
    return [
        o
        for o in consumer.observations
        if o.name in ENDS and not o.is_end_by(reporter) and o.at >= at
    ]


def _is_before_end(consumer: Consumer, signal: Signal) -> bool:
    ended = consumer.track.ended
    if ended is None or not _is_older(earliest_at(signal), signal, ended):
        return False
    reporter = reporter_name(signal)
    ends = (o for o in consumer.observations if o.name in ENDS and o.at == ended.at)
    return not any(end.is_end_by(reporter) for end in ends)


def _is_older(at: float, signal: Signal, undone: Provenance | None) -> bool:
    return undone is not None and at < undone.at and not _is_by(undone, signal)


def _is_by(provenance: Provenance, signal: Signal) -> bool:
    return (provenance.source, provenance.origin) == (signal.source, signal.member.origin)
