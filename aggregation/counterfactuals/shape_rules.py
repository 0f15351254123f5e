"""Rules of how a group rebalances: assignor, initial delay, pace of rollouts. Pure."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from aggregation.counterfactuals.change import Change, Confidence, PastIncidents
from aggregation.counterfactuals.facts import IncidentFacts, latest
from aggregation.counterfactuals.lines import (
    ASSIGNOR,
    GROUP_PROTOCOL,
    INITIAL_DELAY,
    PACING,
    assignor_lines,
    before_protocol,
    delay_lines,
    pacing_lines,
    protocol_lines,
)
from aggregation.counterfactuals.poll_waits import PollWaits, read_waits
from aggregation.counterfactuals.savings import REBALANCES_OF_AN_ABSENCE, Saving, sum_unread
from aggregation.counterfactuals.sentences import format_span
from aggregation.counterfactuals.timeouts import round_up
from aggregation.incidents.model import DepartureMode, IncidentKind
from aggregation.incidents.settings import ClientKind, setting_of

LONGEST_START_S = 60.0
"""Joins over a longer time are no mass start that a delay should gather."""
LONGEST_GAP_S = 5.0
"""A later join is no part of the start: a delay of that length is too long for other groups."""
LONGEST_DELAY_S = 15.0
"""A longer one keeps every group of the broker waiting: it is proposed to none."""
DEFAULT_DELAY_S = 3.0
"""Default of the broker: no shorter one is proposed unseen."""
STEPS = 2
"""Halves of a rollout: each goes, and comes back."""
HEARTBEAT_S = 5.0
"""Default of the broker's group.consumer.heartbeat.interval.ms."""
CLIENT_HEARTBEAT_S = 3.0
"""Default of the clients' heartbeat.interval.ms."""
FEWEST_PACED = 3
"""A smaller group has no larger steps."""


def propose_cooperative(
    history: PastIncidents, heartbeat_s: float = CLIENT_HEARTBEAT_S
) -> Change | None:
    """Propose the cooperative assignor: the rebalances stay, the partitions of others are read.

    Only those partitions move that have to, by the numbers that each member had before and after.
    What a member that has gone leaves behind is unread for the length of the rebalance. What a
    member that stays hands over is given up in one round and taken in the next one, which takes as
    long, and at least a heartbeat's interval: the others learn of it with their next heartbeats.

    As members read on, they work between these steps. A Java client joins, gets the answer, and
    gets its assignment when it polls. So the leader works for the rest of its batch before it
    assigns, and a new owner that has partitions does the same before it learns of more; but the
    member that joins last is still in its poll, so one of all does not. Owners give up at their own
    polls, and the first of them begins the next round: k owners wait for (k - 1) / (k + 1) of the
    rest less, on average. librdkafka
    joins from a thread of its own: its rebalance takes as long as its members need to learn of it,
    and only a new owner works on. How long the rest of a batch takes is seen in the joins of the
    eager group; else half of the longest rebalance counts, without its heartbeat.

    The rest of the unread time is saved. Incidents in which a member went without a word are left
    out: their unread time is mostly its own. So are groups of other protocols, of clients that have
    an assignor of their own, and of one that is cooperative.
    """
    now = latest(history.all, "assignor")
    is_cooperative = "cooperative" in (now or "").lower()
    if is_cooperative or not _is_classic(history) or _lacks_assignor(history):
        return None
    waits = read_waits(history.all)
    savings = [
        Saving(incident=each, rebalances=0, unread_s=saved)
        for each in history.uncounted
        for left_s in [_cooperative_s(each, waits, heartbeat_s)]
        if (saved := _unread_but_for(each, left_s)) is not None
    ]
    if (sum_unread(savings) or 0.0) <= 0.0:
        return None
    return Change(
        setting=ASSIGNOR,
        now=now,
        proposed="CooperativeStickyAssignor",
        because=f"in {_count(savings, 'incident')} partitions were unread that did not move",
        price="a rebalance may have a second round, and the change takes two deploys",
        confidence=Confidence.LOW if now is None else Confidence.MEDIUM,
        savings=tuple(savings),
        lines=assignor_lines(now),
    )


