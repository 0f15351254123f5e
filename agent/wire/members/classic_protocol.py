"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, OffsetCommit, LeaveGroup.

What sets which code: semantics of the status, sections 1, 3 and 4a; KAFKA-12472 for the codes. A
request is read when it is sent (its reason), and again with its answer (its error).
"""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from agent.errors import DecodeError
from agent.wire.codec import connect_protocol as connect_assignment
from agent.wire.codec import consumer_protocol as embedded
from agent.wire.codec import streams_user_data as streams_userdata
from agent.wire.codec.messages import InGroup, Join, JoinAnswer, Leaver, SyncAnswer
from agent.wire.members import kip800_reasons as reasons
from agent.wire.members.error_codes import Meaning, meaning, name
from agent.wire.members.member import NOTHING, Speaker
from metrics.model.signals import FollowUp, Signal, SignalKind
from metrics.model.status import RebalanceStatus

_EAGER = {"range", "roundrobin", "sticky"}
"""Assignors of the eager protocol: what is owned was revoked before the join."""
_CONSUMER, _CONNECT = "consumer", "connect"
_T = TypeVar("_T")


def read_metadata(
    join: Join, assignor: str | None, counts: Counter[str]
) -> tuple[embedded.Subscription | None, streams_userdata.SubscriptionInfo | None]:
    """Return what a member of a "consumer" group embeds in its JoinGroup, as far as it is known."""
    if join.protocol_type != _CONSUMER or not join.protocols:
        return None, None
    by_name = dict(join.protocols)
    chosen = assignor if assignor in by_name else join.protocols[0][0]
    subscription = _count(embedded.read_subscription, by_name[chosen], counts, "subscription")
    if subscription is None or chosen != "stream":
        return subscription, None
    info = _count(
        streams_userdata.read_subscription_info,
        subscription.user_data,
        counts,
        "streams_subscription",
    )
    if info is not None and info.version > streams_userdata.KNOWN_VERSION:
        counts[f"streams_version_{info.version}"] += 1
    return subscription, info


def join_sent(
    speaker: Speaker,
    join: Join,
    metadata: tuple[embedded.Subscription | None, streams_userdata.SubscriptionInfo | None],
    at: float,
) -> list[Signal]:
    """Return why a member joins, as far as the request tells."""
    subscription, info = metadata
    out = _why(speaker, join, subscription, at)
    if subscription is not None:
        speaker.topics, speaker.owned = hash(subscription.topics), subscription.owned or NOTHING
    speaker.streams = info
    if not join.member_id and join.instance_id is None:  # the others have what it had
        speaker.settled = ()
    speaker.left, speaker.unsynced = False, True
    return out


def _why(
    speaker: Speaker, join: Join, subscription: embedded.Subscription | None, at: float
) -> list[Signal]:
    if join.reason is not None:
        return _reason(speaker, join.reason, at)
    before = speaker.topics
    if subscription is not None and before not in {None, hash(subscription.topics)}:
        return speaker.raise_(RebalanceStatus.SUBSCRIPTION_CHANGED, at, None)
    if speaker.demand and not speaker.heard:  # Streams below 3.2 calls enforceRebalance()
        return speaker.raise_(RebalanceStatus.USER_REQUESTED, at, None)
    return []


def _reason(speaker: Speaker, reason: str, at: float) -> list[Signal]:
    cause = reasons.join_cause(reason)
    if cause.status is reasons.NONE:
        return []
    if not cause.due_ms:  # of Streams' at once (0), 10, 12 or 13, the assignment before has told
        return speaker.raise_(cause.status, at, reason)
    layer = FollowUp(
        status=RebalanceStatus.ASSIGNMENT_PROBING,
        at=at,
        reason=reason,
        due_at=cause.due_ms / 1000,
    )
    return speaker.raise_(cause.status, at, reason, layer)


def join_answered(speaker: Speaker, answer: JoinAnswer, at: float) -> list[Signal]:
    """Return what a JoinGroup's answer tells; the member id was learned before."""
    if answer.error:
        return _error(speaker, answer.error, "JoinGroup", at)
    speaker.generation = answer.generation
    speaker.learn(assignor=answer.protocol, leader=answer.leader or None)
    return [] if speaker.heard else [speaker.signal(SignalKind.JOIN, at)]


def sync_answered(
    speaker: Speaker, answer: SyncAnswer, counts: Counter[str], at: float
) -> list[Signal]:
    """Return the end of a round, with what its assignment demands at once."""
    if answer.error:
        return _error(speaker, answer.error, "SyncGroup", at)
    if speaker.member.protocol_type == _CONNECT:
        return _worker_synced(speaker, answer, counts, at)
    follow_up = layer = gained = None
    if speaker.member.protocol_type == _CONSUMER:
        assignment = _count(embedded.read_assignment, answer.assignment, counts, "assignment")
        if assignment is not None:
            follow_up = _revocation(speaker, assignment, at)
            layer = _streams_demand(speaker, assignment, counts, at)
            gained = speaker.settle(assignment.partitions)
    return _synced(speaker, at, follow_up, layer, gained)


