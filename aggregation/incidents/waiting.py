"""Members that a rebalance waits for, or waited for. Pure.

In the classic protocol, an open rebalance waits for every known member that has not joined. A past
one waited for each member that joined after a gap of at least `MIN_WAIT_S` without a join, or
never. In the new protocols the group waits only for a member that must give up partitions for
another one, if that takes longer than a heartbeat.

Source: incidents.md 1a.7.
"""

import itertools
from collections.abc import Iterable, Iterator

from aggregation.incidents.model import Wait
from aggregation.rebalances.grouping import EPOCH_NOTICE_S, NOTICE_S
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.root_cause import (
    MIN_WAIT_S,
    Certainty,
    drop_without_joins,
    find_gone_instead,
)
from aggregation.rebalances.segments import MemberRef, Segment
from metrics.model.sample import Outcome
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import BROKER_SOURCES


def find_waits(rebalance: ExplainedRebalance, present: Iterable[MemberRef]) -> list[Wait]:
    """Return the members that a rebalance waited for; ``present`` are its members before it."""
    if rebalance.round.group_type != "classic":
        return _revoking(rebalance)
    if rebalance.round.is_open:
        return _not_joined(rebalance, present)
    waits = [*(_late(rebalance) or _late_by_broker(rebalance)), *_in_vain(rebalance)]
    return waits or _gone_instead(rebalance)


def _gone_instead(rebalance: ExplainedRebalance) -> list[Wait]:
    """Return the members that departed while the group waited for their join."""
    found = find_gone_instead(rebalance.round)
    return [Wait(each.member, each.waited_s, None, member_id=each.member_id) for each in found]


def _late_by_broker(rebalance: ExplainedRebalance) -> list[Wait]:
    """Return the members that a slow rebalance can have waited for, by a broker's log alone.

    That log shows the join that begins a rebalance and the time of the last join, none between.
    """
    round_ = rebalance.round
    seconds = round_.ended_at - round_.started_at
    if seconds <= NOTICE_S or any(s.source not in BROKER_SOURCES for s in round_.consumers):
        return []
    invited = {
        segment.member: Wait(segment.member, seconds, segment.ended_at, Certainty.INFERRED)
        for segment in round_.consumers
        if segment.steps and segment.steps[0].code is RebalanceStatus.COORDINATOR_REQUESTED
    }
    if len(invited) == 1:
        return [wait._replace(certainty=Certainty.SEEN) for wait in invited.values()]
    return list(invited.values())


def _joins(rebalance: ExplainedRebalance) -> dict[MemberRef, float | None]:
    """Return the time of each participant's last join (Unix seconds); None: not seen."""
    joins: dict[MemberRef, float | None] = {}
    for segment in rebalance.round.consumers:
        if not segment.is_exit:
            joins[segment.member] = segment.joined_at
    return joins


def _not_joined(rebalance: ExplainedRebalance, present: Iterable[MemberRef]) -> list[Wait]:
    joins = _joins(rebalance)
    if not any(segment.is_open for segment in rebalance.round.consumers):
        return []
    done = {s.member.key for s in rebalance.round.consumers if not s.is_open or s.joined_at}
    gone = {departure.member.key for departure in rebalance.departures}
    known = {member.key: member for member in [*present, *joins]}
    seconds = rebalance.round.ended_at - rebalance.round.started_at
    return [Wait(member, seconds, None) for key, member in known.items() if key not in done | gone]


def _late(rebalance: ExplainedRebalance) -> list[Wait]:
    """Return the members that joined the first round or the last one late."""
    late = {wait.member: wait for wait in _after_a_gap(_first_joins(rebalance))}
    late |= {wait.member: wait for wait in _after_a_gap(_ready(rebalance))}
    return list(late.values())


def _after_a_gap(ready: dict[MemberRef, float]) -> Iterator[Wait]:
    """Yield the members that were ready late, with the seconds since the last one in time."""
    times = sorted(((at, m) for m, at in ready.items()), key=lambda each: (each[0], each[1].key))
    waited_from: float | None = None
    for (before, _), (at, member) in itertools.pairwise(times):
        if at - before >= MIN_WAIT_S:
            waited_from = before
        if waited_from is not None:
            yield Wait(member, at - waited_from, at)


