"""Steps of one log's clock, corrected by the generations that all members share. Pure.

Theory of operation. A classic group's generation is one moment: each member sends its join before
the coordinator sends any assignment of that generation. A member that joined after the others had
synced, or synced before the others joined, has another clock, if most of them agree. One that is
slow to sync, or late to join, contradicts nothing. A step of a clock (NTP, a virtual machine that
resumes) lasts: two generations show the same offset, or behind a step back more of it. Then the
member's records are moved by it, from the step on. A step forward lies in the longest silence
before its first such sync. One back leaves no silence, as times never run back within a log, so all
that begins behind the last other sync is moved. Nothing is moved that is more than `LOOK_S` older
than that first sync.

Generations are read in order, each by the steps before it, and a second one proves a step only if
it is near (`_PROOF_S`, `_PROOF_ROUNDS`). So a history that is read in parts has the steps of the
whole: each part begins with the `ClockStep`s of those before it, and waits for the `Doubt`s.

Of a member that the wire shows, too, one event proves a step: a sync of one member id and
generation, or its leave. What the log has of it is moved, and its episode becomes a part of the
other one.

A follower's second join of a generation, and the time of any other source, prove nothing.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from aggregation.rebalances.grouping import SKEW_S, GroupRef
from aggregation.rebalances.segments import MemberRef, member_of
from metrics.model.sample import Outcome, Sample, SampleKind, Scope, format_time, parse_time
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import FILE_SOURCES, PROTOCOL_SOURCES

STEP_S = 3.0
"""Clocks of two hosts differ by less."""
LOOK_S = SKEW_S
"""A step is no longer before the first sync that shows it: older rebalances are over."""
_LEAST_LOOK_S = 60.0
_SAME_S = 1.0
"""Offsets of one clock differ by less: a member gets its assignment within a poll."""
_LARGE_S = 30.0
_PROOFS = 2
"""Generations, or other events, that must show a step."""
_PROOF_S = 7 * 86_400.0
"""They are not further apart, nor by more generations of the group."""
_PROOF_ROUNDS = 8
_PAIR = 2
"""Nothing shows the right clock of two."""
_NEAR_S = 7200.0
"""A group that is made anew has the same numbers of generations later."""
_CLASSIC = "classic"
_PERIODIC = {SampleKind.SAMPLE, SampleKind.AGENT}
"""Records with the agent's time, not the log's."""


class ClockStep(NamedTuple):
    """One step of the clock of a member's log. ``since`` is Unix seconds by that clock."""

    ref: GroupRef
    member: MemberRef
    since: float
    seconds: float
    """Seconds that the clock is ahead of the others' from then on."""
    other: MemberRef | None = None
    """The only other member of the group: its clock may be the one that was set back."""
    is_named: bool = False
    """An incident has it already."""

    @property
    def at(self) -> float:
        """Time of the step by the clock of the others."""
        return self.since - self.seconds


class Doubt(NamedTuple):
    """One generation has shown a step, and another one may prove it. Unix seconds."""

    since: float
    """What ended before is not moved."""
    until: float
    """By the member's own clock."""


class SteadyRecords(NamedTuple):
    """Records with one clock for all, as far as generations show it."""

    records: list[Sample]
    steps: list[ClockStep]
    """Those that were known before are first."""
    doubts: list[Doubt]


class _Sync(NamedTuple):
    """A member's first sync of a generation, by its own clock (Unix seconds)."""

    member: MemberRef
    at: float
    joined_at: float


class _Mark(NamedTuple):
    """A record of a member, by its own clock. ``at`` is Unix seconds."""

    at: float
    is_end: bool
    """It belongs to the sync before it."""


class _Candidate(NamedTuple):
    """Syncs of one offset that no other sync of their member has refuted."""

    first: _Sync
    before: float | None
    """Time of the sync before, by the member's own clock."""
    seconds: float
    known: float
    """Seconds that were taken out before the comparison."""
    round: int
    """Number of its generation in the order of the group's."""
    proofs: int
    other: MemberRef | None = None
    """The one member that contradicts it."""


_Owner = tuple[GroupRef, MemberRef]
_Pair = tuple[Sample, Sample]
"""One event as a log has it, and as the wire has it."""
_Round = dict[MemberRef, _Sync]
"""All syncs of one generation."""
_Steps = dict[MemberRef, list[ClockStep]]
"""Steps of each member of a group, in order."""


