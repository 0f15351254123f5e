"""Episodes whose times cannot be right: pure.

A clock that was set, a line with a wrong date or a file that was edited can put one record of an
episode days away. Such an episode shows its cause, and not how long anything took. Its start or its
end is right: the one nearer to another member's record. The other one is taken at the time of the
members with the same generations, else at the same instant. A record between the two is taken at
the nearer one. Data quality of the report counts an episode that ends before it begins,
or a day after, as a gap.

Times are wrong where an episode ends before it begins, or lasts longer than `LONGEST_S`. They also
are where it lasts longer than `_LONG_S`, but its member had another whole episode meanwhile, or is
at 0 in a periodic sample.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from aggregation.rebalances.segments import member_of
from metrics.model.sample import Outcome, Sample, SampleKind, format_time, parse_time

LONGEST_S = 7 * 86_400.0
"""An episode that lasts longer has a wrong time: agents drop a status that nobody confirms."""
_LONG_S = 600.0
"""The default of ``stale_after``. What an agent reads late is younger than its samples."""
_NEAR_S = 60.0
"""In a rebalance each member moves within this time of another one."""
_Key = tuple[object, ...]


class _Whole(NamedTuple):
    """An episode with a start and an end."""

    begin: Sample
    end: Sample

    @property
    def seconds(self) -> float:
        return parse_time(self.end.ts) - parse_time(self.begin.ts)


class _Limits(NamedTuple):
    """The times between which the records of an episode can lie (RFC 3339)."""

    since: str
    until: str


def correct_wrong_times(records: Sequence[Sample]) -> Sequence[Sample]:
    """Return the records; those with a wrong time have the nearest one that can be right."""
    episodes = _find_whole(records)
    odd = {key: each for key, each in episodes.items() if not 0.0 <= each.seconds <= _LONG_S}
    wrong = {key: each for key, each in odd.items() if not 0.0 <= each.seconds <= LONGEST_S}
    long = {key: each for key, each in odd.items() if key not in wrong}
    wrong |= _find_contradicted(long, episodes, records)
    strayed = {
        key: _Limits(each.begin.ts, each.end.ts) for key, each in _strayed(episodes, records)
    }
    corrected = _find_times(wrong, records)
    if not strayed and not corrected:
        return records
    return [
        _place(record, corrected[key])
        if (key := _episode(record)) in corrected
        else _limit(record, strayed.get(key))
        for record in records
    ]


def _find_whole(records: Iterable[Sample]) -> dict[_Key, _Whole]:
    begins: dict[_Key, Sample] = {}
    ends: dict[_Key, Sample] = {}
    for record in records:
        if record.episode is not None and record.kind is SampleKind.TRANSITION:
            if record.from_ == 0 and record.to:
                begins[_episode(record)] = record
            elif record.to == 0 and record.from_:
                ends[_episode(record)] = record
    return {key: _Whole(begins[key], end) for key, end in ends.items() if key in begins}


def _find_contradicted(
    long: Mapping[_Key, _Whole], episodes: Mapping[_Key, _Whole], records: Iterable[Sample]
) -> dict[_Key, _Whole]:
    """Return the long episodes whose member was at 0 meanwhile."""
    if not long:
        return {}
    owners = {_owner(each.begin) for each in long.values()}
    synced: dict[_Key, list[_Whole]] = defaultdict(list)
    for each in episodes.values():
        if each.end.outcome is Outcome.SYNCED and _owner(each.begin) in owners:
            synced[_owner(each.begin)].append(each)
    at_0: dict[_Key, list[str]] = defaultdict(list)
    for record in records:
        if record.kind is SampleKind.SAMPLE and record.to == 0 and _owner(record) in owners:
            at_0[*_owner(record), record.member_id].append(record.ts)
    return {
        key: each
        for key, each in long.items()
        if _has_inner(each, synced[_owner(each.begin)]) or _is_at_0(each, at_0)
    }


def _has_inner(outer: _Whole, others: Iterable[_Whole]) -> bool:
    """Check for another episode of the same member within; one that is dropped is no member."""
    return outer.end.outcome is Outcome.SYNCED and any(
        outer.begin.ts < each.begin.ts and each.end.ts < outer.end.ts for each in others
    )


def _is_at_0(long: _Whole, at_0: Mapping[_Key, Sequence[str]]) -> bool:
    since = format_time(parse_time(long.begin.ts) + _LONG_S)
    member_ids = {long.begin.member_id, long.end.member_id}
    owner = _owner(long.begin)
    return any(
        since <= ts < long.end.ts for id_ in member_ids for ts in at_0.get((*owner, id_), ())
    )


def _strayed(
    episodes: Mapping[_Key, _Whole], records: Iterable[Sample]
) -> Iterable[tuple[_Key, _Whole]]:
    """Return each episode with a record outside of its start and end."""
    for record in records:
        if record.kind is SampleKind.TRANSITION and record.from_ and record.to:
            whole = episodes.get(_episode(record))
            if whole is not None and not whole.begin.ts <= record.ts <= whole.end.ts:
                yield _episode(record), whole


def _find_times(wrong: Mapping[_Key, _Whole], records: Iterable[Sample]) -> dict[_Key, _Limits]:
    """Return the times of each wrong episode, from its start or its end: others moved there."""
    if not wrong:
        return {}
    moves: dict[_Key, list[Sample]] = defaultdict(list)
    for record in records:
        if record.kind is SampleKind.TRANSITION and _episode(record) not in wrong:
            moves[record.cluster, record.group].append(record)
    for of_group in moves.values():
        of_group.sort(key=_time)
    found: dict[_Key, _Limits] = {}
    for key, (begin, end) in wrong.items():
        of_group = moves[begin.cluster, begin.group]
        is_begin = _distance(begin, of_group) <= _distance(end, of_group)
        found[key] = (
            _Limits(begin.ts, _find_sync(begin, end, of_group))
            if is_begin
            else _Limits(_find_start(begin, end, of_group), end.ts)
        )
    return found


def _find_start(begin: Sample, end: Sample, moves: Sequence[Sample]) -> str:
    """Return when others left the generation of an episode; its end, if they did not."""
    since = format_time(parse_time(end.ts) - _LONG_S)
    first = bisect_left(moves, since, key=_time)
    last = bisect_right(moves, end.ts, key=_time)
    same = (
        move.ts
        for move in islice(moves, first, last)
        if move.from_ == 0 and move.generation == begin.generation
    )
    return next(same, end.ts)


def _find_sync(begin: Sample, end: Sample, moves: Sequence[Sample]) -> str:
    """Return when others got the assignment of an episode; its start, if they did not."""
    until = format_time(parse_time(begin.ts) + _LONG_S)
    first = bisect_left(moves, begin.ts, key=_time)
    last = bisect_right(moves, until, key=_time)
    same = (
        move.ts
        for move in islice(moves, first, last)
        if move.outcome is Outcome.SYNCED and move.generation == end.generation
    )
    return next(same, begin.ts)


def _distance(record: Sample, moves: Sequence[Sample]) -> tuple[bool, float]:
    """Return the seconds to the nearest move of another member; one of its generation is nearer."""
    at, own = parse_time(record.ts), member_of(record)
    first = bisect_left(moves, format_time(at - _NEAR_S), key=_time)
    last = bisect_right(moves, format_time(at + _NEAR_S), key=_time)
    near = (move for move in islice(moves, first, last) if member_of(move) != own)
    others = (
        (move.generation != record.generation, abs(parse_time(move.ts) - at)) for move in near
    )
    return min(others, default=(True, float("inf")))


def _time(record: Sample) -> str:
    return record.ts


def _place(record: Sample, times: _Limits) -> Sample:
    """Return a record of a wrong episode at its start, or at its end."""
    return replace(record, ts=times.since if record.to else times.until, joined_ts=None)


def _limit(record: Sample, limits: _Limits | None) -> Sample:
    if limits is None or record.episode is None:
        return record
    return replace(record, ts=min(max(record.ts, limits.since), limits.until))


def _episode(record: Sample) -> _Key:
    return record.cluster, record.group, record.scope, record.client_id, record.episode


def _owner(record: Sample) -> _Key:
    return record.cluster, record.group, record.scope, record.agent, member_of(record)
