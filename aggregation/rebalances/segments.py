"""Segments of members' episodes, each with its part in one rebalance of its group: pure.

Theory of operation. The records of a member give its episodes. An episode is cut into *segments*:
the round in which it gets its assignment, and, where it left or was dropped, the moment at which it
went, which belongs to the rebalance of those who stay. An open episode lasts until now.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from metrics.model.sample import (
    NO_REASON_BACK,
    REMOVED_AND_ENDED,
    UNEXPLAINED,
    Outcome,
    Sample,
    SampleKind,
    Scope,
    parse_time,
)
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import BROKER_SOURCES

DROPPED_GROUP = RebalanceStatus.DROPPED_GROUP
_BEGINNINGS = {
    RebalanceStatus.USER_REQUESTED,
    RebalanceStatus.METADATA_CHANGED,
    RebalanceStatus.SUBSCRIPTION_CHANGED,
}
"""Causes inside a client that is a member."""
_OUTSIDE = {RebalanceStatus.NEW_MEMBER, RebalanceStatus.UNKNOWN_MEMBER, DROPPED_GROUP}
_FENCED = {RebalanceStatus.UNKNOWN_MEMBER, RebalanceStatus.STALE_MEMBER}
_SAME_LEAVE_S = 1.0
"""A log's line about a drop and the leave on the wire are of the same moment."""
_REMOVAL_S = 0.1
"""A coordinator that removes a member begins the others' rebalance within milliseconds."""
_LEARNED = "encountered UNKNOWN_MEMBER_ID"
"""Begin of the reason that a client gives for its join after a removal (KIP-800)."""
_REQUEST_TIMEOUT_S = 30.0
"""Maximum delay of a request: request.timeout.ms by default."""
_UNKNOWN_MAX_S = 600.0
"""A status that nothing confirms is lost after this time, by default (semantics.md 3)."""
_RETURNED = re.compile(rf"{NO_REASON_BACK} (?P<s>\d+(?:\.\d+)?) s later")
_LEFT_JOINING = "from JOINING to PREPARE_LEAVING"
# AbstractMembershipManager.transitionTo: the first heartbeat's response ends JOINING
# https://github.com/apache/kafka/blob/4.1.0/clients/src/main/java/org/apache/kafka/clients/consumer/internals/AbstractMembershipManager.java
_JOIN_BEFORE_S = 1.0
"""A client logs its join before the broker that answers it does."""
_JOIN_WAIT_S = 10.0
"""An earlier join may be of another rebalance, whose end the log lacks."""
JOINED = "joined"
"""Field of a change: the member has sent its join for the rebalance that runs."""
_CODES = tuple(RebalanceStatus)


class MemberRef(NamedTuple):
    """Names of a member, as people know it."""

    client_id: str
    host: str = ""
    group_instance_id: str | None = None
    twin: int = 0
    """Number among members of one client id and host; 0 where there is one (`twins`)."""

    @property
    def key(self) -> tuple[str, ...]:
        """Identity over restarts: a static member may come back under another client id."""
        own = self.group_instance_id
        if own is not None:
            return (own,)
        names = (self.client_id, self.host)
        return (*names, f"{self.twin}") if self.twin else names


def is_static(key: tuple[str, ...]) -> bool:
    """Check for the key of a member with a ``group.instance.id``."""
    return len(key) == 1


class TwinRecord(Sample, frozen=True, kw_only=True):
    """A record of a member that has its client id and host in common with another one."""

    twin: int


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One cause that a member had. ``at`` is Unix seconds."""

    at: float
    member: MemberRef
    scope: Scope
    before: RebalanceStatus
    code: RebalanceStatus
    """NONE: a cause without a code, such as an admin's leave."""
    reason: str | None = None
    masked: bool = False
    """Recorded, and hidden behind a higher status."""
    source: str = ""


