"""Records of changed attributes of a member: partitions, timeouts, assignors, leader, workload.

A root cause needs none of them; costs and details do (incidents.md 1a.8 and 5). Of several sources
of one member the best one reports its partitions: the others' times differ, and would open a gap at
every rebalance. The poll interval is recorded with each drop and each new member: there it is of
use. A client's session timeout has an effect in the classic protocol alone.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from math import inf

from msgspec.structs import replace

from metrics.model.partitions import (
    PARTITIONS_MAX,
    clip_partitions,
    format_partitions,
    is_partition,
)
from metrics.model.sample import FETCHERS_PAUSED, Sample, SampleKind, format_time
from metrics.model.signals import Signal, SignalKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import TRAITS
from metrics.tracking.status_track import Track


def record_attributes(track: Track, signal: Signal, events: Iterable[Sample]) -> list[Sample]:
    """Return the changes of attributes that a signal reports; ``events`` are its other records."""
    out = _record_silence(track, signal)
    if signal.assigned is not None:
        out += _record_partitions(track, signal, signal.assigned)
    elif track.assigned and _has_nothing(signal) and not _is_overtaken(track, signal):
        out += _replace_partitions(track, (), signal.at)
        track.emptied_at = signal.at
    if signal.joins and track.status is not RebalanceStatus.NONE:
        track.joined_at = signal.at
        out.append(
            track.record_change("joined", None, None, signal.at, joined_ts=format_time(signal.at))
        )
    if signal.closes:
        out.append(track.record_change("closed", None, None, signal.at))
    timeout_s = track.member.session_timeout_s if track.member.group_type == "classic" else None
    if timeout_s is not None and timeout_s != track.session_timeout_s:
        before, track.session_timeout_s = track.session_timeout_s, timeout_s
        out.append(
            track.record_change("session.timeout.ms", _ms(before), _ms(timeout_s), signal.at)
        )
    software = track.member.software
    if software is not None and software != track.software:
        before_it, track.software = track.software, software
        out.append(track.record_change("software", before_it, software, signal.at))
    out += _record_assignors(track, signal.at) + _record_leader(track, signal.at)
    return out + _record_labels(track, signal, events)


def record_end(track: Track, at: float) -> list[Sample]:
    """Record that a member is not seen any more, and the time of its silence."""
    was_member = track.assigned is not None or track.member.group_type == "share"
    return [_silence(track, at)] if was_member and _is_silent(track, at) else []


def _was_member(track: Track) -> bool:
    """Check for a member with partitions. A share group's partitions have no owners."""
    return bool(track.assigned) or track.member.group_type == "share"


def _record_silence(track: Track, signal: Signal) -> list[Sample]:
    """Record how long a member was silent before it was fenced, and note its requests.

    In new protocols the broker has the session timeout, so nothing else shows when it stopped. A
    member that joins as new, though it had partitions, is the successor of a dead process. One that
    leaves after it missed heartbeats was frozen, and may have been removed before.
    """
    is_raise = signal.kind is SignalKind.RAISE
    is_fenced = is_raise and signal.status in _OF_FENCED
    is_successor = is_raise and signal.status is RebalanceStatus.NEW_MEMBER and _was_member(track)
    is_new_process = signal.assigned == () and bool(track.assigned)
    # a member of a classic group gives up its partitions at each join
    is_expired = signal.at - track.requested_at > (track.session_timeout_s or inf)
    is_end = (is_fenced or is_new_process) and (is_expired or track.member.group_type != "classic")
    is_left = signal.kind is SignalKind.LEAVE and track.member.group_type != "classic"
    is_late = is_left and signal.at - track.requested_at > _MISSED_S
    is_shown = (is_end or is_successor or is_late) and _is_silent(track, signal.at)
    out = [_silence(track, signal.at)] if is_shown else []
    if signal.kind is SignalKind.LEAVE:
        track.requested_at = 0.0
    elif TRAITS[signal.source].sees_protocol:
        track.requested_at = max(track.requested_at, signal.at)
    return out


def _is_silent(track: Track, at: float) -> bool:
    return 0.0 < track.requested_at < at - _SILENT_S


def _silence(track: Track, at: float) -> Sample:
    return track.record_change("silent.ms", None, _ms(at - track.requested_at), at)


