"""Consumer (KIP-848), share (KIP-932) and streams (KIP-1071) groups: one heartbeat for everything.

The rules of the codes are semantics of the status, sections 3 and 4. A member's target is the
broker's last assignment; the member has completed it when a heartbeat that reports the target was
accepted. Share groups report nothing: there the next accepted heartbeat completes.
"""

from msgspec.structs import replace

from agent.wire.codec.messages import (
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    Partitions,
    SentHeartbeat,
)
from agent.wire.members.error_codes import (
    TOPIC_REFUSED,
    ErrorMeaning,
    describe_error,
    interpret_error,
)
from agent.wire.members.member import (
    EMPTY,
    WireMember,
    describe_topics,
    name_partitions,
    share_topics,
)
from metrics.model.signals import FollowUp, Signal, SignalKind
from metrics.model.status import RebalanceStatus

_SHARE = "share"
_FAILURES = {
    1: "MISSING_SOURCE_TOPICS",
    2: "INCORRECTLY_PARTITIONED_TOPICS",
    4: "SHUTDOWN_APPLICATION",
}
"""StreamsGroupHeartbeatResponse.Status; 0 is an old topology, 3 internal topics to be created."""


def handle_request(member: WireMember, heartbeat: GroupHeartbeatRequest, at: float) -> list[Signal]:
    """Return the signals of the request itself: a join, a leave, another subscription."""
    if member.identity.protocol_type is not None:  # only classic groups are of one
        member.identity = replace(member.identity, protocol_type=None)
    if heartbeat.epoch < 0:  # -1, or -2 of a static member that will be back
        return [] if is_unseen(member) else member.report_leave(at, None)
    out = (_handle_join if heartbeat.epoch == 0 else _compare_subscription)(member, heartbeat, at)
    if heartbeat.subscription is not None:
        member.subscription = share_topics(heartbeat.subscription)
    if heartbeat.owned is not None:
        member.reported = heartbeat.owned
        if member.target_at is not None and _has_reported(member):
            out.append(_report_assigned(member, heartbeat.owned, at))
    if heartbeat.endpoint is not None:
        member.has_moved = member.endpoint not in {None, heartbeat.endpoint}
        member.endpoint = heartbeat.endpoint
    return out


def is_unseen(member: WireMember) -> bool:
    """Return whether no heartbeat of the member was seen before its leave.

    Either its decoder began later, or it was closed before its first heartbeat: that leave is sent
    all the same (`AbstractMembershipManager.leaveGroup`), and refused as of an unknown member.
    """
    return member.generation is None and not member.joined_at and not member.has_left


def _handle_join(member: WireMember, heartbeat: GroupHeartbeatRequest, at: float) -> list[Signal]:
    was_member = bool(heartbeat.member_id and member.generation) and not member.has_left
    member.has_left = False
    if was_member:  # its 3 or 4 began the round, or was lost
        return member.report_alive(at)
    returned = member.report_return(heartbeat.subscription, at)
    member.joined_at = at
    if heartbeat.instance_id is None:
        member.assigned = ()
    joined = member.report_cause(RebalanceStatus.NEW_MEMBER, at, "joins with member epoch 0")
    return returned + joined


def _compare_subscription(
    member: WireMember, heartbeat: GroupHeartbeatRequest, at: float
) -> list[Signal]:
    before, now = member.subscription, heartbeat.subscription
    if now is None or before is None or before == now:
        return []
    reason = f"subscription has changed {describe_topics(before, now)}"
    return member.report_cause(RebalanceStatus.SUBSCRIPTION_CHANGED, at, reason)


def handle_response(
    member: WireMember,
    sent: SentHeartbeat,
    sent_at: float,
    response: GroupHeartbeatResponse,
    at: float,
) -> list[Signal]:
    """Return the signals of the response: an error, another target, or a completed target."""
    if sent.epoch < 0:
        return [] if response.error else member.report_leave(at, None)
    if response.error:
        return _handle_error(member, response, at)
    member.generation = response.epoch
    out = _report_status(member, response, at) + _handle_endpoint(member, response, at)
    if member.target_at is not None and sent_at >= member.target_at and _has_reported(member):
        out += _complete(member, at)  # the rest of the response is the next rebalance
    if response.target is not None and response.target != member.target:
        return out + _apply_target(member, sent, response, at)
    if member.reported_causes and member.target_at is None:
        out += _complete_without_target(member, sent_at, at)
    return out or member.report_alive(at)


def _report_status(member: WireMember, response: GroupHeartbeatResponse, at: float) -> list[Signal]:
    """Return what makes a Kafka Streams application end, though its members stay for now.

    A client throws for it (`StreamThread.handleStreamsRebalanceData`).
    """
    return [
        signal
        for code, detail in response.status
        if code in _FAILURES
        for signal in member.report_refusal(at, f"heartbeat answered {_FAILURES[code]}: {detail}")
    ]