class Segment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One member's part in one rebalance of its group. Instants are Unix seconds."""

    member: MemberRef
    scope: Scope
    started_at: float
    ended_at: float
    """Of an open segment: now."""
    steps: tuple[Step, ...]
    generations: frozenset[int] = frozenset()
    is_open: bool = False
    is_exit: bool = False
    """The member went: it is out of the group from then on."""
    is_out: bool = False
    """Of an exit: the member was dropped and is not back."""
    is_unassigned: bool = False
    """The member joined, and left or was lost before it had any assignment."""
    out_until: float | None = None
    """Of a drop or a removal: when its status ended, by its return or for good; else now."""
    outcome: Outcome | None = None
    notes: tuple[Step, ...] = ()
    """Reports about the member without a code."""
    is_note: bool = False
    """A recorded cause without an episode, such as an admin's leave."""
    joins: tuple[float, ...] = ()
    """Times of the join requests that were seen, in order."""
    gained: int | None = None
    """Number of partitions that moved to it, where that was seen."""
    epoch: int | None = None
    """Generation or epoch at its end."""
    is_repeat: bool = False
    """Its sync repeated the generation that it had: nobody else rebalanced."""
    shown: str | None = None
    """What its assignment shows, of a sync that has a reason."""
    member_id: str | None = None
    protocol_type: str | None = None
    agent: str = ""
    source: str = ""

    @property
    def status_until(self) -> float:
        """When its member's status has fallen, or passed to the next segment."""
        return self.ended_at if self.out_until is None else self.out_until

    @property
    def joined_at(self) -> float | None:
        """Time of the last join request, where one was seen."""
        return self.joins[-1] if self.joins else None

    @property
    def is_round(self) -> bool:
        """Whether the member got, or waited for, an assignment."""
        return not self.is_exit and not self.is_note

    @property
    def is_refused(self) -> bool:
        """Whether the coordinator refused its join: no one else has to rebalance for it.

        A present member that began a new generation has joined: its assignment failed. So has one
        that took part in an earlier generation before its join or sync failed.
        """
        by_broker = self.source in BROKER_SOURCES  # there it is a member that was removed
        began = bool(self.generations) and any(step.code in _BEGINNINGS for step in self.steps)
        has_joined = began or len(self.generations) > 1
        return self.outcome is Outcome.FAILED and not (by_broker or has_joined)


def segments(records: Sequence[Sample], now: float) -> list[Segment]:
    """Cut the records of one group into segments, by their start; ``now`` is Unix seconds."""
    chains: dict[tuple[object, ...], list[Sample]] = defaultdict(list)
    notes: list[Segment] = []
    early: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for record in records:
        if record.episode is None and record.joined_ts is not None and record.field == JOINED:
            early[member_of(record).key].append(parse_time(record.joined_ts))
        elif record.episode is None or is_inferred_leave(record.reason):
            notes += _note(record)
        else:
            chains[record.scope, record.client_id, record.episode].append(record)
    found = [segment for chain in chains.values() for segment in _cut(chain, now)]
    if early:
        ends = _list_ends([*found, *notes])
        for joins in early.values():
            joins.sort()
        found, notes = (
            [_add_early_joins(s, early[s.member.key], ends[s.member.key]) for s in part]
            for part in (found, notes)
        )
    return sorted(
        _take_late_drops(_end_with_clients(_extend_removals(found)), notes),
        # a Streams instance repeats what its thread has at that instant, so the thread comes first
        key=lambda segment: (segment.started_at, segment.scope, segment.member.key),
    )


def _extend_removals(found: list[Segment]) -> list[Segment]:
    """Return the segments; a member that learns of its removal was at UnknownMember (3) until then.

    The log of a broker that no source of the client shares an agent with ends the removed member's
    episode at the sync of the others.
    """
    removed = [n for n, each in enumerate(found) if _has_removed(each)]
    if not removed:
        return found
    by_clients: dict[tuple[str, ...], list[Segment]] = defaultdict(list)
    for each in sorted(found, key=lambda each: each.started_at):
        if each.source not in BROKER_SOURCES and each.scope is Scope.CONSUMER:
            by_clients[each.member.key].append(each)
    extended = list(found)
    for number in removed:
        own = found[number]
        later = by_clients.get(own.member.key, [])
        index = bisect_left(later, own.steps[-1].at, key=lambda each: each.started_at)
        back_at = _learns_at(later[index]) if index < len(later) else None
        if back_at is not None and back_at <= own.ended_at + _UNKNOWN_MAX_S:
            extended[number] = replace(own, out_until=back_at)
    return extended


