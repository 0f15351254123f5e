"""Records of changed attributes of a member: partitions, session timeout, assignors.

A root cause needs neither; costs do (incidents.md 1a.8). Of several sources of one member the best
one reports its partitions: the others' times differ, and would open a gap at every rebalance.
"""

from metrics.model.partitions import format_partitions, is_partition
from metrics.model.sample import Sample, format_time
from metrics.model.signals import Signal, SignalKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import TRAITS
from metrics.tracking.status_track import Track


def record_attributes(track: Track, signal: Signal) -> list[Sample]:
    """Return the changes of a member's attributes that a signal reports."""
    out: list[Sample] = []
    if signal.assigned is not None:
        out = _record_partitions(track, signal, signal.assigned)
    elif signal.kind is SignalKind.LEAVE and track.assigned:
        out = _replace_partitions(track, (), signal.at)
    if signal.joins and track.status is not RebalanceStatus.NONE:
        track.joined_at = signal.at
        out.append(
            track.record_change("joined", None, None, signal.at, joined_ts=format_time(signal.at))
        )
    timeout_s = track.member.session_timeout_s
    if timeout_s is not None and timeout_s != track.session_timeout_s:
        before, track.session_timeout_s = track.session_timeout_s, timeout_s
        out.append(
            track.record_change("session.timeout.ms", _ms(before), _ms(timeout_s), signal.at)
        )
    return out + _record_assignors(track, signal.at)


def _record_assignors(track: Track, at: float) -> list[Sample]:
    """Record that a member supports other assignors than at its last join."""
    before, now = track.assignors, track.member.assignors
    if now is None or now == before:
        return []
    track.assignors = now
    if before is None:
        return []
    return [track.record_change("assignors", ",".join(before), ",".join(now), at)]


def _record_partitions(track: Track, signal: Signal, assigned: tuple[str, ...]) -> list[Sample]:
    by = track.assigned_by
    if by is not None and TRAITS[by].priority < TRAITS[signal.source].priority:
        return []
    track.assigned_by = signal.source
    now = tuple(sorted(filter(is_partition, assigned)))
    return [] if now == track.assigned else _replace_partitions(track, now, signal.at)


def _replace_partitions(track: Track, now: tuple[str, ...], at: float) -> list[Sample]:
    before, track.assigned = track.assigned, now
    texts = None if before is None else format_partitions(before), format_partitions(now)
    return [track.record_change("partitions", *texts, at)]


def _ms(seconds: float | None) -> str | None:
    return None if seconds is None else f"{1000 * seconds:.0f}"