def correct_clock_steps(
    records: Sequence[Sample], known: Iterable[ClockStep] = ()
) -> SteadyRecords:
    """Return the records with the times that they have by the clocks of most members.

    ``known`` are steps that older records have shown.
    """
    steps: dict[GroupRef, _Steps] = defaultdict(lambda: defaultdict(list))
    for step in known:
        steps[step.ref][step.member].append(step)
    ends = [
        each
        for each in records
        if (each.outcome is Outcome.SYNCED or each.outcome is Outcome.LEFT)
        and each.scope is Scope.CONSUMER
        and each.group_type == _CLASSIC
    ]
    doubled = _find_doubled(ends)
    for (ref, member), pairs in doubled.items():
        _compare_sources(ref, member, pairs, records, steps[ref][member])
    doubts: list[Doubt] = []
    for ref, rounds in _read_rounds(ends).items():
        doubts += _find_steps(ref, rounds, records, steps[ref])
    found = [step for of_group in steps.values() for own in of_group.values() for step in own]
    if not found:
        return SteadyRecords(list(records), [], doubts)
    moved = [_move(record, steps) for record in records]
    return SteadyRecords(_unite_episodes(moved, doubled) if doubled else moved, found, doubts)


def _find_doubled(ends: Iterable[Sample]) -> dict[_Owner, list[tuple[Sample, Sample]]]:
    """Return the events that a log and the wire have at different times, by their member."""
    by_log: dict[tuple[object, ...], Sample] = {}
    by_wire: dict[tuple[object, ...], Sample] = {}
    for each in ends:
        if each.kind is SampleKind.TRANSITION and each.member_id:
            number = each.generation if each.outcome is Outcome.SYNCED else None
            event = each.cluster, each.group, each.member_id, each.outcome, number
            if each.source in FILE_SOURCES:
                by_log.setdefault(event, each)
            elif each.source in PROTOCOL_SOURCES:
                by_wire.setdefault(event, each)
    found: dict[_Owner, list[tuple[Sample, Sample]]] = defaultdict(list)
    for name, own in by_log.items() if by_wire else ():
        other = by_wire.get(name)
        if other is not None and abs(parse_time(own.ts) - parse_time(other.ts)) >= STEP_S:
            found[GroupRef(own.cluster, own.group), member_of(own)].append((own, other))
    return {
        owner: proven
        for owner, pairs in found.items()
        if (proven := [pair for pair in pairs if _is_proven(pair, pairs)])
    }


def _is_proven(pair: _Pair, pairs: Iterable[_Pair]) -> bool:
    """Check that two events show an offset, or one a large one: kafkajs syncs again."""
    own = _apart(pair)
    same = sum(abs(_apart(each) - own) <= _SAME_S for each in pairs)
    return abs(own) >= _LARGE_S or same >= _PROOFS


def _apart(pair: _Pair) -> float:
    return parse_time(pair[0].ts) - parse_time(pair[1].ts)


def _compare_sources(
    ref: GroupRef,
    member: MemberRef,
    pairs: Sequence[tuple[Sample, Sample]],
    records: Sequence[Sample],
    steps: list[ClockStep],
) -> None:
    """Add the steps of a log's clock that the wire shows."""
    own = {each.id for each, _ in pairs}
    synced = [
        parse_time(each.ts)
        for each in records
        if each.outcome is Outcome.SYNCED
        and each.id not in own
        and GroupRef(each.cluster, each.group) == ref
        and member_of(each) == member
    ]
    for at, other_at in sorted((parse_time(a.ts), parse_time(b.ts)) for a, b in pairs):
        known = _ahead(steps, at)
        seconds = at - other_at - known
        if abs(seconds) >= STEP_S:
            # until then both sources had the same times
            before = max((each + known for each in synced if each < other_at), default=None)
            doubt = _Candidate(_Sync(member, at, at), before, seconds, known, 0, _PROOFS)
            since = _begin(_list_marks(records, ref, member), doubt)
            steps.append(ClockStep(ref, member, since, at - other_at))


def _unite_episodes(
    records: Iterable[Sample], doubled: Mapping[_Owner, Iterable[tuple[Sample, Sample]]]
) -> list[Sample]:
    """Return the records without the episodes of a log that the wire has, too.

    Their causes are in the other episode, hidden behind its own. An earlier drop is a note: on the
    wire the member has left, and its return is an episode of its own.
    """
    others = {own.episode: other.episode for pairs in doubled.values() for own, other in pairs}
    records = list(records)
    begins: dict[str | None, float] = {}
    for record in records:
        if record.kind is SampleKind.TRANSITION and record.source in PROTOCOL_SOURCES:
            at = parse_time(record.ts)
            begins[record.episode] = min(at, begins.get(record.episode, at))
    found: list[Sample] = []
    for record in records:
        if record.episode not in others or record.source not in FILE_SOURCES:
            found.append(record)
        elif record.kind is SampleKind.CHANGE:
            found.append(replace(record, episode=others[record.episode]))
        elif record.to:
            episode = others[record.episode]
            is_drop = record.to == RebalanceStatus.DROPPED_GROUP
            is_earlier = parse_time(record.ts) < begins.get(episode, -inf) - _SAME_S
            own = None if is_drop and is_earlier else episode
            found.append(replace(record, kind=SampleKind.SIGNAL, episode=own))
    return found