def _synced(
    speaker: Speaker,
    at: float,
    follow_up: FollowUp | None = None,
    layer: FollowUp | None = None,
    gained: int | None = None,
) -> list[Signal]:
    speaker.unsynced = False
    speaker.heard = NOTHING if follow_up is None else frozenset({follow_up.status})
    speaker.demand = RebalanceStatus.NONE if layer is None else layer.status
    return [
        speaker.signal(
            SignalKind.SYNC, at, follow_up=follow_up, streams_follow_up=layer, gained=gained
        )
    ]


def _worker_synced(
    speaker: Speaker, answer: SyncAnswer, counts: Counter[str], at: float
) -> list[Signal]:
    """Return the same of a Connect worker, whose leader may have failed to assign anything."""
    read = connect_assignment.read_assignment
    assignment = _count(read, answer.assignment, counts, "connect_assignment")
    if assignment is None or not (assignment.failure or assignment.revoked):
        return _synced(speaker, at, None, None)
    if assignment.failure is not None:
        return speaker.raise_(RebalanceStatus.RETRY_ON_ERROR, at, assignment.failure)
    reason = f"tasks to revoke: {', '.join(sorted(assignment.revoked))}"
    status = RebalanceStatus.REVOCATION_NEEDED
    return _synced(speaker, at, FollowUp(status=status, at=at, reason=reason), None)


def _revocation(speaker: Speaker, assignment: embedded.Assignment, at: float) -> FollowUp | None:
    lost = speaker.owned - assignment.partitions
    if not lost or speaker.member.assignor in _EAGER:
        return None
    names = ", ".join(f"{topic}-{number}" for topic, number in sorted(lost))
    return FollowUp(
        status=RebalanceStatus.REVOCATION_NEEDED, at=at, reason=f"partitions to revoke: {names}"
    )


def _streams_demand(
    speaker: Speaker, assignment: embedded.Assignment, counts: Counter[str], at: float
) -> FollowUp | None:
    if speaker.streams is None or not assignment.user_data:
        return None
    info = _count(
        streams_userdata.read_assignment_info, assignment.user_data, counts, "streams_assignment"
    )
    return None if info is None else streams_userdata.streams_follow_up(speaker.streams, info, at)


def in_group_answered(
    speaker: Speaker, request: InGroup, errors: frozenset[int], api: str, at: float
) -> list[Signal]:
    """Return what the answer to a Heartbeat or an OffsetCommit tells."""
    if speaker.generation is None:  # joined in mid-stream
        speaker.generation = request.generation
    worst = [error for error in errors if error]
    if worst:
        return [signal for error in sorted(worst) for signal in _error(speaker, error, api, at)]
    return speaker.seen(at)


def heartbeat_after_loss(speaker: Speaker, request: InGroup, at: float) -> list[Signal]:
    """Return the end of a round whose SyncGroup was lost: the member's heartbeats are accepted."""
    speaker.generation = request.generation
    speaker.settled = None
    return _synced(speaker, at)


def left(speaker: Speaker, leaver: Leaver, at: float) -> list[Signal]:
    """Return what a member's own LeaveGroup tells."""
    if not reasons.is_poll_timeout(leaver.reason):
        return speaker.leave(at, leaver.reason)
    if speaker.left:
        return speaker.seen(at)
    speaker.retire()
    return speaker.raise_(RebalanceStatus.DROPPED_GROUP, at, leaver.reason)


def _count(read: Callable[[bytes], _T], data: bytes, counts: Counter[str], what: str) -> _T | None:
    """Read embedded bytes; odd ones are counted, and the rest of the message still holds."""
    try:
        return read(data)
    except DecodeError:
        counts[what] += 1
        return None


def _error(speaker: Speaker, error: int, api: str, at: float) -> list[Signal]:
    reason = f"{api} answered {name(error)}"
    joins = api in {"JoinGroup", "SyncGroup"}
    match meaning(error):
        case RebalanceStatus() as status:
            return speaker.raise_(status, at, reason)
        case Meaning.FENCED:
            return speaker.fail(at, reason)
        case Meaning.RETRIABLE if joins:
            return speaker.raise_(RebalanceStatus.RETRY_ON_ERROR, at, reason)
        case Meaning.FATAL if joins:
            return speaker.fail(at, reason)
        case _:
            return speaker.seen(at)