def _first_joins(rebalance: ExplainedRebalance) -> dict[MemberRef, float]:
    """Return the time of each member's first join (Unix seconds); empty if one was not seen."""
    rounds = [segment for segment in rebalance.round.consumers if not segment.is_exit]
    first: dict[MemberRef, float] = {}
    for segment in rounds:
        for at in segment.joins[:1]:
            first.setdefault(segment.member, at)
    return first if all(segment.member in first for segment in rounds) else {}


def _ready(rebalance: ExplainedRebalance) -> dict[MemberRef, float]:
    """Return the time at which each member was ready (Unix seconds).

    It is the member's join if all joins were seen, else the end of its episode.
    """
    rounds = drop_without_joins(
        [s for s in rebalance.round.consumers if not s.is_exit and not s.is_open]
    )
    joined = [s for s in rebalance.round.consumers if s.joined_at is not None and not _is_drop(s)]
    by_join = all(segment.joined_at is not None for segment in rounds)
    if not by_join and len({segment.member for segment in joined}) > 1:
        rounds, by_join = joined, True
    ready: dict[MemberRef, float] = {}
    for segment in rounds:
        at = segment.joined_at if by_join and segment.joined_at is not None else segment.ended_at
        ready[segment.member] = max(at, ready.get(segment.member, at))
    return ready


def _is_drop(segment: Segment) -> bool:
    """Check that a member departed without a leave: the group waits for it even if it joined."""
    return segment.is_exit and segment.outcome is not Outcome.LEFT


def _in_vain(rebalance: ExplainedRebalance) -> list[Wait]:
    """Return the members that never joined, or departed, while the others waited."""
    ready = _ready(rebalance) if rebalance.absent or rebalance.departures else {}
    if not ready:
        return []
    last_at = max(ready.values())
    went = {each.member: each.at for each in rebalance.departures if each.member not in ready}
    waits = [
        Wait(member, at - last_at, None)
        for member, at in went.items()
        if at - last_at >= MIN_WAIT_S and member not in rebalance.absent
    ]
    span = find_vain_wait(rebalance)
    return waits if span is None else waits + [
        Wait(member, span[1] - span[0], None) for member in rebalance.absent
    ]  # fmt: skip


def find_vain_wait(rebalance: ExplainedRebalance) -> tuple[float, float] | None:
    """Return the span (Unix seconds) of a wait for absent members, until they expired.

    No source shows their departure. After the coordinator has removed them, the others get their
    assignment or join again. If all of these are lost or gone, nobody has waited.
    """
    ready = _ready(rebalance) if rebalance.absent else {}
    if not (ready and _may_have_ended(rebalance)):
        return None
    joined_at = max(_first_joins(rebalance).values(), default=float("inf"))
    later = [
        at for s in rebalance.round.consumers for at in s.joins if at >= joined_at + MIN_WAIT_S
    ]
    went = [each.at for each in rebalance.departures if each.member not in rebalance.absent]
    since, until = max([*ready.values(), *went]), rebalance.round.ended_at
    if later and not rebalance.round.is_open:
        since, until = joined_at, min(later)
    return (since, until) if until - since >= MIN_WAIT_S else None


def _may_have_ended(rebalance: ExplainedRebalance) -> bool:
    """Check that a rebalance is open, or that a member of it got an assignment."""
    ended = (segment.outcome is Outcome.SYNCED for segment in rebalance.round.consumers)
    return rebalance.round.is_open or any(ended)


def _revoking(rebalance: ExplainedRebalance) -> list[Wait]:
    """Return members of a new protocol that were slow to give partitions up."""
    return [
        Wait(segment.member, seconds, None)
        for segment in rebalance.round.consumers
        if (seconds := _revocation_seconds(segment)) > EPOCH_NOTICE_S
    ]


def _revocation_seconds(segment: Segment) -> float:
    """Return the seconds from a member's new target assignment to the end of its revocation.

    0: it had nothing to revoke.
    """
    starts = [step.at for step in segment.steps if step.code in _OF_TARGETS]
    needed = any(step.code is RebalanceStatus.REVOCATION_NEEDED for step in segment.steps)
    return segment.ended_at - min(starts) if needed else 0.0


_OF_TARGETS = {RebalanceStatus.COORDINATOR_REQUESTED, RebalanceStatus.REVOCATION_NEEDED}
