"""Signals of one broker log line for one member."""

from agent.sources.broker_logs.membership import NONE, CoordinatorGroup, CoordinatorMember
from agent.sources.lines.dialects.dialect import LogEvent
from agent.wire.members.kip800_reasons import parse_join_reason
from metrics.model.sample import clip_reason
from metrics.model.signals import FollowUp, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus

COORDINATOR_REQUESTED = RebalanceStatus.COORDINATOR_REQUESTED
UNKNOWN_MEMBER = RebalanceStatus.UNKNOWN_MEMBER
DROPPED_GROUP = RebalanceStatus.DROPPED_GROUP

_NO_WORDS = {"", "not provided"}


def read_client_reason(event: LogEvent) -> str | None:
    """Return the client's own reason (KIP-800), absent from clients below 3.2 and many others."""
    words = event.captures.get("client_reason", "").strip()
    return None if words in _NO_WORDS else words


def report_cause(
    group: CoordinatorGroup, party: CoordinatorMember, event: LogEvent, at: float
) -> list[Signal]:
    status, joined = event.rule.status, party.status is RebalanceStatus.NEW_MEMBER
    group.explained = True
    if status is RebalanceStatus.SUBSCRIPTION_CHANGED and joined:
        return []  # its first subscription
    if status is RebalanceStatus.NEW_MEMBER:
        party.out = False
        if (member_id := party.member.member_id or "") in group.left:  # KIP-848 keeps the id
            group.left.remove(member_id)
    if status is UNKNOWN_MEMBER:
        party.out, party.in_round = True, False
    reason, first = event.captures.get("reason"), list[Signal]()
    if status is RebalanceStatus.REVOCATION_NEEDED and party.status is NONE:
        first = raise_once(party, COORDINATOR_REQUESTED, at, reason)
    return first + raise_once(party, status, at, reason)


def report_join(party: CoordinatorMember, event: LogEvent, at: float) -> list[Signal]:
    """Return the cause of a join that began a rebalance, as the client or the broker gives it."""
    words, captured = read_client_reason(event), event.captures.get("reason")
    cause = None if words is None else parse_join_reason(words)
    # of Streams' follow-ups at once (10, 12 or 13), the assignment before has reported the kind
    status = NONE if cause is None or cause.due_ms == 0 else cause.status
    adds = "adds" in event.captures and party.member.group_instance_id is None
    if status is NONE and adds and not party.at_once:
        status = RebalanceStatus.NEW_MEMBER  # 2.8 does not print its request for a member id
    if status is NONE:
        note = build_signal(party, SignalKind.NOTE, at, reason=words or captured)
        return [note, build_signal(party, SignalKind.JOIN, at)]
    layer = None
    if cause is not None and cause.due_ms:
        layer = FollowUp(
            status=RebalanceStatus.ASSIGNMENT_PROBING,
            at=at,
            reason=clip_reason(words),
            due_at=cause.due_ms / 1000,
        )
    return raise_once(party, status, at, words or captured, layer)


def report_others(
    group: CoordinatorGroup, named: list[CoordinatorMember], event: LogEvent, at: float
) -> list[Signal]:
    """Return CoordinatorRequested (1) for each member that must rejoin because of another one."""
    reason = event.captures.get("reason")
    if group.scan_news and reason is not None:
        reason = f"{reason}: {group.scan_news}"
    idle = [p for p in group.inside if p.status is NONE and not any(p is n for n in named)]
    return [s for party in idle for s in raise_once(party, COORDINATOR_REQUESTED, at, reason)]


def raise_once(
    party: CoordinatorMember,
    status: RebalanceStatus,
    at: float,
    reason: str | None,
    layer: FollowUp | None = None,
) -> list[Signal]:
    """Return the raise, once: several lines report the same."""
    if party.last is status:
        return []
    party.last, party.status = status, max(party.status, status)
    return [
        Signal(
            kind=SignalKind.RAISE,
            at=at,
            member=party.member,
            source=SourceKind.BROKER_LOG,
            status=status,
            reason=clip_reason(reason),
            streams_follow_up=layer,
        )
    ]


def complete(party: CoordinatorMember, at: float, generation: int) -> Signal:
    party.status = party.last = NONE
    return build_signal(party, SignalKind.SYNC, at, generation=generation)


def build_signal(
    party: CoordinatorMember,
    kind: SignalKind,
    at: float,
    *,
    reason: str | None = None,
    generation: int | None = None,
) -> Signal:
    return Signal(
        kind=kind,
        at=at,
        member=party.member,
        source=SourceKind.BROKER_LOG,
        reason=clip_reason(reason),
        generation=generation,
    )