def _end_with_clients(found: list[Segment]) -> list[Segment]:
    """Return the segments; a broker that is slow to handle a leave ends the member's with it.

    The client's own sources show the leave when it is sent.
    """
    left: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for each in found:
        if each.outcome is Outcome.LEFT and each.source not in BROKER_SOURCES:
            left[each.member.key].append(each.ended_at)
    if not left:
        return found
    return [
        _end_earlier(each, left[each.member.key])
        if each.outcome is Outcome.LEFT and each.source in BROKER_SOURCES
        else each
        for each in found
    ]


def _end_earlier(segment: Segment, leaves: Iterable[float]) -> Segment:
    """Return a broker's segment of a leave, with the time of one that its member sent within it."""
    since = max(segment.started_at, segment.ended_at - _REQUEST_TIMEOUT_S)
    at = min((at for at in leaves if since < at < segment.ended_at), default=None)
    if at is None:
        return segment
    *steps, last = segment.steps
    return replace(segment, ended_at=at, steps=(*steps, replace(last, at=at)))


def _has_removed(segment: Segment) -> bool:
    """Check for the episode of a member that a broker's log ends with its removal."""
    is_removed = segment.outcome is Outcome.FAILED and segment.source in BROKER_SOURCES
    return is_removed and bool(segment.steps) and _is_removal(segment.steps[-1])


def _learns_at(segment: Segment) -> float | None:
    """Return when a client learns that its coordinator does not know it (Unix seconds)."""
    is_first = bool(segment.steps) and segment.steps[0].code is RebalanceStatus.UNKNOWN_MEMBER
    return segment.started_at if is_first else None


def _list_ends(found: Iterable[Segment]) -> dict[tuple[str, ...], list[float]]:
    """Return the ends of each member's segments (Unix seconds), in order."""
    ends: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for segment in found:
        ends[segment.member.key].append(segment.ended_at)
    return defaultdict(list, {key: sorted(times) for key, times in ends.items()})


def _add_early_joins(segment: Segment, early: Sequence[float], ends: Sequence[float]) -> Segment:
    """Return a segment with the joins that its client logged before it, where its begin shows none.

    A broker's log begins it a little later. One without a visible cause begins with its end, and
    has the joins since the last of its member's other ``ends``. All times are in order.
    """
    begin = segment.started_at
    if segment.steps and segment.steps[0].source in BROKER_SOURCES:
        since = begin - _JOIN_BEFORE_S
    elif segment.source not in BROKER_SOURCES and _is_unexplained_join(segment):
        index = bisect_left(ends, begin)
        since = max([begin - _JOIN_WAIT_S, *ends[max(index - 1, 0) : index]])
    else:
        return segment
    joins = early[bisect_left(early, since) : bisect_left(early, begin)]
    return replace(segment, joins=(*joins, *segment.joins)) if joins else segment


def _is_unexplained_join(segment: Segment) -> bool:
    return not segment.steps and segment.is_round and segment.outcome is Outcome.SYNCED


def is_unexplained(reason: str | None) -> bool:
    """Check for the reason of a join without a visible cause."""
    return reason is not None and reason.startswith(UNEXPLAINED)


def is_inferred_leave(reason: str | None) -> bool:
    """Check for the words of a leave whose cause is known by the member's return alone."""
    return reason is not None and _RETURNED.match(reason) is not None


