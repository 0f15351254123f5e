"""Steps of one log's clock, corrected by the generations that all members share. Pure.

Theory of operation. A classic group's generation is one moment: each member sends its join before
the coordinator sends any assignment of that generation. A member that joined after the others had
synced, or synced before the others joined, has another clock. One that is slow to sync, or late to
join, contradicts nothing. A step of a clock (NTP, a virtual machine that resumes) lasts: several
generations show the same offset. Then the member's records are moved by it, from the step on. A
step forward lies in the longest silence before its first such sync. One back leaves no silence, as
times never run back within a log, so all that begins behind the last right sync is moved.

A follower's second join of a generation and the time of a second source prove nothing.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.segments import MemberRef, member_of
from metrics.model.sample import Outcome, Sample, SampleKind, Scope, format_time, parse_time
from metrics.tracking.source_traits import FILE_SOURCES

STEP_S = 3.0
"""Clocks of two hosts differ by less."""
_SAME_S = 1.0
"""Offsets of one clock differ by less: a member hears of an assignment within a poll."""
_PROOFS = 2
"""Generations that must show a step."""
_NEAR_S = 7200.0
"""A group that is made anew has the same numbers of generations later."""
_CLASSIC = "classic"
_PERIODIC = {SampleKind.SAMPLE, SampleKind.AGENT}
"""Records with the agent's time, not the log's."""


class ClockStep(NamedTuple):
    """One step of the clock of a member's log. ``at`` is Unix seconds, corrected."""

    ref: GroupRef
    member: MemberRef
    at: float
    seconds: float
    """Seconds that the clock is ahead of the others' from then on."""


class SteadyRecords(NamedTuple):
    """Records with one clock for all, as far as generations show it."""

    records: list[Sample]
    steps: list[ClockStep]


class _Sync(NamedTuple):
    """A member's first sync of a generation, by its own clock (Unix seconds)."""

    generation: int
    at: float
    joined_at: float


class _Offset(NamedTuple):
    """A member's sync beside those of the others."""

    sync: _Sync
    seconds: float
    is_proven: bool


class _Mark(NamedTuple):
    """A record of a member, by its own clock. ``at`` is Unix seconds."""

    at: float
    is_end: bool
    """It belongs to the sync before it."""


class _Generation(NamedTuple):
    """Syncs and joins of all members of one generation, each in order (Unix seconds)."""

    ats: list[float]
    joined: list[float]


_Syncs = Mapping[MemberRef, Sequence[_Sync]]


def correct_clock_steps(records: Sequence[Sample]) -> SteadyRecords:
    """Return the records with the times that they have by the clocks of most members."""
    by_group = _read_syncs(records)
    found: dict[tuple[GroupRef, MemberRef], list[tuple[float, float]]] = {}
    steps: list[ClockStep] = []
    for ref, syncs in by_group.items():
        generations = _gather(syncs) if len(syncs) > 1 else {}
        runs = {member: _find_steps(own, generations) for member, own in syncs.items()}
        for member, spans in _choose(syncs, runs).items():
            own = _list_marks(records, ref, member)
            starts = [(_begin(own, before, run), run[0].seconds) for before, run in spans]
            found[ref, member] = starts
            steps += [
                ClockStep(ref, member, at - seconds, seconds) for at, seconds in starts if seconds
            ]
    if not steps:
        return SteadyRecords(list(records), [])
    return SteadyRecords([_move(record, found) for record in records], steps)


