"""Consumer (KIP-848), share (KIP-932) and streams (KIP-1071) groups: one heartbeat tells all.

What sets which code: semantics of the status, sections 3 and 4. A member's target is what the
broker gave it last; it has settled when a heartbeat that reports the target was accepted. Share
groups report nothing: there the next accepted heartbeat settles.
"""

from msgspec.structs import replace

from agent.wire.codec.messages import GroupHeartbeatRequest, GroupHeartbeatResponse, Partitions
from agent.wire.members.error_codes import ErrorMeaning, describe_error, interpret_error
from agent.wire.members.member import EMPTY, WireMember
from metrics.model.signals import FollowUp, Signal, SignalKind
from metrics.model.status import RebalanceStatus

_SHARE = "share"


def handle_request(
    speaker: WireMember, heartbeat: GroupHeartbeatRequest, at: float
) -> list[Signal]:
    """Return what the request itself tells: a join, a leave, another subscription."""
    if speaker.member.protocol_type is not None:  # only classic groups are of one
        speaker.member = replace(speaker.member, protocol_type=None)
    if heartbeat.epoch < 0:  # -1, or -2 of a static member that will be back
        return speaker.report_leave(at, None)
    out = (_handle_join if heartbeat.epoch == 0 else _compare_subscription)(speaker, heartbeat, at)
    if heartbeat.subscription is not None:
        speaker.subscription_hash = hash(heartbeat.subscription)
    if heartbeat.owned is not None:
        speaker.reported = heartbeat.owned
    if heartbeat.endpoint is not None:
        speaker.has_moved = speaker.endpoint not in {None, heartbeat.endpoint}
        speaker.endpoint = heartbeat.endpoint
    return out


def _handle_join(speaker: WireMember, heartbeat: GroupHeartbeatRequest, at: float) -> list[Signal]:
    was_member = bool(heartbeat.member_id and speaker.generation) and not speaker.has_left
    speaker.has_left = False
    if was_member:  # its 3 or 4 began the round, or was lost
        return speaker.report_alive(at)
    if heartbeat.instance_id is None:
        speaker.assigned = ()
    return speaker.report_cause(RebalanceStatus.NEW_MEMBER, at, "joins with member epoch 0")


def _compare_subscription(
    speaker: WireMember, heartbeat: GroupHeartbeatRequest, at: float
) -> list[Signal]:
    now = heartbeat.subscription
    if now is None or speaker.subscription_hash in {None, hash(now)}:
        return []
    return speaker.report_cause(RebalanceStatus.SUBSCRIPTION_CHANGED, at, None)


def handle_response(
    speaker: WireMember,
    heartbeat: GroupHeartbeatRequest,
    sent_at: float,
    answer: GroupHeartbeatResponse,
    at: float,
) -> list[Signal]:
    """Return what the answer tells: an error, another target, or that the member has settled."""
    if answer.error:
        return _handle_error(speaker, answer, at)
    speaker.generation = answer.epoch
    out = _handle_endpoint(speaker, answer, at)
    if speaker.target_at is not None and sent_at >= speaker.target_at and _has_reported(speaker):
        out += _complete(speaker, at)  # what else the same answer brings is the next round
    if answer.target is not None and answer.target != speaker.target:
        return out + _apply_target(speaker, heartbeat, answer, at)
    if speaker.reported_causes and speaker.target_at is None:
        out += _complete_without_target(speaker, sent_at, at)
    return out or speaker.report_alive(at)