def _take_late_drops(found: list[Segment], notes: list[Segment]) -> list[Segment]:
    """Return all segments; a late report explains the leave without a reason.

    On the wire a close and a drop are the same request below 3.2, and it waits for the log some
    seconds only. A line that is read later moves nothing, and is noted. So is the member's return:
    the wire shows that its process has gone on.
    """
    leaves: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, left in enumerate(found):
        if left.outcome is Outcome.LEFT and left.steps and not left.steps[-1].reason:
            leaves[left.member.key].append(number)
    if not leaves:
        return found + [note for note in notes if not _is_return(note)]
    merged = _merge_printed_late(found, leaves, _list_joins(notes))
    others: list[Segment] = []
    for note in notes:
        of_member = leaves[note.member.key] if _explains_leave(note) else []
        returned = _RETURNED.match(note.steps[0].reason or "") if note.steps else None
        at = note.started_at - (float(returned["s"]) if returned else 0.0)
        near = (n for n in of_member if abs(found[n].ended_at - at) <= _SAME_LEAVE_S)
        place = next(near, None)
        if place is not None:
            of_member.remove(place)
            found[place] = _explain(found[place], note.steps[0])
        elif returned is None:  # else another source has explained the leave
            others.append(note)
    return [each for number, each in enumerate(found) if number not in merged] + others


def _explain(left: Segment, step: Step) -> Segment:
    """Return the leave with its late cause."""
    steps = (*left.steps[:-1], replace(step, at=left.ended_at, masked=False))
    outcome = None if step.code is DROPPED_GROUP else left.outcome
    return replace(left, steps=steps, outcome=outcome)


def _list_joins(notes: Iterable[Segment]) -> dict[tuple[str, ...], list[float]]:
    """Return the times of each member's joins without a visible cause."""
    joins: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for note in notes:
        if note.is_round:
            joins[note.member.key].append(note.started_at)
    return joins


def _merge_printed_late(
    found: list[Segment],
    leaves: Mapping[tuple[str, ...], list[int]],
    joins: Mapping[tuple[str, ...], list[float]],
) -> set[int]:
    """Explain a member's leave by the drop that it reports on its return; return such drops.

    A member that has left cannot be dropped, unless it has joined since. confluent-kafka-python
    prints librdkafka's lines at the next poll, right before the join.
    """
    merged: set[int] = set()
    for numbers in _number_by_member(found, leaves):
        for before, number, after in zip(numbers, numbers[1:], numbers[2:], strict=False):
            went, back = found[number], found[after]
            is_drop = went.is_exit and [step.code for step in went.steps] == [DROPPED_GROUP]
            of_member = leaves[went.member.key]
            since = found[before].ended_at
            has_joined = any(since < at < went.ended_at for at in joins.get(went.member.key, ()))
            is_printed_late = is_drop and not has_joined and back.started_at == went.out_until
            if is_printed_late and before in of_member:
                of_member.remove(before)
                found[before] = _explain(found[before], went.steps[-1])
                found[after] = replace(back, started_at=went.started_at)
                merged.add(number)
    return merged


def _number_by_member(
    found: Sequence[Segment], members: Container[tuple[str, ...]]
) -> Iterable[list[int]]:
    """Return the places of the segments of some members, in the order of their ends."""
    by_member: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number in sorted(range(len(found)), key=lambda number: found[number].ended_at):
        if found[number].member.key in members and found[number].scope is Scope.CONSUMER:
            by_member[found[number].member.key].append(number)
    return by_member.values()


def _is_return(note: Segment) -> bool:
    return any(is_inferred_leave(step.reason) for step in note.steps)


def _explains_leave(note: Segment) -> bool:
    return _is_return(note) or any(step.code is DROPPED_GROUP for step in note.steps)


def _note(record: Sample) -> list[Segment]:
    """Return a record outside any episode: an admin's leave, a refusal, a join without a cause."""
    if record.kind is not SampleKind.SIGNAL:
        return []
    step = _step(record)
    joined = is_unexplained(record.reason)
    refused = record.outcome is Outcome.FAILED
    return [
        Segment(
            member=step.member,
            scope=record.scope,
            started_at=step.at,
            ended_at=step.at,
            steps=() if joined or refused else (step,),
            notes=(step,) if record.to is None and not joined else (),
            generations=_known(record.generation) if joined else frozenset(),
            outcome=Outcome.SYNCED if joined else record.outcome,
            shown=(record.reason or "").partition(f"{UNEXPLAINED}: ")[2] or None,
            is_note=not joined,
            member_id=record.member_id,
            agent=record.agent,
            source=record.source,
        )
    ]


