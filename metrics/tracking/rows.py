"""Rows of tracks: frozen, for exporters."""

from metrics.model.sample import Scope
from metrics.model.snapshot import MemberRow, StatusCounts
from metrics.model.status import RebalanceStatus
from metrics.model.transition import peak
from metrics.tracking.status_track import StatusConfig, Track

NONE = RebalanceStatus.NONE


def member_row(track: Track, now: float, config: StatusConfig) -> MemberRow:
    """Return a consumer's or instance's row at ``now`` (Unix seconds)."""
    member, status = track.member, gauge_status(track, now, config)
    instance = member.instance_key if track.scope is Scope.CONSUMER else None
    current_s = max(0.0, now - track.since_at)
    seconds = track.seconds | {track.status: track.seconds.get(track.status, 0.0) + current_s}
    return MemberRow(
        cluster=member.cluster,
        app=track.app,
        group=member.group,
        group_type=member.group_type,
        client_id=track.client_id,
        host=member.host,
        status=status,
        peak=peak(status, track.peak_window, now, config.peak_window_s),
        since_at=track.since_at,
        reason=track.reason,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        protocol_type=member.protocol_type,
        assignor=member.assignor,
        assignors=member.assignors,
        leader=member.leader,
        software=member.software,
        state=member.state,
        generation=track.generation,
        instance=None if instance is None else instance.client_id,
        counts=StatusCounts(track.rebalances, track.transitions, seconds),
    )


def gauge_status(track: Track, now: float, config: StatusConfig) -> RebalanceStatus:
    """Return a gauge's value: UserRequested (6) lingers after a leave, for scrapes and the max."""
    if track.status is NONE and track.left_at is not None:
        lingers = now < track.left_at + config.linger_s
        return RebalanceStatus.USER_REQUESTED if lingers else NONE
    return track.status