def _count(values: Sequence[object], noun: str) -> str:
    return f"{len(values)} {noun}{'' if len(values) == 1 else 's'}"


def _is_classic(history: PastIncidents) -> bool:
    return history.all[-1].group_type in {None, "classic"}


def _lacks_assignor(history: PastIncidents) -> bool:
    return setting_of(ASSIGNOR, "classic", history.client_kind) is None


def _cooperative_s(incident: IncidentFacts, waits: PollWaits, heartbeat_s: float) -> float | None:
    """Return the unread seconds of the partitions that have to move; None: unknown."""
    if incident.moved_s is None or not incident.moved:
        return incident.moved_s
    length_s = incident.moved_s / incident.moved
    handed_over = min(incident.moved, incident.handed_over or 0)
    freed = incident.moved - handed_over
    rest_s = waits.rest_of(max(0.0, length_s - heartbeat_s))
    if waits.joins_without_poll:
        notice_s = heartbeat_s if waits.notice_s is None else waits.notice_s
        return freed * (min(length_s, notice_s) + rest_s) + handed_over * heartbeat_s
    others = 1.0 if incident.group_size is None else 1 - 1 / incident.group_size
    owners = max(1.0, handed_over / incident.rebalances) if incident.rebalances else 1.0
    second_s = max(length_s, heartbeat_s) + rest_s * (others - (owners - 1) / (owners + 1))
    return freed * (length_s + 2 * others * rest_s) + handed_over * max(0.0, second_s)


def _unread_but_for(incident: IncidentFacts, left_s: float | None) -> float | None:
    """Return the unread seconds of an orderly incident, but for those that are left.

    Below 0: the setting makes this incident worse. None: unknown, or the incident is not orderly.
    Neither is one in which the group had no members for a while: nobody was there to read on. No
    rebalance follows the leave of the last member.
    """
    is_orderly = incident.kind in _ORDERLY and all(
        each.how is DepartureMode.LEFT for each in incident.absences
    )
    is_orderly = is_orderly and incident.rebalances > 0 and not _had_no_members(incident)
    if incident.unread_s is None or left_s is None or not is_orderly:
        return None
    return incident.unread_s - left_s


def propose_consumer_protocol(
    history: PastIncidents,
    heartbeat_s: float = HEARTBEAT_S,
    client_heartbeat_s: float = CLIENT_HEARTBEAT_S,
) -> Change | None:
    """Propose the protocol of KIP-848: the rebalances stay, and members do not wait for others.

    An owner reads until it gives a partition up, and reports that at once. The new owner learns of
    it with its next heartbeat: after half of the broker's interval, on average. It takes the
    partition at its next poll: a member that has partitions works for the rest of its batch before,
    as the joins of the classic group show; else half of the longest rebalance counts, without its
    heartbeat. A member that joins has none, so it takes the first one at once; those that others
    give up later wait for its work. The rest of the unread time is saved. Incidents are left out as
    for the cooperative assignor, which stands beside it for brokers that lack the protocol.

    Source: rd_kafka_cgrp_consumer_handle_next_assignment (rdkafka_cgrp.c) postpones the next
    assignment until the application has polled; maybeReconcile (AbstractMembershipManager.java)
    does the same.
    """
    kind = history.client_kind
    if not _is_classic(history) or kind is ClientKind.CONNECT:
        return None
    waits = read_waits(history.all)
    savings = [
        Saving(incident=each, rebalances=0, unread_s=saved)
        for each in history.uncounted
        for left_s in [_consumer_protocol_s(each, waits, heartbeat_s, client_heartbeat_s)]
        if (saved := _unread_but_for(each, left_s)) is not None
    ]
    if (sum_unread(savings) or 0.0) <= 0.0:
        return None
    older = propose_cooperative(history, client_heartbeat_s)
    return Change(
        setting=GROUP_PROTOCOL,
        now="classic",
        proposed=kind.value,
        because=f"in {_count(savings, 'incident')} partitions were unread while members waited",
        price=_price_of_protocol(kind, older),
        confidence=Confidence.MEDIUM,
        savings=tuple(savings),
        lines=protocol_lines(kind) + (() if older is None else before_protocol(older.lines)),
    )