def _cut(chain: list[Sample], now: float) -> list[Segment]:
    """Return the segments of one episode: how it went, and the round that ended it."""
    chain.sort(key=_order)
    moves = [
        record
        for record in chain
        if record.kind is SampleKind.TRANSITION or record.kind is SampleKind.LOST
    ]
    if not moves:
        return [segment for record in chain for segment in _note(record)]
    last = moves[-1]
    is_open = last.kind is SampleKind.TRANSITION and bool(last.to)
    whole = Segment(
        member=member_of(last),
        scope=last.scope,
        started_at=parse_time(moves[0].ts),
        ended_at=max(now, parse_time(last.ts)) if is_open else parse_time(last.ts),
        steps=tuple([_step(record) for record in chain if record.to]),
        notes=_notes(chain) if len(chain) > len(moves) else (),
        generations=frozenset() if is_open else _generations(moves),
        is_open=is_open,
        is_unassigned=_is_lost_join(moves),
        outcome=last.outcome,
        joins=_joins(chain),
        gained=last.gained,
        epoch=last.generation,
        is_repeat=_is_repeat(moves),
        shown=last.reason if last.outcome is Outcome.SYNCED else None,
        member_id=last.member_id,
        protocol_type=last.protocol_type,
        agent=last.agent,
        source=last.source,
    )
    dropped = next((step for step in whole.steps if _is_drop(step)), None)
    if dropped is not None:
        return _split_drop(whole, dropped, is_classic=last.group_type == "classic")
    if last.outcome is Outcome.LEFT:
        return _split_leave(whole, is_classic=last.group_type == "classic")
    is_synced = last.outcome is Outcome.SYNCED
    is_next = is_synced and _is_next(moves[0].generation, last.generation)
    return [whole] if is_next else _split_removal(whole, last)


def _is_lost_join(moves: Sequence[Sample]) -> bool:
    """Check for a join to a group of a new protocol that no response confirmed."""
    first, last = moves[0], moves[-1]
    is_join = first.to == RebalanceStatus.NEW_MEMBER and first.group_type != "classic"
    return is_join and last.kind is SampleKind.LOST and last.generation is None


def _is_drop(step: Step) -> bool:
    """Check for a drop; a consumer that is dropped while a higher code is shown is out, too."""
    return step.code is DROPPED_GROUP and (not step.masked or step.scope is Scope.CONSUMER)


def _is_next(before: int | None, after: int | None) -> bool:
    """Return whether no rebalance of the others can lie between two generations of a member."""
    return before is not None and after is not None and after <= before + 1


def _split_removal(whole: Segment, last: Sample) -> list[Segment]:
    """Cut an episode at the coordinator's removal of the member, if another source reports its end.

    The others' rebalance may be over without it: a member that is frozen or dead stays at its
    status. One that is gone by its ``last`` record never came back; if its process had ended, the
    removal was its end. Where only a broker reports the member, its log ends the episode at their
    sync, or at that of another process that took the place of a static member.
    """
    is_dead = last.reason == REMOVED_AND_ENDED
    is_gone = is_dead or last.kind is SampleKind.LOST
    removal = next((step for step in whole.steps if _is_removal(step)), None)
    is_ended = not whole.is_open and not is_gone
    is_taken = whole.source in BROKER_SOURCES and whole.outcome is Outcome.SYNCED
    is_of_broker = whole.source in BROKER_SOURCES and not is_taken
    if removal is None or (is_of_broker and is_ended):
        return [whole]
    after = tuple(s for s in whole.steps if s.at >= removal.at and s.source not in BROKER_SOURCES)
    joins = tuple(at for at in whole.joins if at >= removal.at)
    if is_ended and not (after or joins or is_taken):
        return [whole]
    returns = [] if is_gone else [*joins, *(step.at for step in after)]
    returns += [whole.ended_at] if is_taken and not returns else []
    back_at = min(returns, default=None)
    over_at = min(whole.ended_at if back_at is None else back_at, removal.at + _REMOVAL_S)
    until = whole.ended_at if back_at is None else back_at
    went = replace(
        whole,
        ended_at=over_at,
        out_until=over_at if is_dead else until,
        steps=tuple(step for step in whole.steps if step.at <= removal.at and step not in after),
        generations=frozenset(),
        is_open=False,
        outcome=Outcome.FAILED,
        joins=tuple(at for at in whole.joins if at < removal.at),
        gained=None,
        source=removal.source,
    )
    if back_at is None:
        return [went]
    return [went, replace(whole, started_at=back_at, steps=_lead(after), joins=joins)]


