"""Root cause of a group's rebalance, and the member that held it up. Pure.

Theory of operation. The trigger is the *earliest* cause that is no consequence. Where nobody who
was seen had one, the one member that was there before and took no part is inferred: the classic
protocol makes every member join every generation. Two such members, or a member whose agent is
silent too, name nobody: a wrong name is worse than none.

Source: semantics.md sections 4a and 6.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from aggregation.rebalances.causes import cause_of, list_steps
from aggregation.rebalances.grouping import EPOCH_NOTICE_S, RebalanceSegments
from aggregation.rebalances.segments import MemberRef, Segment, Step, is_inferred_leave
from aggregation.rebalances.unsynced_joins import Join
from metrics.model.sample import Outcome, Scope
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import ADMIN_SOURCES, BROKER_SOURCES, GAP_SOURCES

EXPIRY_WAIT_S = 5.0
"""A rebalance that took longer may itself have waited for a member that then expired."""
MIN_WAIT_S = 1.0
"""Less is the heartbeats' own jitter: nobody is called slow for it."""
EFFECT_SLACK_S = 1.0
"""Two sources' times of one event differ by less; a cause that is later did not begin it."""
_SAME_CAUSE_S = 1.0
"""Two sources show one cause of a member within this time."""


class Certainty(StrEnum):
    """How the trigger is known."""

    SEEN = "seen"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Who began a rebalance and why. ``at`` is Unix seconds."""

    certainty: Certainty
    at: float
    member: MemberRef | None = None
    code: RebalanceStatus | None = None
    reason: str | None = None
    missing: str | None = None
    """What would have had to be seen, where the trigger is not known."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """Whom the group waited for, and for how many seconds longer than for all others."""

    member: MemberRef
    waited_s: float
    member_id: str | None = None
    """Of members with one name, the one that it was."""


def find_seen_trigger(round_: RebalanceSegments) -> Trigger | None:
    """Return the earliest cause that was seen; an admin's words go before the victim's silence."""
    causes = [(step, cause_of(step)) for piece in round_.segments for step in list_steps(piece)]
    found = [(step, code) for step, code in causes if code is not None]
    if not found:
        return None
    step, code = min(found, key=lambda cause: (cause[0].at, cause[0].scope, -cause[1]))
    if _is_end_of_wait(step, round_):
        return None
    removal = removal_of(round_, step.member) if code is RebalanceStatus.UNKNOWN_MEMBER else None
    return Trigger(
        certainty=Certainty.INFERRED if is_inferred_leave(step.reason) else Certainty.SEEN,
        at=step.at if removal is None else removal.at,
        member=step.member,
        code=code,
        reason=_find_words(step, round_) if removal is None else removal.reason,
    )


def _find_words(step: Step, round_: RebalanceSegments) -> str | None:
    """Return the words of a cause: the wire has none for a leave that its client's log explains."""
    if step.reason is not None:
        return step.reason
    others = (
        other.reason
        for piece in round_.segments
        for other in piece.steps
        if other.member == step.member
        and other.code is step.code
        and abs(other.at - step.at) <= _SAME_CAUSE_S
    )
    return next((words for words in others if words is not None), None)


def _is_end_of_wait(step: Step, round_: RebalanceSegments) -> bool:
    """Check that a member went after the coordinator had asked it to join this rebalance.

    A coordinator prints its own steps in their order. A client learns of them by its heartbeats.
    """
    was_asked = step.before is RebalanceStatus.COORDINATOR_REQUESTED
    is_in_order = step.source in BROKER_SOURCES or step.at - round_.started_at >= MIN_WAIT_S
    return was_asked and step.code in _WENT and is_in_order


def is_leave_of_asked(trigger: Trigger, round_: RebalanceSegments) -> bool:
    """Check for the leave of a member that the coordinator had asked to join this rebalance.

    Something else began it, perhaps something that no source shows.
    """
    return any(
        step.at == trigger.at
        and step.member == trigger.member
        and step.code is RebalanceStatus.USER_REQUESTED
        and step.before is RebalanceStatus.COORDINATOR_REQUESTED
        and step.at - round_.started_at >= MIN_WAIT_S
        for segment in round_.consumers
        for step in segment.steps
    )


_WENT = {RebalanceStatus.DROPPED_GROUP, RebalanceStatus.UNKNOWN_MEMBER}


def removal_of(round_: RebalanceSegments, member: MemberRef) -> Step | None:
    """Return the admin's leave that removed a member, if one was seen."""
    return find_removals(round_).get(member)


def find_removals(round_: RebalanceSegments) -> dict[MemberRef, Step]:
    """Return the admin's leave of each member that was removed.

    On the wire every note is one. A broker's log notes joins too: there the member was removed at
    that moment.
    """
    gone = {
        (step.member, step.at)
        for segment in round_.segments
        for step in segment.steps
        if step.code is RebalanceStatus.UNKNOWN_MEMBER
    }
    found: dict[MemberRef, Step] = {}
    for segment in round_.segments:
        for note in segment.notes if segment.outcome is not Outcome.FAILED else ():
            is_join = note.source in BROKER_SOURCES and (note.member, note.at) not in gone
            if note.reason and note.source in ADMIN_SOURCES and not is_join:
                found.setdefault(note.member, note)
    return found


