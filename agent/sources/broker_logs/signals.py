"""What one line of a broker's log says of one member, as signals."""

from agent.sources.broker_logs.membership import NONE, Group, Party
from agent.sources.lines.dialect import LogEvent
from agent.wire.members.kip800_reasons import join_cause
from metrics.model.signals import FollowUp, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus

COORDINATOR_REQUESTED = RebalanceStatus.COORDINATOR_REQUESTED
UNKNOWN_MEMBER = RebalanceStatus.UNKNOWN_MEMBER
DROPPED_GROUP = RebalanceStatus.DROPPED_GROUP

_NO_WORDS = {"", "not provided"}


def own_words(event: LogEvent) -> str | None:
    """Return the client's own reason (KIP-800), which clients below 3.2 and many others lack."""
    words = event.captures.get("client_reason", "").strip()
    return None if words in _NO_WORDS else words


def cause(group: Group, party: Party, event: LogEvent, at: float) -> list[Signal]:
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
        first = raise_(party, COORDINATOR_REQUESTED, at, reason)
    return first + raise_(party, status, at, reason)


def join_cause_of(party: Party, event: LogEvent, at: float) -> list[Signal]:
    """Return the cause of a join that began a rebalance, as the client or the broker gives it."""
    words, told = own_words(event), event.captures.get("reason")
    cause = None if words is None else join_cause(words)
    # at once, Streams follows up 10, 12 or 13: which of them, only the assignment before has told
    status = NONE if cause is None or cause.due_ms == 0 else cause.status
    adds = "adds" in event.captures and party.member.group_instance_id is None
    if status is NONE and adds and not party.at_once:
        status = RebalanceStatus.NEW_MEMBER  # 2.8 does not print that it asked for a member id
    if status is NONE:
        note = signal(party, SignalKind.NOTE, at, reason=words or told)
        return [note, signal(party, SignalKind.JOIN, at)]
    layer = None
    if cause is not None and cause.due_ms:
        layer = FollowUp(
            status=RebalanceStatus.ASSIGNMENT_PROBING,
            at=at,
            reason=words,
            due_at=cause.due_ms / 1000,
        )
    return raise_(party, status, at, words or told, layer)


def others(group: Group, named: list[Party], event: LogEvent, at: float) -> list[Signal]:
    """Return the 1 of everyone who has to join again for somebody else."""
    reason = event.captures.get("reason")
    idle = [p for p in group.inside if p.status is NONE and not any(p is n for n in named)]
    return [s for party in idle for s in raise_(party, COORDINATOR_REQUESTED, at, reason)]


def raise_(
    party: Party,
    status: RebalanceStatus,
    at: float,
    reason: str | None,
    layer: FollowUp | None = None,
) -> list[Signal]:
    """Return the raise, once: several lines tell the same."""
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
            reason=reason,
            streams_follow_up=layer,
        )
    ]


def end(party: Party, at: float, generation: int) -> Signal:
    party.status = party.last = NONE
    return signal(party, SignalKind.SYNC, at, generation=generation)


def signal(
    party: Party,
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
        reason=reason,
        generation=generation,
    )