def _price_of_protocol(kind: ClientKind, older: Change | None) -> str:
    if kind is ClientKind.STREAMS:
        return "brokers and clients of Kafka 4.2 or newer, and all instances stop for the change"
    price = "brokers and clients of Kafka 4.0 or newer; assignors of clients are not used"
    if older is None or older.unread_avoided_s is None:
        return price
    instead = format_span(older.unread_avoided_s)
    return f"{price}; with older ones the cooperative assignor would have avoided {instead}"


def _consumer_protocol_s(
    incident: IncidentFacts, waits: PollWaits, heartbeat_s: float, client_heartbeat_s: float
) -> float | None:
    """Return the unread seconds of the partitions that have to move; None: unknown."""
    if incident.moved_s is None or not incident.moved:
        return None if incident.moved is None else 0.0
    rest_s = waits.rest_of(max(0.0, incident.moved_s / incident.moved - client_heartbeat_s))
    handed_over = min(incident.moved, incident.handed_over or 0)
    freed = 0 if incident.handed_over is None else incident.moved - handed_over
    behind_the_first = max(0, handed_over - incident.rebalances)
    return incident.moved * heartbeat_s / 2 + (freed + behind_the_first) * rest_s


_ORDERLY = {
    IncidentKind.MEMBER_JOINED,
    IncidentKind.MEMBER_LEFT,
    IncidentKind.RESTART,
    IncidentKind.ROLLOUT,
    IncidentKind.ENFORCED,
    IncidentKind.SUBSCRIPTION_CHANGED,
    IncidentKind.METADATA_CHANGED,
}


_LEAST_AVOIDED, _LEAST_UNREAD_S = 2, 1.0
"""The least that an initial delay has to avoid: rebalances, or else unread time."""


def propose_initial_delay(history: PastIncidents) -> Change | None:
    """Propose a longer initial delay for mass starts: joins within it are one rebalance.

    A broker delays the first rebalance of an empty group, and again with each join that comes
    meanwhile, up to the members' max.poll.interval.ms in all: so the delay needs the largest time
    between two joins, and a start that takes longer than a known interval is left out. Members that
    have begun to read are not stopped again, so all unread time is saved; that all of them begin
    later is the price. A group in which a first join alone stopped somebody was not empty. Where
    more came with it, that is not recorded, so the confidence is low. A single join that stopped
    nobody for long is not worth a setting of the whole broker. A start that may need more than
    `LONGEST_DELAY_S` is left out.
    """
    interval_s = latest(history.all, "max_poll_interval_s") or LONGEST_START_S
    starts = [
        start
        for start in _starts(history.uncounted)
        if start[-1].ended_at - start[0].started_at <= interval_s
        and round_up(_longest_gap(start)) <= LONGEST_DELAY_S
    ]
    savings = [
        Saving(
            incident=each,
            rebalances=each.rebalances - (each is _first_rebalance(start)),
            unread_s=each.unread_s,
        )
        for start in starts
        for each in start
    ]
    savings = [each for each in savings if each.rebalances]
    unread_s = sum(each.unread_s or 0.0 for each in savings)
    if sum(each.rebalances for each in savings) < _LEAST_AVOIDED and unread_s < _LEAST_UNREAD_S:
        return None
    longest = max(map(_longest_gap, starts))
    value = str(round(1000 * max(DEFAULT_DELAY_S, round_up(longest))))
    return Change(
        setting=INITIAL_DELAY,
        now=None,
        proposed=value,
        because=f"in {_count(starts, 'start')} the members joined within {longest:.3g} s of "
        "each other",
        price="the first records of each group of the broker come that much later",
        confidence=Confidence.LOW,
        savings=tuple(savings),
        lines=delay_lines(value),
    )


def _starts(incidents: Sequence[IncidentFacts]) -> Iterator[list[IncidentFacts]]:
    """Yield the incidents of each mass start: joins, each soon after the one before."""
    start: list[IncidentFacts] = []
    for each in [*incidents, None]:
        if each is not None and start and _continues(each, start):
            start.append(each)
            continue
        if len(start) > 1 or any(found.rebalances > 1 for found in start):
            yield start
        start = [each] if each is not None and _may_begin(each) else []


