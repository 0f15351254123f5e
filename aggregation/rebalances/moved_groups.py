"""Episodes in a broker's log that another agent has seen end: pure.

One broker at a time coordinates a group. If it stops in a rebalance, the next coordinator finishes
it. An agent that reads the first broker's log alone never sees that end: it drops the member as
stale after ten minutes. Another agent, beside the next coordinator or beside a client, has the end.

Source: semantics.md section 5 (`stale_after`); Kafka's GroupCoordinator loads a group with the
partition of ``__consumer_offsets`` that holds it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.lost_episodes import as_lost
from aggregation.rebalances.segments import MemberRef, member_of
from metrics.model.sample import Outcome, Sample, SampleKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import BROKER_SOURCES

_Episode = tuple[str, GroupRef, MemberRef, str | None]
"""Agent, group, member and name of an episode."""


class _SeenSync(NamedTuple):
    """An assignment that an agent has seen. ``ts`` is the record's time."""

    ts: str
    generation: int
    agent: str
    member: MemberRef


def end_moved_episodes(records: Sequence[Sample]) -> Sequence[Sample]:
    """Return the records, with an earlier end of each episode of a broker that others saw end.

    That is the first assignment of a later generation that another agent saw, and this one did not.
    A member that was dropped (5) is out of its group: its own assignment alone ends its episode.
    """
    syncs = _list_syncs(records)
    if not syncs:
        return records
    opened, lost = _list_unfinished(records, syncs)
    unseen: dict[tuple[GroupRef, str], Sequence[_SeenSync]] = {}
    ends: dict[_Episode, Sample] = {}
    for episode, record in opened.items():
        ref, agent = _group_of(record), record.agent
        if (ref, agent) not in unseen:
            unseen[ref, agent] = _list_unseen(syncs[ref], agent)
        sync = _find_next(record, unseen[ref, agent])
        if sync is not None and (episode not in lost or sync.ts < lost[episode].ts):
            ends[episode] = as_lost(record, sync.ts)
    late = {lost[episode].id for episode in ends if episode in lost}
    return [*(record for record in records if record.id not in late), *ends.values()]


def _group_of(record: Sample) -> GroupRef:
    return GroupRef(record.cluster, record.group)


def _list_syncs(records: Sequence[Sample]) -> Mapping[GroupRef, Sequence[_SeenSync]]:
    """Return the assignments of groups that a broker's log and another agent show, by time."""
    moves = [record for record in records if record.kind is SampleKind.TRANSITION]
    by_brokers = {_group_of(record) for record in moves if record.source in BROKER_SOURCES}
    found: dict[GroupRef, list[_SeenSync]] = defaultdict(list)
    agents: dict[GroupRef, set[str]] = defaultdict(set)
    for record in moves if by_brokers else ():
        ref = _group_of(record)
        if ref not in by_brokers:
            continue
        agents[ref].add(record.agent)
        if record.outcome is Outcome.SYNCED and record.generation is not None:
            sync = _SeenSync(record.ts, record.generation, record.agent, member_of(record))
            found[ref].append(sync)
    # by time alone: a member's instance id may be None, which has no order
    return {
        ref: sorted(syncs, key=attrgetter("ts"))
        for ref, syncs in found.items()
        if len(agents[ref]) > 1
    }


def _list_unfinished(
    records: Iterable[Sample], groups: Mapping[GroupRef, object]
) -> tuple[dict[_Episode, Sample], dict[_Episode, Sample]]:
    """Return the last transition of each episode without an end, and its ``lost`` if it has one."""
    opened: dict[_Episode, Sample] = {}
    lost: dict[_Episode, Sample] = {}
    ended: set[_Episode] = set()
    for record in records:
        ref = _group_of(record)
        if record.source not in BROKER_SOURCES or ref not in groups:
            continue
        episode = record.agent, ref, member_of(record), record.episode
        if record.kind is SampleKind.LOST:
            lost[episode] = record
        elif record.kind is SampleKind.TRANSITION and not record.to:
            ended.add(episode)
        elif record.kind is SampleKind.TRANSITION:
            before = opened.get(episode)
            if before is None or (before.ts, before.seq) < (record.ts, record.seq):
                opened[episode] = record
    return {key: record for key, record in opened.items() if key not in ended}, lost


def _list_unseen(syncs: Sequence[_SeenSync], agent: str) -> Sequence[_SeenSync]:
    """Return the assignments of generations that an agent did not see, by time."""
    own = {sync.generation for sync in syncs if sync.agent == agent}
    return [sync for sync in syncs if sync.generation not in own]


def _find_next(record: Sample, unseen: Sequence[_SeenSync]) -> _SeenSync | None:
    """Return the assignment that ends the episode of a member whose group has moved."""
    is_out, member = record.to == RebalanceStatus.DROPPED_GROUP, member_of(record)
    later = islice(unseen, bisect_right(unseen, record.ts, key=attrgetter("ts")), None)
    return next(
        (
            sync
            for sync in later
            if sync.generation > (record.generation or 0) and (not is_out or sync.member == member)
        ),
        None,
    )
