"""Consumer (KIP-848), share (KIP-932) and streams (KIP-1071) groups: one heartbeat tells all.

What sets which code: semantics of the status, sections 3 and 4. A member's target is what the
broker gave it last; it has settled when a heartbeat that reports the target was accepted. Share
groups report nothing: there the next accepted heartbeat settles.
"""

from msgspec.structs import replace

from agent.wire.codec.messages import GroupHeartbeat, GroupHeartbeatAnswer, Partitions
from agent.wire.members.error_codes import Meaning, meaning, name
from agent.wire.members.member import NOTHING, Speaker
from metrics.model.signals import FollowUp, Signal, SignalKind
from metrics.model.status import RebalanceStatus

_SHARE = "share"


def sent(speaker: Speaker, heartbeat: GroupHeartbeat, at: float) -> list[Signal]:
    """Return what the request itself tells: a join, a leave, another subscription."""
    if speaker.member.protocol_type is not None:  # only classic groups are of one
        speaker.member = replace(speaker.member, protocol_type=None)
    if heartbeat.epoch < 0:  # -1, or -2 of a static member that will be back
        return speaker.leave(at, None)
    out = (_joins if heartbeat.epoch == 0 else _changes)(speaker, heartbeat, at)
    if heartbeat.subscription is not None:
        speaker.subscription = hash(heartbeat.subscription)
    if heartbeat.owned is not None:
        speaker.reported = heartbeat.owned
    if heartbeat.endpoint is not None:
        speaker.moved = speaker.endpoint not in {None, heartbeat.endpoint}
        speaker.endpoint = heartbeat.endpoint
    return out


def _joins(speaker: Speaker, heartbeat: GroupHeartbeat, at: float) -> list[Signal]:
    was_member = bool(heartbeat.member_id and speaker.generation) and not speaker.left
    speaker.left = False
    if was_member:  # its 3 or 4 began the round, or was lost
        return speaker.seen(at)
    if heartbeat.instance_id is None:
        speaker.settled = ()
    return speaker.raise_(RebalanceStatus.NEW_MEMBER, at, "joins with member epoch 0")


def _changes(speaker: Speaker, heartbeat: GroupHeartbeat, at: float) -> list[Signal]:
    now = heartbeat.subscription
    if now is None or speaker.subscription in {None, hash(now)}:
        return []
    return speaker.raise_(RebalanceStatus.SUBSCRIPTION_CHANGED, at, None)


def answered(
    speaker: Speaker,
    heartbeat: GroupHeartbeat,
    sent_at: float,
    answer: GroupHeartbeatAnswer,
    at: float,
) -> list[Signal]:
    """Return what the answer tells: an error, another target, or that the member has settled."""
    if answer.error:
        return _error(speaker, answer, at)
    speaker.generation = answer.epoch
    out = _endpoint(speaker, answer, at)
    if speaker.target_at is not None and sent_at >= speaker.target_at and _has_reported(speaker):
        out += _settle(speaker, at)  # what else the same answer brings is the next round
    if answer.target is not None and answer.target != speaker.target:
        return out + _retarget(speaker, heartbeat, answer, at)
    if speaker.heard and speaker.target_at is None:
        out += _settle_without_target(speaker, sent_at, at)
    return out or speaker.seen(at)


def _retarget(
    speaker: Speaker, heartbeat: GroupHeartbeat, answer: GroupHeartbeatAnswer, at: float
) -> list[Signal]:
    before, target = speaker.target, answer.target or NOTHING
    speaker.target, speaker.warmups = target, answer.warmups
    if before is None and not speaker.heard and heartbeat.epoch and heartbeat.subscription:
        return speaker.seen(at)  # joined in mid-stream: a full heartbeat repeats what it has
    owned = before if speaker.reported is None else speaker.reported
    taken = active(owned or NOTHING) - active(target)
    speaker.target_at, speaker.heard_at = at, None
    out: list[Signal] = []
    if heartbeat.epoch == 0 and not speaker.heard:  # the error that made it join was not seen
        out.append(speaker.signal(SignalKind.JOIN, at))
    elif not speaker.heard:
        reason = f"new assignment in epoch {answer.epoch}"
        out += speaker.raise_(RebalanceStatus.COORDINATOR_REQUESTED, at, reason)
    if taken:
        reason = f"the new assignment takes {len(taken)} away"
        out += speaker.raise_(RebalanceStatus.REVOCATION_NEEDED, at, reason)
    return out or speaker.seen(at)


def active(partitions: Partitions) -> Partitions:
    """Leave a Streams member's standby and warm-up tasks out: nothing stops for them."""
    return frozenset(each for each in partitions if each[0][0] not in {"s", "w"})


def _has_reported(speaker: Speaker) -> bool:
    return speaker.member.group_type == _SHARE or speaker.reported == speaker.target


def _settle_without_target(speaker: Speaker, sent_at: float, at: float) -> list[Signal]:
    """End what changes no target with the next accepted heartbeat; its target may come till then.

    A new member has to wait for its first one.
    """
    if RebalanceStatus.NEW_MEMBER in speaker.heard and speaker.target is None:
        return []
    if speaker.heard_at is not None and sent_at >= speaker.heard_at:
        return _settle(speaker, at)
    speaker.heard_at = at
    return []


def _settle(speaker: Speaker, at: float) -> list[Signal]:
    speaker.target_at = speaker.heard_at = None
    speaker.heard = NOTHING
    layer = None
    if speaker.warmups:
        layer = FollowUp(
            status=RebalanceStatus.ASSIGNMENT_PROBING, at=at, reason="warm-up tasks are assigned"
        )
    return [speaker.signal(SignalKind.SYNC, at, streams_follow_up=layer, gained=_gained(speaker))]


def _gained(speaker: Speaker) -> int | None:
    """Return how much moved to it; what a share group shares moves nowhere."""
    if speaker.member.group_type == _SHARE or speaker.target is None:
        return None
    return speaker.settle(active(speaker.target))


def _endpoint(speaker: Speaker, answer: GroupHeartbeatAnswer, at: float) -> list[Signal]:
    """Return the 13 of a member whose new endpoint the group takes up."""
    before, speaker.endpoint_epoch = speaker.endpoint_epoch, answer.endpoint_epoch
    if not speaker.moved or before is None or (answer.endpoint_epoch or 0) <= before:
        return []
    speaker.moved = False
    speaker.heard |= {RebalanceStatus.ENDPOINT_UPDATE}
    reason = f"new host endpoint {speaker.endpoint}"
    layer = FollowUp(status=RebalanceStatus.ENDPOINT_UPDATE, at=at, reason=reason)
    return [speaker.signal(SignalKind.RAISE, at, reason=reason, streams_follow_up=layer)]


def _error(speaker: Speaker, answer: GroupHeartbeatAnswer, at: float) -> list[Signal]:
    reason = f"heartbeat answered {name(answer.error)}"
    match meaning(answer.error):
        case RebalanceStatus() as status:
            speaker.target = speaker.target_at = speaker.reported = None
            speaker.settled = ()  # fenced: the others get what it had
            return speaker.raise_(status, at, reason)
        case Meaning.FATAL | Meaning.FENCED:
            return speaker.fail(at, reason)
        case _:  # the coordinator loads or moves: no rebalance
            return speaker.seen(at)
