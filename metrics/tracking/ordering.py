"""In which order things came to pass, whoever tells them first.

Within one source the read order rules, between sources time; and who has told the same end as
another is behind it in its own order, whatever the clocks say.
"""

from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.consumer import Consumer
from metrics.tracking.duplicates import (
    ENDS,
    SAME_EVENT_S,
    Observation,
    clock_slack_s,
    is_end_outstanding,
    reporter_name,
)
from metrics.tracking.status_track import Provenance, Track

NONE = RebalanceStatus.NONE

SHOWS_FOLLOW_UPS = {SourceKind.LOGS, SourceKind.WIRE}
"""Show what an assignment demands: whether an end is one. A broker's log does not."""
_RESPONSES = {
    RebalanceStatus.COORDINATOR_REQUESTED,
    RebalanceStatus.UNKNOWN_MEMBER,
    RebalanceStatus.STALE_MEMBER,
}
"""What a coordinator answers to members alone, each of whom has joined with another code."""
_REQUEST_TIMEOUT_S = 30.0
"""How late an answer may come: request.timeout.ms by default."""


def is_late(consumer: Consumer, signal: Signal) -> bool:
    """Tell whether a signal is older than what it would undo, which another source has told.

    A raise undoes nothing but an end: in which order two sources raise is all one. Who has told
    that end as well is behind it in its own order, whatever the clocks say.
    """
    track, at = consumer.track, signal.at - clock_slack_s(signal.source)
    match signal.kind:
        case SignalKind.RAISE:
            return _is_before_end(consumer, signal, at)
        case SignalKind.JOIN:
            return _is_before_end(consumer, signal, at) or _is_older(signal.at, signal, track.moved)
        case _:
            return _is_older(signal.at, signal, track.moved)


def is_of_ended_round(consumer: Consumer, signal: Signal) -> bool:
    """Tell whether a cause is of a round that is over, though the clock says it came behind it.

    A client may find a cause before it reads the end, which the wire has told by then; the round's
    end is behind the cause in the client's log, and so it is no cause of another round.
    """
    track, voice = consumer.track, consumer.view_of(signal)
    ended = track.ended
    return (
        bool(signal.status)
        and voice is not None
        and voice.reports_ends
        and track.status is NONE
        and ended is not None
        and ended == track.moved
        and signal.at < ended.at + SAME_EVENT_S
        and is_end_outstanding(
            consumer.observations, reporter_name(signal), track.episode_at, ended.at
        )
    )


def is_for_departed_member(track: Track, signal: Signal) -> bool:
    """Tell whether a coordinator answers one that is not in the group, nor on its way back."""
    return (
        signal.kind is SignalKind.RAISE
        and signal.source in SHOWS_FOLLOW_UPS
        and signal.status in _RESPONSES
        and track.left_at is not None
        and signal.at < track.left_at + _REQUEST_TIMEOUT_S
    )


def ends_own(track: Track, signal: Signal, end: Observation) -> bool:
    """Tell whether a voice ends what it began itself, behind the end that it seems to repeat."""
    moved = track.moved
    return (
        end.name in ENDS
        and track.status is not NONE
        and moved is not None
        and _is_by(moved, signal)
        and moved.at >= end.at
    )


def ends_of_others(consumer: Consumer, signal: Signal) -> list[Observation]:
    """Return the ends that a signal's voice has not told yet."""
    voice = reporter_name(signal)
    return [
        each
        for each in consumer.observations
        if each.name in ENDS and not each.is_reported_by(voice)
    ]


def _is_before_end(consumer: Consumer, signal: Signal, at: float) -> bool:
    ended, voice = consumer.track.ended, reporter_name(signal)
    if ended is None or not _is_older(at, signal, ended):
        return False
    ends = (each for each in consumer.observations if each.name in ENDS and each.at == ended.at)
    return not any(each.is_reported_by(voice) for each in ends)


def _is_older(at: float, signal: Signal, undone: Provenance | None) -> bool:
    return undone is not None and at < undone.at and not _is_by(undone, signal)


def _is_by(told: Provenance, signal: Signal) -> bool:
    return (told.source, told.origin) == (signal.source, signal.member.origin)