class Before(NamedTuple):
    """What is known of a group before one of its rebalances."""

    members: Collection[tuple[str, ...]]
    """Keys of the members that were there."""
    starts: Mapping[tuple[str, ...], float]
    """When members asked to join first (Unix seconds), of those whose client was seen to start."""
    is_next: bool
    """The generation before was seen: a member that was not in it is new."""

    def is_new(self, segment: Segment) -> bool:
        """Check that a member that joined was not there before."""
        if segment.member.key in self.members:
            return False
        return self.is_next or self.starts.get(segment.member.key) in segment.joins


def infer_root_cause(
    round_: RebalanceSegments,
    absent: Collection[MemberRef],
    before: Before,
    unsynced: Sequence[Join] = (),
) -> Trigger:
    """Return the trigger where no cause was seen.

    ``absent`` are the members that took no part; ``unsynced`` joins of members that were not
    there, in the order of time.
    """
    with_steps = {s.member for s in round_.consumers if not shows_errors_alone(s)}
    rounds = (s for s in round_.consumers if not s.is_exit and s.member not in with_steps)
    joined = {segment.member: segment for segment in rounds}
    if absent:  # their end can have begun it
        asked_at = find_first_request(round_)
        joined = {m: s for m, s in joined.items() if not joined_after(s, asked_at)}
    new = [member for member, segment in joined.items() if before.is_new(segment)]
    if unsynced and not new:
        return _infer_join(round_, unsynced[0].member, RebalanceStatus.NEW_MEMBER)
    if new or (len(joined) == 1 and round_.has_cause and before.is_next):
        member = min(new or joined, key=lambda each: joined[each].started_at)
        code = None if member.key in before.members else RebalanceStatus.NEW_MEMBER
        return _infer_join(round_, member, code)
    if len(absent) == 1 and not joined and not may_have_waited(round_):
        return Trigger(
            certainty=Certainty.INFERRED,
            at=round_.started_at,
            member=next(iter(absent)),
            code=RebalanceStatus.UNKNOWN_MEMBER,
            reason="it took no part any more and had sent no leave: its session expired",
        )
    return unknown_trigger(round_, absent)


def shows_errors_alone(segment: Segment) -> bool:
    """Check for a segment without steps, or with errors of the coordinator (9) alone.

    A join that began a rebalance can have met them.
    """
    return all(step.code is RebalanceStatus.RETRY_ON_ERROR for step in segment.steps)


def find_first_request(round_: RebalanceSegments) -> float:
    """Return when the first member was asked to rejoin (Unix seconds); infinity: none was."""
    asked = (
        step.at
        for segment in round_.consumers
        for step in segment.steps
        if step.code is RebalanceStatus.COORDINATOR_REQUESTED
    )
    return min(asked, default=float("inf"))


def joined_after(segment: Segment, asked_at: float) -> bool:
    """Check that a member sent its first join after others were asked to: it did not begin it."""
    return bool(segment.joins) and segment.joins[0] > asked_at + EFFECT_SLACK_S


def may_have_waited(round_: RebalanceSegments) -> bool:
    """Check for a rebalance that may have waited for a member that nobody sees.

    Its length shows that, unless the last join or drop that was seen ended it, or somebody is
    still to join: then the group waited for that member. Groups of the new protocols wait for
    nobody.
    """
    if round_.group_type != "classic":
        return False
    if round_.is_open:
        return not find_awaited(round_)
    if round_.own_seconds <= EXPIRY_WAIT_S:
        return False
    joins = [piece.joined_at for piece in drop_without_joins(_list_staying(round_))]
    seen = [at for at in joins if at is not None] + [at for at, _ in _gone(round_)]
    return None in joins or not seen or round_.ended_at - max(seen) > MIN_WAIT_S


def find_awaited(round_: RebalanceSegments) -> list[Segment]:
    """Return who was asked to join an open rebalance and did not, where others' joins are seen."""
    staying = _list_staying(round_)
    return [
        piece
        for piece in drop_without_joins(staying)
        if piece.is_open and not piece.joins and any(other.joins for other in staying)
    ]


def _infer_join(
    round_: RebalanceSegments, member: MemberRef, code: RebalanceStatus | None
) -> Trigger:
    return Trigger(
        certainty=Certainty.INFERRED,
        at=round_.started_at,
        member=member,
        code=code,
        reason="it joined without being told to",
    )


def unknown_trigger(round_: RebalanceSegments, absent: Collection[MemberRef]) -> Trigger:
    """Return that nobody can be named, and whose source is missing."""
    return Trigger(certainty=Certainty.UNKNOWN, at=round_.started_at, missing=_missing(absent))


def _missing(absent: Collection[MemberRef]) -> str:
    if absent:
        names = ", ".join(sorted(member.client_id for member in absent))
        return f"what became of {names}: gone, and no source reported when"
    return "the member that began it: no agent sees it"