def _read_rounds(ends: Iterable[Sample]) -> dict[GroupRef, list[_Round]]:
    """Return the generations of each group, in order, with members that logs alone have shown."""
    found: dict[GroupRef, list[tuple[int, _Sync]]] = defaultdict(list)
    others: set[tuple[GroupRef, MemberRef]] = set()
    for each in ends:
        if each.outcome is not Outcome.SYNCED:
            continue
        ref, member = GroupRef(each.cluster, each.group), member_of(each)
        if each.source not in FILE_SOURCES:
            others.add((ref, member))
        elif each.generation is not None and each.joined_ts:
            sync = _Sync(member, parse_time(each.ts), parse_time(each.joined_ts))
            found[ref].append((each.generation, sync))
    return {
        ref: _gather((number, each) for number, each in syncs if (ref, each.member) not in others)
        for ref, syncs in found.items()
    }


def _gather(syncs: Iterable[tuple[int, _Sync]]) -> list[_Round]:
    latest: dict[int, tuple[float, _Round]] = {}
    found: list[_Round] = []
    for number, sync in sorted(syncs, key=lambda each: each[1].at):
        began, round_ = latest.get(number, (float("-inf"), {}))
        if sync.at - began > _NEAR_S:
            round_ = {}
            latest[number] = sync.at, round_
            found.append(round_)
        round_.setdefault(sync.member, sync)
    return sorted(found, key=lambda round_: [*round_.values()][len(round_) // 2].at)


def _find_steps(
    ref: GroupRef, rounds: Sequence[_Round], records: Sequence[Sample], steps: _Steps
) -> list[Doubt]:
    """Add the steps of a group's members, and return what is in doubt at the end."""
    doubts: Mapping[MemberRef, _Candidate] = {}
    for _ in range(len(rounds) + 1):  # each one changes the comparison of all that follow
        proven, doubts = _read_in_order(rounds, steps)
        for member, doubt in proven.items():
            since = _begin(_list_marks(records, ref, member), doubt)
            seconds = doubt.known + doubt.seconds
            steps[member].append(
                ClockStep(
                    ref, member, since, seconds if abs(seconds) >= STEP_S else 0.0, doubt.other
                )
            )
        if not proven:
            break
    return [
        Doubt(each.first.at - each.known - LOOK_S, each.first.at + _PROOF_S)
        for each in doubts.values()
        if len(rounds) - each.round <= _PROOF_ROUNDS
    ]


def _read_in_order(
    rounds: Sequence[_Round], steps: _Steps
) -> tuple[dict[MemberRef, _Candidate], Mapping[MemberRef, _Candidate]]:
    """Return the first steps that are proven, if there are any, and what is in doubt by then."""
    doubts: dict[MemberRef, _Candidate] = {}
    last: dict[MemberRef, float] = {}
    for number, round_ in enumerate(rounds):
        for sync, seconds, is_proof in _compare(round_, steps):
            member, doubt = sync.member, doubts.pop(sync.member, None)
            if abs(seconds) >= STEP_S:
                if doubt is not None and _is_same(doubt, sync, seconds, number):
                    doubts[member] = doubt._replace(proofs=doubt.proofs + is_proof)
                elif is_proof:
                    known = _ahead(steps.get(member, ()), sync.at)
                    doubts[member] = _Candidate(sync, last.get(member), seconds, known, number, 1)
            last[member] = sync.at
        found = {m: doubts[m] for m in round_ if m in doubts and doubts[m].proofs >= _PROOFS}
        if proven := _choose(found, len(round_)):
            if len(round_) == _PAIR:
                proven = {m: d._replace(other=_other_of(m, round_)) for m, d in proven.items()}
            return proven, doubts
    return {}, doubts


def _other_of(member: MemberRef, round_: _Round) -> MemberRef:
    return next(each for each in round_ if each != member)


def _is_same(doubt: _Candidate, sync: _Sync, seconds: float, number: int) -> bool:
    is_near = sync.at - doubt.first.at <= _PROOF_S and number - doubt.round <= _PROOF_ROUNDS
    # a log whose clock was set back shows less of it until its times have caught up
    is_more = doubt.seconds < 0 and seconds < doubt.seconds
    return is_near and (is_more or abs(seconds - doubt.seconds) <= _SAME_S)


def _compare(round_: _Round, steps: _Steps) -> list[tuple[_Sync, float, bool]]:
    """Return the seconds of each sync behind those of the others, and whether that is a proof."""
    if len(round_) == 1:
        return []
    right = [
        (sync, sync.at - _ahead(own, sync.at), sync.joined_at - _ahead(own, sync.joined_at))
        for sync, own in ((each, steps.get(each.member, ())) for each in round_.values())
    ]
    ats = sorted(at for _, at, _ in right)
    if ats[-1] - ats[0] < STEP_S:
        return [(sync, 0.0, False) for sync, _, _ in right]
    joined = sorted(joined_at for _, _, joined_at in right)
    found = ((sync, _compare_one(at, joined_at, ats, joined)) for sync, at, joined_at in right)
    return [(sync, *compared) for sync, compared in found if compared is not None]


def _compare_one(
    at: float, joined_at: float, ats: Sequence[float], joined: Sequence[float]
) -> tuple[float, bool] | None:
    """Return a sync's seconds behind the others, and whether that is a proof; None: they differ."""
    others = list(ats)
    others.remove(at)
    most = len(others) // 2
    middle = (others[(len(others) - 1) // 2] + others[most]) / 2
    if bisect_right(others, middle + STEP_S) - bisect_left(others, middle - STEP_S) <= most:
        return None
    before = bisect_left(ats, joined_at - STEP_S)
    behind = len(joined) - bisect_right(joined, at + STEP_S)
    return at - middle, before + behind > most


def _choose(found: Mapping[MemberRef, _Candidate], members: int) -> dict[MemberRef, _Candidate]:
    """Return the members with another clock; of two that contradict each other the later one."""
    if 2 * len(found) <= members and members > _PAIR:
        return dict(found)
    return {member: doubt for member, doubt in found.items() if doubt.seconds > 0}


def _list_marks(records: Iterable[Sample], ref: GroupRef, member: MemberRef) -> list[_Mark]:
    return sorted(
        _Mark(parse_time(each.ts), is_end=_is_end(each))
        for each in records
        if each.kind not in _PERIODIC
        and each.source in FILE_SOURCES
        and GroupRef(each.cluster, each.group) == ref
        and member_of(each) == member
    )


def _is_end(record: Sample) -> bool:
    """Check for a change that a sync brings: an attribute, or partitions."""
    is_change = record.kind is SampleKind.CHANGE and record.field != "joined"
    return is_change and (record.field != "partitions" or bool(record.after))


def _begin(marks: Sequence[_Mark], doubt: _Candidate) -> float:
    """Return when the step of a clock was, by that clock: the time of the first moved record."""
    end = doubt.first.at
    look_s = max(LOOK_S + min(doubt.seconds, 0.0), _LEAST_LOOK_S)  # the others are that far ahead
    since = end - look_s if doubt.before is None else max(end - look_s, doubt.before)
    own = [mark for mark in marks if since < mark.at <= end]
    if doubt.seconds > 0:
        silences = pairwise([since, *(mark.at for mark in own)])
        return max(((after - before, after) for before, after in silences), default=(0.0, end))[1]
    return next((mark.at for mark in own if not mark.is_end), end)


def _move(record: Sample, steps: Mapping[GroupRef, _Steps]) -> Sample:
    of_group = steps.get(GroupRef(record.cluster, record.group))
    own = None if of_group is None else of_group.get(member_of(record))
    if not own or record.kind in _PERIODIC or record.source not in FILE_SOURCES:
        return record
    return replace(
        record,
        ts=_correct(record.ts, own),
        joined_ts=None if record.joined_ts is None else _correct(record.joined_ts, own),
    )


def _correct(ts: str, steps: Sequence[ClockStep]) -> str:
    at = parse_time(ts)
    ahead = _ahead(steps, at)
    return format_time(at - ahead) if ahead else ts


def _ahead(steps: Sequence[ClockStep], at: float) -> float:
    """Return the seconds that a clock is ahead at a time of its own."""
    index = bisect_right(steps, at, key=lambda step: step.since) - 1
    return 0.0 if index < 0 else steps[index].seconds


def ahead_at(steps: Sequence[ClockStep], at: float) -> float:
    """Return the seconds that a clock was ahead at a time of the others' clocks."""
    return next((step.seconds for step in reversed(steps) if step.at <= at), 0.0)