def _is_removal(step: Step) -> bool:
    """Check for a removal by the coordinator, and not for a join that names an earlier one."""
    is_unknown = step.code is RebalanceStatus.UNKNOWN_MEMBER
    is_join = (step.reason or "").startswith(_LEARNED)
    return is_unknown and not (step.masked or is_join) and step.source in BROKER_SOURCES


def _lead(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps of a cut episode: its first one is not hidden any more."""
    return (replace(steps[0], masked=False), *steps[1:]) if steps else ()


def _notes(chain: Iterable[Sample]) -> tuple[Step, ...]:
    return tuple(
        _step(record)
        for record in chain
        if record.kind is SampleKind.SIGNAL
        and record.to is None
        and record.outcome is not Outcome.FAILED
        and not is_unexplained(record.reason)
    )


def _split_leave(whole: Segment, *, is_classic: bool) -> list[Segment]:
    """Cut an episode of a new protocol at its member's leave, which begins another rebalance.

    In a classic group the rebalance that runs begins again, with one generation. A member that
    leaves before its first heartbeat was answered was in no rebalance.
    """
    is_new = bool(whole.steps) and whole.steps[0].code is RebalanceStatus.NEW_MEMBER
    if is_new and _is_unanswered(whole):
        return []
    whole = replace(whole, generations=frozenset(), is_unassigned=is_new)
    leave = whole.steps[-1] if len(whole.steps) > 1 else None
    if is_classic or leave is None or leave.code is not RebalanceStatus.USER_REQUESTED:
        return [replace(whole, is_exit=True)]
    before = replace(whole, ended_at=leave.at, steps=whole.steps[:-1], outcome=None)
    if before.steps[-1].code in _FENCED:  # it did not join again: the group lost it before
        return [before]
    steps = (replace(leave, masked=False),)
    return [before, replace(whole, started_at=leave.at, steps=steps, is_exit=True, joins=())]


def _is_unanswered(left: Segment) -> bool:
    """Check for a leave out of JOINING in a client's log, and nothing on the wire."""
    is_joining = _LEFT_JOINING in (left.steps[-1].reason or "")
    return is_joining and len({step.source for step in left.steps}) == 1


def _split_drop(whole: Segment, dropped: Step, *, is_classic: bool) -> list[Segment]:
    """Cut an episode at the poll interval's end: from there on its member is out of the group.

    A member that joined again is back, even if it left before the assignment.
    """
    later = (step for step in whole.steps if step.at > dropped.at)
    after = tuple(step for step in later if step.code is not DROPPED_GROUP)  # a second line
    joins = tuple(at for at in whole.joins if at >= dropped.at)
    leave = after[-1] if after and whole.outcome is Outcome.LEFT else None
    if leave is not None:
        after = tuple(step for step in after if step is not leave and step.at < leave.at)
        joins = tuple(at for at in joins if at < leave.at)
    came_at = after[0].at if after else max(joins, default=None)
    is_back = came_at is not None if whole.is_open or leave else whole.outcome is Outcome.SYNCED
    back_at = whole.ended_at if came_at is None or not is_back else came_at
    went = replace(
        whole,
        ended_at=dropped.at,
        out_until=back_at,
        steps=tuple(step for step in whole.steps if step.at <= dropped.at),
        generations=frozenset(),
        is_exit=True,
        is_open=False,
        is_out=whole.is_open and not is_back,
        outcome=None,
        joins=tuple(at for at in whole.joins if at < dropped.at),
    )
    pieces = _split_reconciling(went, dropped) if not is_classic else [went]
    if not is_back:
        return pieces
    came = dropped if not after else replace(after[0], masked=False)
    steps = (replace(came, at=back_at), *after[1:])
    back = replace(whole, started_at=back_at, steps=steps, joins=joins)
    if leave is None:
        return [*pieces, back]
    left = replace(
        whole,
        started_at=leave.at,
        steps=(replace(leave, masked=False),),
        generations=frozenset(),
        is_exit=True,
        joins=(),
    )
    return [*pieces, replace(back, generations=frozenset(), outcome=None), left]


def _split_reconciling(went: Segment, dropped: Step) -> list[Segment]:
    """Cut a drop of a new protocol from the join, or the assignment, that its member had begun.

    The drop raises the group's epoch, as a leave does. A fenced member had to join again, and was
    in no rebalance.
    """
    before = went.steps[: went.steps.index(dropped)]
    if not before or not _FENCED.isdisjoint(step.code for step in before):
        return [went]
    steps = (replace(dropped, masked=False), *went.steps[len(before) + 1 :])
    exit_ = replace(went, started_at=dropped.at, steps=steps, joins=())
    return [replace(went, steps=before, is_exit=False, is_out=False, out_until=None), exit_]


def _generations(moves: list[Sample]) -> frozenset[int]:
    """Return the generations synced within an episode: its start shows the one before.

    One that ends in the generation in which it began shows none: a follower's idle rejoin, or a
    member of a new protocol whose epoch rises only after it has given its partitions up.
    The moves of a Streams instance are of several threads: its last one alone shows it.
    """
    ends = moves[-1:] if moves[0].scope is Scope.STREAMS else moves
    seen = {move.generation for move in ends} - {None, moves[0].generation}
    return frozenset(generation for generation in seen if generation is not None)


def _is_repeat(moves: list[Sample]) -> bool:
    first, last = moves[0].generation, moves[-1].generation
    if last is None or first != last or moves[-1].outcome is not Outcome.SYNCED:
        return False
    return moves[0].group_type == "classic" and all(record.to not in _OUTSIDE for record in moves)


def _known(generation: int | None) -> frozenset[int]:
    return frozenset() if generation is None else frozenset({generation})


def _joins(chain: Iterable[Sample]) -> tuple[float, ...]:
    """Return the times of join requests: reported with the sync, or when each was sent."""
    joins = [record.joined_ts for record in chain if record.joined_ts is not None]
    return tuple(map(parse_time, joins)) if joins else ()


def _step(record: Sample) -> Step:
    return Step(
        at=parse_time(record.ts),
        member=member_of(record),
        scope=record.scope,
        before=_CODES[record.from_ or 0],
        code=_CODES[record.to or 0],
        reason=record.reason,
        masked=record.kind is SampleKind.SIGNAL,
        source=record.source,
    )


def member_of(record: Sample) -> MemberRef:
    """Return the member of a record."""
    twin = record.twin if isinstance(record, TwinRecord) else 0
    return _member_ref(record.client_id or "", record.host, record.group_instance_id, twin)


_member_ref = lru_cache(maxsize=4096)(MemberRef)  # a member has many records


def _order(record: Sample) -> tuple[str, bool, int, int, int]:
    """Return the place of a record in its episode.

    At one instant the status rises, and the fall to 0 comes last. The numbers of two agents do not
    compare: one that replaces another writes the history again, and either copy may be kept.
    """
    return record.ts, not record.to, record.from_ or 0, record.to or 0, record.seq
