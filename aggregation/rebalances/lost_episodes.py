"""Episodes without an end that their agent cannot report any more: pure.

An agent that lives ends each episode, as `lost` after `stale_after` at the latest. A pod that is
killed takes its agent with it, a full disk or a new ``state_dir`` its records. Without an end, the
rebalance would go on for ever. So these episodes end here as the agent would have ended them.

Source: semantics.md section 5 (`stale_after`).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from aggregation.rebalances.clock_steps import Doubt
from aggregation.rebalances.segments import MemberRef, member_of
from metrics.model.sample import Outcome, Sample, SampleKind, Scope, digest, format_time, parse_time

STALE_S = 600.0
"""The default of ``stale_after``: an agent that is silent for longer is gone."""
_MOVES = {SampleKind.TRANSITION, SampleKind.LOST}
_Owner = tuple[str, str, Scope, str, MemberRef]
"""Cluster, group, scope, agent and name of a member."""
BACK_S = 86_400.0
"""An agent that is back within this time shows how its open episodes ended."""


class EndedEpisodes(NamedTuple):
    """Records in which no episode is open that nobody ends."""

    records: Sequence[Sample]
    doubts: list[Doubt]
    """Episodes that only the silence of their agents has ended."""


def end_lost_episodes(
    records: Sequence[Sample], heard: Mapping[str, float], now: float
) -> EndedEpisodes:
    """Return the records, and a ``lost`` for each episode that nobody ends.

    If its member begins another one later, which it can only do at 0, or if the last periodic
    sample has it at 0, it ends with the next sync of its group, or when it was stale. Otherwise it
    ends with its agent's last sign of life in ``heard`` (Unix seconds), if that is `STALE_S` before
    ``now``.
    """
    open_ones = find_open(records)
    if not open_ones:
        return EndedEpisodes(records, [])
    owners = {_owner(record) for record in open_ones}
    starts, shown = _last_starts(records, owners), _last_samples(records, owners)
    syncs = _syncs(records)
    ends: list[Sample] = []
    presumed: list[Sample] = []
    for record in open_ones:
        owner = _owner(record)
        after = starts.get(owner)
        is_followed = after is not None and _is_followed(record, after)
        if is_followed or _is_at_zero(record, shown.get(owner)):
            of_group = syncs[record.cluster, record.group]
            index = bisect_left(of_group, record.ts)
            known = [*of_group[index : index + 1], *([after.ts] if after and is_followed else [])]
            stale = format_time(parse_time(record.ts) + STALE_S)
            ends.append(as_lost(record, min([*known, stale])))
        elif (at := _gone_at(record, heard, now)) is not None:
            ends.append(as_lost(record, format_time(at)))
            presumed.append(record)
    return EndedEpisodes([*records, *ends], _doubt(presumed, records))


def _doubt(presumed: Sequence[Sample], records: Iterable[Sample]) -> list[Doubt]:
    """Return from when on the agents of open episodes may change what is known, and until when."""
    until = {_episode(record): parse_time(record.ts) + BACK_S for record in presumed}
    since: dict[tuple[object, ...], str] = {}
    for record in records if presumed else ():
        if record.kind in _MOVES and (episode := _episode(record)) in until:
            since[episode] = min(record.ts, since.get(episode, record.ts))
    return [Doubt(parse_time(ts), until[episode]) for episode, ts in since.items()]


def find_open(records: Iterable[Sample]) -> list[Sample]:
    """Return the last transition of each episode without an end."""
    return [record for record in _last_moves(records).values() if _is_open(record)]


def _episode(record: Sample) -> tuple[object, ...]:
    return record.cluster, record.group, record.scope, record.client_id, record.episode


def _last_moves(records: Iterable[Sample]) -> dict[tuple[object, ...], Sample]:
    last: dict[tuple[object, ...], Sample] = {}
    place = attrgetter("ts", "seq")
    for record in records:
        if record.episode is None or record.kind not in _MOVES:
            continue
        episode = _episode(record)
        before = last.get(episode)
        # at one instant the fall to 0 comes last
        if before is None or (not record.to, *place(record)) >= (not before.to, *place(before)):
            last[episode] = record
    return last


def _is_open(record: Sample) -> bool:
    return record.kind is SampleKind.TRANSITION and bool(record.to)


def _owner(record: Sample) -> _Owner:
    return record.cluster, record.group, record.scope, record.agent, member_of(record)


def _last_starts(records: Iterable[Sample], owners: set[_Owner]) -> dict[_Owner, Sample]:
    found: dict[_Owner, Sample] = {}
    for record in records:
        if record.kind is SampleKind.TRANSITION and record.from_ == 0:
            owner = _owner(record)
            if owner in owners and (owner not in found or found[owner].ts < record.ts):
                found[owner] = record
    return found


def _last_samples(records: Iterable[Sample], owners: set[_Owner]) -> dict[_Owner, Sample]:
    found: dict[_Owner, Sample] = {}
    for record in records:
        if record.kind is SampleKind.SAMPLE and record.client_id is not None:
            owner = _owner(record)
            if owner in owners and (owner not in found or found[owner].ts < record.ts):
                found[owner] = record
    return found


def _syncs(records: Iterable[Sample]) -> Mapping[tuple[str, str], Sequence[str]]:
    """Return the times at which members of each group got an assignment, in order."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for record in records:
        if record.outcome is Outcome.SYNCED:
            found[record.cluster, record.group].append(record.ts)
    for times in found.values():
        times.sort()
    return found


def _is_followed(record: Sample, start: Sample) -> bool:
    """Check that a member's later start shows that its open episode is over."""
    if start.episode == record.episode or start.ts <= record.ts:
        return False
    # a process that died may be at its status while its successor begins
    is_same = record.member_id == start.member_id
    return is_same or parse_time(start.ts) - parse_time(record.ts) >= STALE_S


def _is_at_zero(record: Sample, sample: Sample | None) -> bool:
    """Check that an agent has the member at 0 long after its episode's last record."""
    if sample is None or sample.to != 0:
        return False
    return parse_time(sample.ts) - parse_time(record.ts) >= STALE_S


def _gone_at(record: Sample, heard: Mapping[str, float], now: float) -> float | None:
    at = max(parse_time(record.ts), heard.get(record.agent, now))
    return at if now - at >= STALE_S else None


def as_lost(record: Sample, ts: str) -> Sample:
    """Return the ``lost`` at ``ts`` that follows a member's last transition."""
    return replace(
        record,
        id=digest(record.id, SampleKind.LOST),
        kind=SampleKind.LOST,
        ts=ts,
        seq=record.seq + 1,
        from_=record.to,
        to=None,
    )
