"""Rebalances of whole groups that are over: each counted once, and recorded.

Theory of operation. A rebalance is over when nobody is in it and for `SETTLE_S` nothing was added:
other agents' records arrive late, and a member that is missing may still speak. Per group there is
a watermark, the latest start of what was counted: what began no later is not counted again, unless
it was seen under way when the watermark passed it. That can turn out to be part of one that was
counted meanwhile; so the first pieces of those are remembered while any is under way.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from aggregation.rebalances.grouping import GroupRef, RebalanceSegments
from aggregation.rebalances.known_records import Watermark
from aggregation.rebalances.rebalances import ExplainedRebalance, explain_rebalances
from aggregation.rebalances.silences import Silences
from metrics.model.sample import (
    EpisodeRecord,
    Sample,
    SampleKind,
    Scope,
    digest,
    format_time,
    parse_time,
)
from metrics.model.snapshot import (
    DURATION_BUCKETS_S,
    Durations,
    RebalanceKey,
    Rebalances,
)
from metrics.model.status import RebalanceStatus

SETTLE_S = 30.0
UNKNOWN = "Unknown"
"""The ``status`` of a rebalance whose trigger nobody saw."""
_NONE = Rebalances(durations=Durations((0,) * (len(DURATION_BUCKETS_S) + 1), 0.0))


_FirstPiece = tuple[float, tuple[str, ...]]
"""When it began, and whose it is."""


@dataclass(slots=True)
class _Mark:
    """How far a group is counted."""

    to: float = float("-inf")
    under_way: set[float] = field(default_factory=set)
    """Starts of what began no later, and was not over."""
    beside: set[_FirstPiece] = field(default_factory=set)
    """What was counted while something was under way."""

    def is_new(self, round_: RebalanceSegments) -> bool:
        """Tell whether it is not counted, nor is a part of it."""
        if round_.started_at > self.to:
            return True
        return round_.started_at in self.under_way and self.beside.isdisjoint(
            _first_segments(round_)
        )


class CompletedRebalances:
    """The totals of all groups, and how far each is counted."""

    def __init__(self, limit: int) -> None:
        """``limit`` groups are kept; the longest quiet goes first."""
        self._limit = limit
        self._totals: dict[GroupRef, dict[str, Rebalances]] = {}
        self._marks: dict[GroupRef, _Mark] = defaultdict(_Mark)
        self._under_way: dict[GroupRef, set[float]] = {}

    def find_completed(
        self,
        records: Sequence[Sample],
        now: float,
        told_to: Watermark | None = None,
        silences: Silences | None = None,
    ) -> list[ExplainedRebalance]:
        """Return what is over by now (Unix seconds) in the records of some groups; counts nothing.

        Without ``told_to`` all agents have told everything. ``silences`` are theirs. Takes a while:
        call it in a thread of its own.
        """
        found: list[ExplainedRebalance] = []
        under_way = defaultdict[GroupRef, set[float]](set)
        for each in explain_rebalances(records, told_to or (lambda _: now), silences=silences):
            round_ = each.round
            if each.is_end:
                continue  # the last member left: nobody rebalanced
            is_over = not round_.is_open and round_.ended_at + SETTLE_S <= now
            if round_.ref in self._marks and not self._marks[round_.ref].is_new(round_):
                continue
            if is_over:
                found.append(each)
            else:
                under_way[round_.ref].add(round_.started_at)
        self._under_way = under_way
        return found

    def skip(self, records: Iterable[Sample]) -> None:
        """Take what an earlier run has counted: it has recorded each."""
        for each in records:
            if each.kind is SampleKind.EPISODE:
                mark = self._marks[GroupRef(each.cluster, each.group)]
                mark.to = max(mark.to, parse_time(each.ts))

    def count(self, found: Sequence[ExplainedRebalance]) -> None:
        """Count what is over, of what `over` was asked last."""
        for episode in found:
            self._count(episode)
        for ref in {each.round.ref for each in found} & self._marks.keys():
            mark = self._marks[ref]
            mark.under_way = self._under_way.get(ref, set())
            if not mark.under_way:
                mark.beside.clear()

    def totals(self) -> dict[RebalanceKey, Rebalances]:
        """Return the counts that exporters show."""
        return {
            RebalanceKey(ref.cluster, ref.group, status): total
            for ref, totals in self._totals.items()
            for status, total in totals.items()
        }

    def _count(self, episode: ExplainedRebalance) -> None:
        ref = episode.round.ref
        totals = self._totals[ref] = self._totals.pop(ref, {})  # the newest is last
        status = _status(episode)
        totals[status] = _add(totals.get(status, _NONE).durations, episode)
        mark = self._marks[ref]
        mark.to = max(mark.to, episode.round.started_at)
        mark.beside.add(min(_first_segments(episode.round)))
        while len(self._totals) > self._limit:
            oldest = next(iter(self._totals))
            del self._totals[oldest]
            self._marks.pop(oldest, None)


def _first_segments(round_: RebalanceSegments) -> set[_FirstPiece]:
    return {(piece.started_at, piece.member.key) for piece in round_.consumers}


def _status(episode: ExplainedRebalance) -> str:
    code = episode.trigger.code
    return UNKNOWN if code is None else code.label


def _add(before: Durations, last: ExplainedRebalance) -> Rebalances:
    """Return the totals with one more; of it only figures are kept, as it holds its records."""
    buckets = list(before.buckets)
    buckets[bisect_left(DURATION_BUCKETS_S, last.seconds)] += 1
    slowest = max(last.round.consumers, key=lambda piece: piece.ended_at - piece.started_at)
    return Rebalances(
        durations=Durations(tuple(buckets), before.sum_s + last.seconds),
        last_id=last.round.id,
        last_s=last.seconds,
        last_at=last.round.ended_at,
        last_member_s=slowest.ended_at - slowest.started_at,
        last_member_at=slowest.ended_at,
    )


def record(episode: ExplainedRebalance) -> EpisodeRecord:
    """Return an episode as a record of the schema; its id is of the episode alone."""
    round_, trigger, slow = episode.round, episode.trigger, episode.straggler
    member = trigger.member
    code = RebalanceStatus.NONE if trigger.code is None else trigger.code
    return EpisodeRecord(
        id=digest(Scope.GROUP, *round_.ref, SampleKind.EPISODE, round_.id),
        kind=SampleKind.EPISODE,
        ts=format_time(round_.started_at),
        cluster=round_.ref.cluster,
        app=round_.app,
        group=round_.ref.group,
        group_type=round_.group_type,
        scope=Scope.GROUP,
        client_id=None if member is None else member.client_id,
        group_instance_id=None if member is None else member.group_instance_id,
        host="" if member is None else member.host,
        to=code.value,
        peak=episode.highest.value,
        status=None if trigger.code is None else code.label,
        reason=trigger.reason if trigger.missing is None else trigger.missing,
        generation=max(round_.generations, default=None),
        episode=round_.id,
        source="episodes",
        ended_ts=format_time(round_.ended_at),
        seconds=round(episode.seconds, 6),
        member_seconds=round(episode.member_seconds, 6),
        partitions_moved=episode.partitions_moved,
        lag=episode.lag,
        certainty=trigger.certainty.value,
        straggler=None if slow is None else slow.member.client_id,
        waited_seconds=None if slow is None else round(slow.waited_s, 6),
        departures=[f"{each.member.client_id}: {each.kind}" for each in episode.departures],
        caused_by=episode.caused_by,
        members=len({piece.member for piece in round_.consumers}),
    )