def record_workload(track: Track, workload: Mapping[str, str], at: float) -> list[Sample]:
    """Return a record for each new value of its application: version, image."""
    before, track.workload = track.workload, dict(workload)
    return [
        track.record_change(name, before.get(name), value, at)
        for name, value in workload.items()
        if before.get(name) != value
    ]


def _record_assignors(track: Track, at: float) -> list[Sample]:
    """Record that a member supports other assignors than at its last join."""
    before, now = track.assignors, track.member.assignors
    if now is None or now == before:
        return []
    track.assignors = now
    if before is None:
        return []
    return [track.record_change("assignors", ",".join(before), ",".join(now), at)]


def _record_leader(track: Track, at: float) -> list[Sample]:
    """Record that a member leads its group, if another member led it at its last join."""
    before, leader = track.leader, track.member.leader
    if leader is None or leader == before:
        return []
    track.leader = leader
    if before is None or leader != track.member.member_id:
        return []
    return [track.record_change("leader", before, leader, at)]


def _record_labels(track: Track, signal: Signal, events: Iterable[Sample]) -> list[Sample]:
    """Return the changes of assignor, exceeded poll interval, and remover of a member."""
    out: list[Sample] = []
    assignor = track.member.assignor
    if assignor is not None and assignor != track.assignor:
        before, track.assignor = track.assignor, assignor
        out.append(track.record_change("assignor", before, assignor, signal.at))
    interval_s = track.member.max_poll_interval_s
    if interval_s is not None and any(map(_calls_for_interval, events)):
        out.append(track.record_change("max.poll.interval.ms", None, _ms(interval_s), signal.at))
    if signal.by is not None:
        out.append(track.record_change("removed_by", None, signal.by, signal.at))
    return out


def _calls_for_interval(sample: Sample) -> bool:
    return sample.kind is SampleKind.TRANSITION and sample.to in _OF_INTERVALS


_OF_FENCED = {RebalanceStatus.UNKNOWN_MEMBER, RebalanceStatus.STALE_MEMBER}
_OTHER_CLOCK_S = 10.0
"""The two sources of a leave differ by less if both have the right time."""
_SILENT_S = 3.0
"""A shorter silence is a heartbeat's interval at most."""
_MISSED_S = 10.0
"""Two heartbeat intervals of the new protocols (group.consumer.heartbeat.interval.ms, 5 s)."""
_OF_INTERVALS = {RebalanceStatus.DROPPED_GROUP, RebalanceStatus.NEW_MEMBER}


def _record_partitions(track: Track, signal: Signal, assigned: tuple[str, ...]) -> list[Sample]:
    by = track.assigned_by
    if by is not None and TRAITS[by].priority < TRAITS[signal.source].priority:
        return []
    if _is_overtaken(track, signal):
        return []
    track.assigned_by = signal.source
    now = tuple(sorted(islice(filter(is_partition, assigned), PARTITIONS_MAX)))
    # the first revocation long after a leave may be of a log whose clock is ahead; its time is
    # corrected later (`aggregation.rebalances.clock_steps`), and then it is earlier than the leave
    is_behind = 0.0 < track.emptied_at < signal.at - _OTHER_CLOCK_S
    track.emptied_at = 0.0
    if now == track.assigned and (now or not is_behind):
        return []
    changes = _replace_partitions(track, now, signal.at)
    if signal.reason == FETCHERS_PAUSED:  # another one is that of the status, or not needed
        changes = [replace(each, reason=signal.reason) for each in changes]
    return changes


def _has_nothing(signal: Signal) -> bool:
    """Check that a member has left, or joins as a new one: it takes equal partitions again."""
    is_new = signal.kind is SignalKind.RAISE and signal.status is RebalanceStatus.NEW_MEMBER
    return is_new or signal.kind is SignalKind.LEAVE


def _is_overtaken(track: Track, signal: Signal) -> bool:
    """Check that another source has reported later partitions: its report was read earlier."""
    return signal.source is not track.assigned_by and signal.at < track.assigned_at


def _replace_partitions(track: Track, now: tuple[str, ...], at: float) -> list[Sample]:
    before, track.assigned, track.assigned_at = track.assigned, now, at
    texts = None if before is None else _format(before), _format(now)
    return [track.record_change("partitions", *texts, at)]


def _format(partitions: tuple[str, ...]) -> str:
    return clip_partitions(format_partitions(partitions))


def _ms(seconds: float | None) -> str | None:
    return None if seconds is None else f"{1000 * seconds:.0f}"
