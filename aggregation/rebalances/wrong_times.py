"""Episodes whose times cannot be right: pure.

A clock that was set, a line with a wrong date or a file that was edited can put one record of an
episode days away. Such an episode shows its cause, and not how long anything took. So its records
are all taken at one instant: its start or its end, the one nearer to another member's record. A
record between the two is taken at the nearer one. Data quality of the report counts an episode that
ends before it begins, or a week after, as a gap.

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
    limits = {key: _Limits(each.begin.ts, each.end.ts) for key, each in _strayed(episodes, records)}
    limits |= _instants(wrong, records)
    if not limits:
        return records
    return [_limit(record, limits.get(_episode(record))) for record in records]


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


def _instants(wrong: Mapping[_Key, _Whole], records: Iterable[Sample]) -> dict[_Key, _Limits]:
    """Return the one time of each wrong episode: its start, or its end if others moved there."""
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
        place = min((begin, end), key=lambda record: _distance(record, of_group))
        found[key] = _Limits(place.ts, place.ts)
    return found


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


def _limit(record: Sample, limits: _Limits | None) -> Sample:
    if limits is None or record.episode is None:
        return record
    is_instant = limits.since == limits.until
    return replace(
        record,
        ts=min(max(record.ts, limits.since), limits.until),
        joined_ts=None if is_instant else record.joined_ts,
    )


def _episode(record: Sample) -> _Key:
    return record.cluster, record.group, record.scope, record.client_id, record.episode


def _owner(record: Sample) -> _Key:
    return record.cluster, record.group, record.scope, record.agent, member_of(record)
