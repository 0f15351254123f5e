"""Joins without a sync: the process ended before it, or the sync was refused. Pure.

Theory of operation. The coordinator takes a member into a generation by its join, and all others
rebalance for it, whether it syncs or not. So such a member began a rebalance that nobody else
explains. The wire shows which generation answered the join. A log shows that the member asked, and
that no sync followed while the others had theirs.

Source: `GroupMetadataManager.classicGroupJoin` of Kafka 4.3; semantics.md section 6.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from aggregation.rebalances.grouping import NOTICE_S, GroupRef, RebalanceSegments
from aggregation.rebalances.segments import JOINED, MemberRef, is_unexplained, member_of
from metrics.model.sample import Outcome, Sample, parse_time
from metrics.tracking.source_traits import PROTOCOL_SOURCES


class Join(NamedTuple):
    """A member's request to join, in no rebalance that it knew of. ``at`` is Unix seconds."""

    at: float
    member: MemberRef
    agent: str
    generation: int | None
    """Of the answer; None: not seen."""


class Joins:
    """The joins of one group in the order of time, and when its members synced."""

    def __init__(
        self, joins: Iterable[Join] = (), syncs: Iterable[tuple[tuple[str, ...], float]] = ()
    ) -> None:
        self._joins = sorted(joins, key=lambda join: join.at)
        self._times = [join.at for join in self._joins]
        self._syncs: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for key, at in sorted(syncs, key=lambda sync: sync[1]):
            self._syncs[key].append(at)

    def list_unsynced(
        self, round_: RebalanceSegments, known: Collection[tuple[str, ...]]
    ) -> list[Join]:
        """Return the joins for a rebalance without a sync, of members that are not ``known``."""
        begin = bisect_left(self._times, round_.started_at - NOTICE_S)
        end = bisect_right(self._times, round_.ended_at)
        return [
            join
            for join in self._joins[begin:end]
            if join.member.key not in known and self._is_for(join, round_)
        ]

    def _is_for(self, join: Join, round_: RebalanceSegments) -> bool:
        if join.generation is not None:
            return join.generation in round_.generations
        syncs = self._syncs.get(join.member.key, [])
        index = bisect_left(syncs, join.at)
        return index == len(syncs) or syncs[index] > round_.ended_at + NOTICE_S


def read_joins(records: Iterable[Sample]) -> dict[GroupRef, Joins]:
    """Return the joins of each classic group."""
    joins: dict[GroupRef, list[Join]] = defaultdict(list)
    syncs: dict[GroupRef, list[tuple[tuple[str, ...], float]]] = defaultdict(list)
    for record in records:
        if record.group_type != "classic":
            continue
        ref = GroupRef(record.cluster, record.group)
        if record.field == JOINED and record.joined_ts and record.episode is None:
            is_answered = record.source in PROTOCOL_SOURCES
            generation = record.generation if is_answered else None
            at = parse_time(record.joined_ts)
            joins[ref].append(Join(at, member_of(record), record.agent, generation))
        elif record.outcome is Outcome.SYNCED or is_unexplained(record.reason):
            syncs[ref].append((member_of(record).key, parse_time(record.ts)))
    return {ref: Joins(found, syncs[ref]) for ref, found in joins.items()}