def straggler(round_: RebalanceSegments, absent: Collection[MemberRef]) -> Straggler | None:
    """Return who joined last, whom the others waited for in vain, or who fell silent meanwhile."""
    found = [_late(round_, absent), *find_gone_instead(round_)[:1]]
    waited = [each for each in found if each is not None]
    return max(waited, key=lambda each: each.waited_s, default=None) or _suspected(round_)


def find_gone_instead(round_: RebalanceSegments) -> list[Straggler]:
    """Return who went where the group had waited for a join: dropped, or removed by the broker.

    The coordinator completes a rebalance as soon as the last member that it waits for is gone.
    """
    gone = sorted(_gone(round_), key=lambda each: each[0])
    if round_.group_type != "classic" or not gone:
        return []
    last_at = gone[-1][0]
    since = _waits_since(round_, last_at)
    if since is None or last_at - since < MIN_WAIT_S:
        return []
    return [
        Straggler(piece.member, at - since, piece.member_id)
        for at, piece in reversed(gone)
        if last_at - at < MIN_WAIT_S
    ]


def _gone(round_: RebalanceSegments) -> Iterator[tuple[float, Segment]]:
    """Yield the members that went without a join, and when."""
    for piece in round_.consumers:
        last = piece.steps[-1] if piece.steps else None
        if last is None or piece.joins or piece.scope is not Scope.CONSUMER:
            continue
        if piece.is_exit and last.code is RebalanceStatus.DROPPED_GROUP:
            yield piece.ended_at, piece
        elif _is_removed(piece):
            yield last.at, piece


def _waits_since(round_: RebalanceSegments, until: float) -> float | None:
    """Return when the last of the others had joined before a member went; None: not known."""
    ready = [at for at, _ in _arrivals(_list_staying(round_))]
    if all(piece.source in BROKER_SOURCES for piece in round_.consumers):
        # a broker's log shows no join but the first, and ends a rebalance without delay
        return round_.started_at if round_.ended_at - until <= MIN_WAIT_S else None
    return max((at for at in ready if at <= until), default=None if ready else round_.started_at)


def _list_staying(round_: RebalanceSegments) -> list[Segment]:
    return [
        piece
        for piece in round_.consumers
        if not piece.is_exit and piece.scope is Scope.CONSUMER and not _is_removed(piece)
    ]


def _is_removed(piece: Segment) -> bool:
    """Check that the broker removed a member, by its own log: it was in no later generation."""
    is_unknown = piece.steps and piece.steps[-1].code is RebalanceStatus.UNKNOWN_MEMBER
    by_broker = piece.source in BROKER_SOURCES
    return bool(is_unknown) and by_broker and piece.outcome is not Outcome.SYNCED


def _late(round_: RebalanceSegments, absent: Collection[MemberRef]) -> Straggler | None:
    """Return who joined last, or whom the others waited for in vain."""
    arrived = _arrivals(_list_staying(round_))
    if not arrived:
        return None
    (at, last), *others = sorted(
        arrived, key=lambda each: (each[0], each[1].member.key), reverse=True
    )
    in_vain = round_.ended_at - at
    if len(absent) == 1 and in_vain >= MIN_WAIT_S:
        return Straggler(next(iter(absent)), in_vain)
    # in the new protocols members go one by one with their heartbeats: nobody waits for that
    least_s = MIN_WAIT_S if round_.group_type == "classic" else EPOCH_NOTICE_S
    if others and at - others[0][0] >= least_s:
        return Straggler(last.member, at - others[0][0], last.member_id)
    return None


def _suspected(round_: RebalanceSegments) -> Straggler | None:
    """Return a client whose statistics had a hole while its group rebalanced: it did not poll."""
    silent = [note for p in round_.segments for note in p.notes if note.source in GAP_SOURCES]
    return Straggler(silent[0].member, round_.ended_at - round_.started_at) if silent else None


def drop_without_joins(found: Sequence[Segment]) -> list[Segment]:
    """Drop reports of an agent that shows no join of a member where another agent shows it."""
    showing: dict[MemberRef, set[str]] = defaultdict(set)
    for piece in found:
        if piece.joined_at is not None:
            showing[piece.member].add(piece.agent)
    if not showing:
        return [*found]
    return [
        piece
        for piece in found
        if piece.joined_at is not None or not showing[piece.member] - {piece.agent}
    ]


def _arrivals(staying: Iterable[Segment]) -> list[tuple[float, Segment]]:
    """Return when each member was ready: its join where all joins were seen, else its end."""
    ready: dict[MemberRef, tuple[float, Segment]] = {}
    known = drop_without_joins([p for p in staying if not p.is_open])
    by_join = all(p.joined_at is not None for p in known)
    for piece in known:
        at = piece.joined_at if by_join and piece.joined_at is not None else piece.ended_at
        before = ready.get(piece.member)
        if before is None or at > before[0]:
            ready[piece.member] = (at, piece)
    return list(ready.values())
