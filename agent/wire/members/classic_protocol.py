"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, OffsetCommit, LeaveGroup.

The rules of the codes are semantics of the status, sections 1, 3 and 4a; the codes are
KAFKA-12472's. A request is read when it is sent (its reason), and again with its response (its
error).
"""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from agent.errors import DecodeError
from agent.wire.codec import connect_protocol as connect_assignment
from agent.wire.codec import consumer_protocol as embedded
from agent.wire.codec import streams_user_data as streams_userdata
from agent.wire.codec.messages import (
    JoinRequest,
    JoinResponse,
    LeavingMember,
    MemberRequest,
    SyncResponse,
)
from agent.wire.members import kip800_reasons as reasons
from agent.wire.members.error_codes import (
    REFUSALS,
    ErrorMeaning,
    describe_error,
    interpret_error,
)
from agent.wire.members.member import (
    EMPTY,
    KAFKAJS_ASSIGNOR,
    ConfigState,
    RevokeProgress,
    WireMember,
    describe_topics,
    name_partitions,
    share_topics,
)
from metrics.model.sample import CONFIGURED, REBALANCE_DELAY, clip_reason
from metrics.model.signals import FollowUp, Signal, SignalKind
from metrics.model.status import RebalanceStatus

_EAGER = {"range", "roundrobin", "sticky", KAFKAJS_ASSIGNOR}
"""Assignors of the eager protocol: owned partitions were revoked before the join."""
_JAVA = "apache-kafka-java"
_CONSUMER, _CONNECT = "consumer", "connect"
_ON_TIME_S = 1.0
"""A worker joins this close to the time that its assignment set."""
_T = TypeVar("_T")


def read_metadata(
    join: JoinRequest, assignor: str | None, counts: Counter[str]
) -> tuple[embedded.Subscription | None, streams_userdata.SubscriptionInfo | None]:
    """Return the known metadata that a member of a "consumer" group embeds in its JoinGroup."""
    if join.protocol_type != _CONSUMER or not join.protocols:
        return None, None
    by_name = dict(join.protocols)
    chosen = assignor if assignor in by_name else join.protocols[0][0]
    subscription = _read_or_count(
        embedded.read_subscription, by_name[chosen], counts, "subscription"
    )
    if subscription is None or chosen != "stream":
        return subscription, None
    info = _read_or_count(
        streams_userdata.read_subscription_info,
        subscription.user_data,
        counts,
        "streams_subscription",
    )
    if info is not None and info.version > streams_userdata.KNOWN_VERSION:
        counts[f"streams_version_{info.version}"] += 1
    return subscription, info


def handle_join_request(
    member: WireMember,
    join: JoinRequest,
    metadata: tuple[embedded.Subscription | None, streams_userdata.SubscriptionInfo | None],
    at: float,
) -> list[Signal]:
    """Return the cause of a join in its request; `NONE` if the request shows none."""
    subscription, info = metadata
    returned = member.report_return(None if subscription is None else subscription.topics, at)
    out = _find_cause(member, join, subscription, at)
    if subscription is not None:
        member.topics, member.owned = share_topics(subscription.topics), subscription.owned or EMPTY
    member.streams_info = info
    if member.reported_causes:  # of a running rebalance
        *others, last = out or member.report_alive(at)
        out = [*others, replace(last, joins=True)]
    elif join.member_id and member.generation is not None:  # it began it, or learns later why
        out.append(member.build_signal(SignalKind.JOIN, at))
        member.has_shown_join = True
    is_new = not join.member_id and join.instance_id is None  # its partitions went to others
    if is_new or not member.is_rdkafka:
        member.joined_at = at
    if member.assigned and (is_new or member.identity.assignor in _EAGER):
        out.append(member.build_signal(SignalKind.SEEN, at, assigned=()))
    if is_new:
        member.assigned = ()
    member.has_left, member.awaits_sync = False, True
    member.revocation = RevokeProgress.NONE
    return returned + out


def _find_cause(
    member: WireMember, join: JoinRequest, subscription: embedded.Subscription | None, at: float
) -> list[Signal]:
    change = _describe_change(member, subscription)
    if join.reason is not None:
        return _report_reason(member, join.reason, at, change)
    if change:
        reason = f"subscription has changed {change}"
        return member.report_cause(RebalanceStatus.SUBSCRIPTION_CHANGED, at, reason)
    if (
        member.follow_up and not member.reported_causes
    ):  # Streams below 3.2 calls enforceRebalance()
        return member.report_cause(RebalanceStatus.USER_REQUESTED, at, None)
    return []


def _describe_change(member: WireMember, subscription: embedded.Subscription | None) -> str:
    """Return the topics of a join and those before; empty if they are the same."""
    if subscription is None or member.topics is None or member.topics == subscription.topics:
        return ""
    return describe_topics(member.topics, subscription.topics)


def _report_reason(member: WireMember, reason: str, at: float, change: str) -> list[Signal]:
    cause = reasons.parse_join_reason(reason)
    if cause.status is reasons.NONE:
        return []
    if cause.status in reasons.OF_TOPICS:  # it names no topics
        reason = f"{reason} {change}".rstrip()
    if not cause.due_ms:  # the assignment before has reported Streams' at once (0), 10, 12 or 13
        return member.report_cause(cause.status, at, reason)
    layer = FollowUp(
        status=RebalanceStatus.ASSIGNMENT_PROBING,
        at=at,
        reason=clip_reason(reason),
        due_at=cause.due_ms / 1000,
    )
    return member.report_cause(cause.status, at, reason, layer)


def handle_join_response(
    member: WireMember, response: JoinResponse, sent_at: float, at: float
) -> list[Signal]:
    """Return the signals of a JoinGroup response; the member id was learned before.

    Its request was sent at ``sent_at`` (Unix seconds).
    """
    if response.error:
        return _handle_error(member, response.error, "JoinGroup", at)
    member.generation = response.generation
    member.learn(assignor=response.protocol, leader=response.leader or None)
    is_shown, member.has_shown_join = member.has_shown_join, False
    if is_shown:
        return member.report_alive(at)
    if member.reported_causes:
        return []
    return [replace(member.build_signal(SignalKind.JOIN, at), sent_at=sent_at)]


def handle_sync_response(
    member: WireMember, response: SyncResponse, counts: Counter[str], at: float
) -> list[Signal]:
    """Return the end of a rebalance, with the follow-up that its assignment requests."""
    if response.error:
        return _handle_error(member, response.error, "SyncGroup", at)
    if member.identity.protocol_type == _CONNECT:
        return _complete_worker(member, response, counts, at)
    follow_up = layer = gained = assigned = None
    if member.identity.protocol_type == _CONSUMER:
        assignment = _read_or_count(
            embedded.read_assignment, response.assignment, counts, "assignment"
        )
        if assignment is not None:
            follow_up = _find_revocation(member, assignment, at)
            layer = _find_streams_follow_up(member, assignment, counts, at)
            gained = member.assign(assignment.partitions)
            assigned = name_partitions(assignment.partitions)
    return _complete(member, at, follow_up, layer, gained, assigned)


def _complete(  # noqa: PLR0913 - one argument a part of the assignment
    member: WireMember,
    at: float,
    follow_up: FollowUp | None = None,
    layer: FollowUp | None = None,
    gained: int | None = None,
    assigned: tuple[str, ...] | None = None,
) -> list[Signal]:
    member.awaits_sync, member.revocation = False, RevokeProgress.NONE
    member.reported_causes = EMPTY if follow_up is None else frozenset({follow_up.status})
    member.follow_up = RebalanceStatus.NONE if layer is None else layer.status
    return [
        member.build_signal(
            SignalKind.SYNC,
            at,
            follow_up=follow_up,
            streams_follow_up=layer,
            gained=gained,
            assigned=assigned,
        )
    ]


def _complete_worker(
    member: WireMember, response: SyncResponse, counts: Counter[str], at: float
) -> list[Signal]:
    """Return the same of a Connect worker; its leader may have failed to assign anything."""
    read = connect_assignment.read_assignment
    assignment = _read_or_count(read, response.assignment, counts, "connect_assignment")
    if assignment is None:
        return _complete(member, at)
    if assignment.failure is not None:
        return member.report_cause(RebalanceStatus.RETRY_ON_ERROR, at, assignment.failure)
    shown, follow_up = _describe_assignment(member, assignment, at), None
    if assignment.revoked:
        follow_up = FollowUp(
            status=RebalanceStatus.REVOCATION_NEEDED,
            at=at,
            reason=clip_reason(f"tasks to revoke: {', '.join(sorted(assignment.revoked))}"),
        )
    return [replace(each, reason=shown) for each in _complete(member, at, follow_up)]


def _describe_assignment(
    member: WireMember, assignment: connect_assignment.ConnectAssignment, at: float
) -> str | None:
    """Return what an assignment shows: a newer configuration, and when the workers join again."""
    delay = f"{REBALANCE_DELAY} {assignment.delay_ms}" if assignment.delay_ms > 0 else None
    parts = [_compare_configuration(member, assignment), delay]
    rejoin_at = at + assignment.delay_ms / 1000 if delay else None
    member.config = ConfigState(assignment.config_offset, rejoin_at)
    return "; ".join(filter(None, parts)) or None


def _compare_configuration(
    member: WireMember, assignment: connect_assignment.ConnectAssignment
) -> str | None:
    """Return the words for a configuration that is newer than that of the assignment before.

    A worker joins by itself when a connector or its tasks are configured
    (`DistributedHerder.tick`). It also does when tasks have waited long enough for a worker that
    left: meanwhile a new session key may have moved the offset.
    """
    before = member.config
    if before is None or assignment.config_offset <= before.offset:
        return None
    if before.rejoin_at is not None and abs(member.joined_at - before.rejoin_at) < _ON_TIME_S:
        return None
    return f"{CONFIGURED}: offset {assignment.config_offset}, {before.offset} before"


def _find_revocation(
    member: WireMember, assignment: embedded.Assignment, at: float
) -> FollowUp | None:
    lost = member.owned - assignment.partitions
    if not lost or member.identity.assignor in _EAGER:
        return None
    names = ", ".join(f"{topic}-{number}" for topic, number in sorted(lost))
    return FollowUp(
        status=RebalanceStatus.REVOCATION_NEEDED,
        at=at,
        reason=clip_reason(f"partitions to revoke: {names}"),
    )


def _find_streams_follow_up(
    member: WireMember, assignment: embedded.Assignment, counts: Counter[str], at: float
) -> FollowUp | None:
    if member.streams_info is None or not assignment.user_data:
        return None
    info = _read_or_count(
        streams_userdata.read_assignment_info, assignment.user_data, counts, "streams_assignment"
    )
    return None if info is None else streams_userdata.find_follow_up(member.streams_info, info, at)


def handle_member_response(
    member: WireMember, request: MemberRequest, errors: frozenset[int], api: str, at: float
) -> list[Signal]:
    """Return the signals of the response to a Heartbeat or an OffsetCommit."""
    if member.generation is None:  # joined in mid-stream
        member.generation = request.generation
    revocation = _follow_revocation(member, api, at)
    worst = [error for error in errors if error]
    if worst:
        return revocation + [
            signal for error in sorted(worst) for signal in _handle_error(member, error, api, at)
        ]
    return revocation + member.report_alive(at)


def _follow_revocation(member: WireMember, api: str, at: float) -> list[Signal]:
    """Report that an eager member revokes its partitions: its callback may take long.

    A Java consumer that learns of a rebalance commits in the same `poll()`, right before the revoke
    callback, and joins after it
    (https://github.com/apache/kafka/blob/3.9.1/clients/src/main/java/org/apache/kafka/clients/consumer/internals/ConsumerCoordinator.java#L711).
    If its next request is a heartbeat, the callback runs. A member that commits again still reads.
    """
    is_java = (member.identity.software or _JAVA).startswith(_JAVA)
    is_eager = is_java and member.identity.assignor in _EAGER
    if not is_eager or RebalanceStatus.COORDINATOR_REQUESTED not in member.reported_causes:
        return []
    before = member.revocation
    if api == "OffsetCommit":
        member.revocation = RevokeProgress.COMMITTED
        has_read_on = before is RevokeProgress.RUNS and member.assigned is not None
        names = name_partitions(frozenset(member.assigned or ()))
        return [member.build_signal(SignalKind.SEEN, at, assigned=names)] if has_read_on else []
    if before is not RevokeProgress.COMMITTED:
        return []
    member.revocation = RevokeProgress.RUNS
    return [member.build_signal(SignalKind.SEEN, at, assigned=())] if member.assigned else []


def complete_lost_sync(member: WireMember, request: MemberRequest, at: float) -> list[Signal]:
    """Return the end of a rebalance with a lost SyncGroup: the member's heartbeats are accepted."""
    member.generation = request.generation
    member.assigned = None
    return _complete(member, at)


def handle_leave_request(member: WireMember, leaver: LeavingMember, at: float) -> list[Signal]:
    """Return the signals of a member's own LeaveGroup."""
    if not reasons.is_poll_timeout(leaver.reason):
        return member.report_leave(at, leaver.reason)
    if member.has_left:
        return member.report_alive(at)
    member.end_membership()
    return member.report_cause(RebalanceStatus.DROPPED_GROUP, at, leaver.reason)


def _read_or_count(
    read: Callable[[bytes], _T], data: bytes, counts: Counter[str], what: str
) -> _T | None:
    """Read embedded bytes; odd ones are counted, and the rest of the message still holds."""
    try:
        return read(data)
    except DecodeError:
        counts[what] += 1
        return None


def handle_lookup_response(member: WireMember, error: int, at: float) -> list[Signal]:
    """Return the refusal of a member that looks up its coordinator: its poll has failed."""
    return _handle_error(member, error, "FindCoordinator", at) if error in REFUSALS else []


def _handle_error(member: WireMember, error: int, api: str, at: float) -> list[Signal]:
    reason = f"{api} answered {describe_error(error)}"
    joins = api in {"JoinGroup", "SyncGroup"}
    match interpret_error(error):
        case RebalanceStatus() as status:
            return member.report_cause(status, at, reason)
        case ErrorMeaning.FENCED:
            return member.report_failure(at, reason)
        case ErrorMeaning.RETRIABLE if joins:
            return member.report_cause(RebalanceStatus.RETRY_ON_ERROR, at, reason)
        case ErrorMeaning.FATAL if joins or api == "FindCoordinator":
            return member.report_failure(at, reason)
        case ErrorMeaning.FATAL if error in REFUSALS:
            return member.report_refusal(at, reason)
        case _:
            return member.report_alive(at)