def _apply_target(
    speaker: WireMember, heartbeat: GroupHeartbeatRequest, answer: GroupHeartbeatResponse, at: float
) -> list[Signal]:
    before, target = speaker.target, answer.target or EMPTY
    speaker.target, speaker.warmups = target, answer.warmups
    if (
        before is None
        and not speaker.reported_causes
        and heartbeat.epoch
        and heartbeat.subscription
    ):
        return speaker.report_alive(
            at
        )  # joined in mid-stream: a full heartbeat repeats what it has
    owned = before if speaker.reported is None else speaker.reported
    taken = exclude_standby(owned or EMPTY) - exclude_standby(target)
    speaker.target_at, speaker.confirmed_at = at, None
    out: list[Signal] = []
    if (
        heartbeat.epoch == 0 and not speaker.reported_causes
    ):  # the error that made it join was not seen
        out.append(speaker.build_signal(SignalKind.JOIN, at))
    elif not speaker.reported_causes:
        reason = f"new assignment in epoch {answer.epoch}"
        out += speaker.report_cause(RebalanceStatus.COORDINATOR_REQUESTED, at, reason)
    if taken:
        reason = f"the new assignment takes {len(taken)} away"
        out += speaker.report_cause(RebalanceStatus.REVOCATION_NEEDED, at, reason)
    return out or speaker.report_alive(at)


def exclude_standby(partitions: Partitions) -> Partitions:
    """Leave a Streams member's standby and warm-up tasks out: nothing stops for them."""
    return frozenset(each for each in partitions if each[0][0] not in {"s", "w"})


def _has_reported(speaker: WireMember) -> bool:
    return speaker.member.group_type == _SHARE or speaker.reported == speaker.target


def _complete_without_target(speaker: WireMember, sent_at: float, at: float) -> list[Signal]:
    """End what changes no target with the next accepted heartbeat; its target may come till then.

    A new member has to wait for its first one.
    """
    if RebalanceStatus.NEW_MEMBER in speaker.reported_causes and speaker.target is None:
        return []
    if speaker.confirmed_at is not None and sent_at >= speaker.confirmed_at:
        return _complete(speaker, at)
    speaker.confirmed_at = at
    return []


def _complete(speaker: WireMember, at: float) -> list[Signal]:
    speaker.target_at = speaker.confirmed_at = None
    speaker.reported_causes = EMPTY
    layer = None
    if speaker.warmups:
        layer = FollowUp(
            status=RebalanceStatus.ASSIGNMENT_PROBING, at=at, reason="warm-up tasks are assigned"
        )
    return [
        speaker.build_signal(
            SignalKind.SYNC, at, streams_follow_up=layer, gained=_count_gained(speaker)
        )
    ]


def _count_gained(speaker: WireMember) -> int | None:
    """Return how much moved to it; what a share group shares moves nowhere."""
    if speaker.member.group_type == _SHARE or speaker.target is None:
        return None
    return speaker.assign(exclude_standby(speaker.target))


def _handle_endpoint(
    speaker: WireMember, answer: GroupHeartbeatResponse, at: float
) -> list[Signal]:
    """Return the 13 of a member whose new endpoint the group takes up."""
    before, speaker.endpoint_epoch = speaker.endpoint_epoch, answer.endpoint_epoch
    if not speaker.has_moved or before is None or (answer.endpoint_epoch or 0) <= before:
        return []
    speaker.has_moved = False
    speaker.reported_causes |= {RebalanceStatus.ENDPOINT_UPDATE}
    reason = f"new host endpoint {speaker.endpoint}"
    layer = FollowUp(status=RebalanceStatus.ENDPOINT_UPDATE, at=at, reason=reason)
    return [speaker.build_signal(SignalKind.RAISE, at, reason=reason, streams_follow_up=layer)]


def _handle_error(speaker: WireMember, answer: GroupHeartbeatResponse, at: float) -> list[Signal]:
    reason = f"heartbeat answered {describe_error(answer.error)}"
    match interpret_error(answer.error):
        case RebalanceStatus() as status:
            speaker.target = speaker.target_at = speaker.reported = None
            speaker.assigned = ()  # fenced: the others get what it had
            return speaker.report_cause(status, at, reason)
        case ErrorMeaning.FATAL | ErrorMeaning.FENCED:
            return speaker.report_failure(at, reason)
        case _:  # the coordinator loads or moves: no rebalance
            return speaker.report_alive(at)