def _may_begin(incident: IncidentFacts) -> bool:
    was_empty = not incident.unread_s or (incident.rebalances > 1 and len(incident.members) > 1)
    return (
        was_empty
        and incident.kind is IncidentKind.MEMBER_JOINED
        and incident.group_type in {None, "classic"}
        and incident.ended_at - incident.started_at <= LONGEST_START_S
    )


def _continues(incident: IncidentFacts, start: Sequence[IncidentFacts]) -> bool:
    return (
        incident.kind is IncidentKind.MEMBER_JOINED
        and incident.started_at - start[-1].ended_at <= LONGEST_GAP_S
        and incident.ended_at - start[0].started_at <= LONGEST_START_S
    )


def _first_rebalance(start: Sequence[IncidentFacts]) -> IncidentFacts | None:
    """Return the incident of a start with its first rebalance, which stays."""
    return next((each for each in start if each.rebalances), None)


def _longest_gap(start: Sequence[IncidentFacts]) -> float:
    """Return the longest time between two joins; within one incident they are at most its length.

    The first joins come with the beginning of an incident.
    """
    within = (each.ended_at - each.started_at for each in start if each.rebalances > 1)
    between = (after.started_at - before.started_at for before, after in pairwise(start))
    return max([*within, *between], default=0.0)


def propose_pacing(history: PastIncidents) -> Change | None:
    """Propose rollouts by halves: a half goes, comes back, then the other.

    So each half has the rebalances that each member had: two, or one where a member is back within
    the rebalance that its leave began. What members that leave had is unread until others take it,
    at any pace. The others stop as often as there are rebalances, but for one half of them that
    goes itself. Members that are back at once save no unread time: half of them wait for the
    slowest. Where all of them went before the first was back, there are no fewer steps: the group
    stopped, as for a change that members before and after it do not share. Halves differ, so the
    confidence is low.
    """
    savings = [
        Saving(
            incident=each,
            rebalances=each.rebalances - _count_paced(each),
            unread_s=None if each.unread_s is None else _saved_by_pacing(each, each.unread_s),
        )
        for each in history.uncounted
        if each.kind is IncidentKind.ROLLOUT
        and len(each.members) >= FEWEST_PACED
        and not _has_stopped(each)
        and each.rebalances > _count_paced(each)
    ]
    if not savings:
        return None
    return Change(
        setting=PACING,
        now=None,
        proposed="half of the members at a time",
        because=f"{_count(savings, 'rollout')} had more rebalances than by halves",
        price="half of the members read all partitions meanwhile",
        confidence=Confidence.LOW,
        savings=tuple(savings),
        lines=pacing_lines(),
    )


def _had_no_members(incident: IncidentFacts) -> bool:
    """Check that a group was without members until the first one was back."""
    size = incident.group_size
    return size is not None and len(incident.absences) >= size and _has_stopped(incident)


def _has_stopped(incident: IncidentFacts) -> bool:
    """Check that all members of an incident had gone before the first one was back."""
    returns = [each.returned_at for each in incident.absences if each.returned_at is not None]
    if len(incident.absences) < len(incident.members) or not returns:
        return False
    return max(each.at for each in incident.absences) < min(returns)


def _count_paced(incident: IncidentFacts) -> int:
    """Return the rebalances of a rollout by halves."""
    of_each = round(incident.rebalances / max(1, len(incident.members)))
    return STEPS * min(REBALANCES_OF_AN_ABSENCE, max(1, of_each))


def _saved_by_pacing(incident: IncidentFacts, unread_s: float) -> float:
    """Return the unread seconds that a rollout by halves saves."""
    if not incident.moved or incident.moved_s is None:
        return 0.0
    freed = max(0, incident.moved - (incident.handed_over or 0))
    others_s = max(0.0, unread_s - incident.moved_s * freed / incident.moved)
    paced = _count_paced(incident)
    return others_s * (1 - (paced - 1) / (incident.rebalances - 1))