def _read_syncs(records: Iterable[Sample]) -> dict[GroupRef, dict[MemberRef, list[_Sync]]]:
    """Return the syncs of members that logs alone have shown."""
    found: dict[GroupRef, dict[MemberRef, dict[int, _Sync]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    others: set[tuple[GroupRef, MemberRef]] = set()
    for each in records:
        if each.outcome is not Outcome.SYNCED or each.scope is not Scope.CONSUMER:
            continue
        ref, member = GroupRef(each.cluster, each.group), member_of(each)
        if each.source not in FILE_SOURCES:
            others.add((ref, member))
        elif each.generation is not None and each.joined_ts and each.group_type == _CLASSIC:
            sync = _Sync(each.generation, parse_time(each.ts), parse_time(each.joined_ts))
            found[ref][member].setdefault(each.generation, sync)
    return {
        ref: {
            member: sorted(syncs.values(), key=lambda sync: sync.at)
            for member, syncs in of_group.items()
            if (ref, member) not in others
        }
        for ref, of_group in found.items()
    }


def _gather(syncs: _Syncs) -> dict[int, _Generation]:
    found: dict[int, _Generation] = defaultdict(lambda: _Generation([], []))
    for sync in (each for own in syncs.values() for each in own):
        found[sync.generation].ats.append(sync.at)
        found[sync.generation].joined.append(sync.joined_at)
    for generation in found.values():
        generation.ats.sort()
        generation.joined.sort()
    return found


def _find_steps(
    syncs: Sequence[_Sync], generations: Mapping[int, _Generation]
) -> list[tuple[_Sync | None, list[_Offset]]]:
    """Return the runs of one offset, each with the sync before it; none if no run is a step."""
    found = (_compare(each, generations[each.generation]) for each in syncs if generations)
    offsets = [offset for offset in found if offset is not None]
    runs: list[list[_Offset]] = []
    for offset in offsets:
        if runs and abs(offset.seconds - runs[-1][0].seconds) <= _SAME_S:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    kept = [run for run in runs if abs(run[0].seconds) < STEP_S or _is_step(run)]
    if not any(_is_step(run) for run in kept):
        return []
    # a step before the first sync is no step in mid-run, but it is as wrong
    befores = [None, *(run[-1].sync for run in kept[:-1])]
    return [
        (before, run if _is_step(run) else [run[0]._replace(seconds=0.0)])
        for before, run in zip(befores, kept, strict=True)
    ]


def _is_step(run: Sequence[_Offset]) -> bool:
    return abs(run[0].seconds) >= STEP_S and sum(each.is_proven for each in run) >= _PROOFS


def _compare(sync: _Sync, generation: _Generation) -> _Offset | None:
    """Return a sync's offset from those of the same generation; None without any other."""
    ats, joined = generation.ats, generation.joined
    others = len(ats) - 1
    if not others or abs(sync.at - ats[len(ats) // 2]) > _NEAR_S:
        return None
    own = bisect_left(ats, sync.at)
    middle = [index + (index >= own) for index in ((others - 1) // 2, others // 2)]
    before = bisect_left(ats, sync.joined_at - STEP_S)
    behind = len(joined) - bisect_right(joined, sync.at + STEP_S)
    return _Offset(
        sync,
        sync.at - sum(ats[index] for index in middle) / 2,
        is_proven=2 * (before + behind) > others,
    )


def _choose(
    syncs: _Syncs, runs: Mapping[MemberRef, list[tuple[_Sync | None, list[_Offset]]]]
) -> dict[MemberRef, list[tuple[_Sync | None, list[_Offset]]]]:
    """Return the members with another clock; of two that contradict each other the later one."""
    found = {member: spans for member, spans in runs.items() if spans}
    if 2 * len(found) <= len(syncs) and len(syncs) > 2:
        return found
    return {
        member: spans
        for member, spans in found.items()
        if any(run[0].seconds > 0 for _, run in spans)
    }


def _list_marks(records: Iterable[Sample], ref: GroupRef, member: MemberRef) -> list[_Mark]:
    return sorted(
        _Mark(parse_time(each.ts), is_end=_is_end(each))
        for each in records
        if each.kind not in _PERIODIC
        and GroupRef(each.cluster, each.group) == ref
        and member_of(each) == member
    )


def _is_end(record: Sample) -> bool:
    """Check for a change that a sync brings: an attribute, or partitions."""
    is_change = record.kind is SampleKind.CHANGE and record.field != "joined"
    return is_change and (record.field != "partitions" or bool(record.after))


def _begin(marks: Sequence[_Mark], before: _Sync | None, run: Sequence[_Offset]) -> float:
    """Return when a run of one offset began, by the member's own clock."""
    first = run[0]
    if before is None:
        return marks[0].at
    start = bisect_right(marks, before.at, key=lambda mark: mark.at) - 1
    own = marks[start : bisect_right(marks, first.sync.at, key=lambda mark: mark.at)]
    if first.seconds > 0:
        silences = [(after.at - each.at, after.at) for each, after in pairwise(own)]
        return max(silences, default=(0.0, first.sync.at))[1]
    return next((mark.at for mark in own[1:] if not mark.is_end), first.sync.at)


def _move(
    record: Sample, found: Mapping[tuple[GroupRef, MemberRef], Sequence[tuple[float, float]]]
) -> Sample:
    key = GroupRef(record.cluster, record.group), member_of(record)
    starts = found.get(key)
    if starts is None or record.kind in _PERIODIC:
        return record
    return replace(
        record,
        ts=_correct(record.ts, starts),
        joined_ts=None if record.joined_ts is None else _correct(record.joined_ts, starts),
    )


def _correct(ts: str, starts: Sequence[tuple[float, float]]) -> str:
    at = parse_time(ts)
    index = bisect_right([since for since, _ in starts], at) - 1
    return ts if index < 0 or not starts[index][1] else format_time(at - starts[index][1])