def _apply_target(
    member: WireMember,
    sent: SentHeartbeat,
    response: GroupHeartbeatResponse,
    at: float,
) -> list[Signal]:
    before, target = member.target, response.target or EMPTY
    member.target, member.warmups = target, response.warmups
    if before is None and not member.reported_causes and sent.epoch and sent.is_full:
        return member.report_alive(
            at
        )  # joined in mid-stream: a full heartbeat repeats the present state
    owned = before if member.reported is None else member.reported
    taken = exclude_standby(owned or EMPTY) - exclude_standby(target)
    member.target_at, member.confirmed_at = at, None
    out: list[Signal] = []
    if member.identity.group_type != _SHARE and owned is not None:  # the rest: once acknowledged
        out.append(_report_assigned(member, target & owned, at))
    if sent.epoch == 0 and not member.reported_causes:  # the error that made it join was not seen
        out.append(member.build_signal(SignalKind.JOIN, at))
    elif not member.reported_causes:
        reason = f"new assignment in epoch {response.epoch}"
        out += member.report_cause(RebalanceStatus.COORDINATOR_REQUESTED, at, reason)
    if taken:
        reason = f"the new assignment takes {len(taken)} away"
        out += member.report_cause(RebalanceStatus.REVOCATION_NEEDED, at, reason)
    return out or member.report_alive(at)


def _report_assigned(member: WireMember, partitions: Partitions, at: float) -> Signal:
    names = name_partitions(exclude_standby(partitions))
    return member.build_signal(SignalKind.SEEN, at, assigned=names)


def exclude_standby(partitions: Partitions) -> Partitions:
    """Leave a Streams member's standby and warm-up tasks out: nothing stops for them."""
    return frozenset(each for each in partitions if isinstance(each[0], str) or each[0][0] == "a")


def _has_reported(member: WireMember) -> bool:
    return member.identity.group_type == _SHARE or member.reported == member.target


def _complete_without_target(member: WireMember, sent_at: float, at: float) -> list[Signal]:
    """End a cause without a new target at the next accepted heartbeat.

    A new target may arrive before that. A new member must wait for its first target.
    """
    if RebalanceStatus.NEW_MEMBER in member.reported_causes and member.target is None:
        return []
    if member.confirmed_at is not None and sent_at >= member.confirmed_at:
        return _complete(member, at)
    member.confirmed_at = at
    return []


def _complete(member: WireMember, at: float) -> list[Signal]:
    member.target_at = member.confirmed_at = None
    member.reported_causes = EMPTY
    layer = None
    if member.warmups:
        layer = FollowUp(
            status=RebalanceStatus.ASSIGNMENT_PROBING, at=at, reason="warm-up tasks are assigned"
        )
    is_known = member.identity.group_type != _SHARE and member.target is not None
    return [
        member.build_signal(
            SignalKind.SYNC,
            at,
            streams_follow_up=layer,
            gained=_count_gained(member),
            assigned=name_partitions(exclude_standby(member.target or EMPTY)) if is_known else None,
        )
    ]


def _count_gained(member: WireMember) -> int | None:
    """Return the number of partitions that moved to it; a share group's partitions move nowhere."""
    if member.identity.group_type == _SHARE or member.target is None:
        return None
    return member.assign(exclude_standby(member.target))


def _handle_endpoint(
    member: WireMember, response: GroupHeartbeatResponse, at: float
) -> list[Signal]:
    """Return EndpointUpdate (13) for a member with a new endpoint that the group adopts."""
    before, member.endpoint_epoch = member.endpoint_epoch, response.endpoint_epoch
    if not member.has_moved or before is None or (response.endpoint_epoch or 0) <= before:
        return []
    member.has_moved = False
    member.reported_causes |= {RebalanceStatus.ENDPOINT_UPDATE}
    reason = f"new host endpoint {member.endpoint}"
    layer = FollowUp(status=RebalanceStatus.ENDPOINT_UPDATE, at=at, reason=reason)
    return [member.build_signal(SignalKind.RAISE, at, reason=reason, streams_follow_up=layer)]


def _handle_error(member: WireMember, response: GroupHeartbeatResponse, at: float) -> list[Signal]:
    reason = f"heartbeat answered {describe_error(response.error)}"
    match interpret_error(response.error):
        case RebalanceStatus() as status:
            member.target = member.target_at = member.reported = None
            member.assigned = ()  # fenced: its partitions go to others
            return member.report_cause(status, at, reason)
        # ConsumerMembershipManager keeps its state: the right to a topic may come back
        case ErrorMeaning.FATAL if response.error == TOPIC_REFUSED:
            return member.report_refusal(at, reason)
        case ErrorMeaning.FATAL | ErrorMeaning.FENCED:
            return member.report_failure(at, reason)
        case _:  # the coordinator loads or moves: no rebalance
            return member.report_alive(at)
