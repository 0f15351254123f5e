"""The rebalances of one group, day by day: pure.

Theory of operation. A rebalance is *over* when its group has been quiet for longer than any rule of
`aggregation.rebalances.grouping` looks back. It is counted with the day on which it is over. From
day to day the group carries the records of open rebalances, of rebalancing members, of the last
hour (for causes) and of the last two rebalances (for present members). So the functions for a whole
history explain a day too, and a day costs only its own events. Older records are dropped. A member
that returns after a longer absence is new, and a scale-down depends on the members shortly after.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import takewhile

import msgspec

from aggregation.rebalances.grouping import SKEW_S
from aggregation.rebalances.rebalances import RETURN_S, ExplainedRebalance, explain_rebalances
from aggregation.spark.tables.period import ends_at
from metrics.model.sample import Sample, SampleKind, Scope, format_time

QUIET_S = SKEW_S + 60.0
"""An event that begins this long after a rebalance does not belong to it."""
OPEN_S = 3600.0
"""An open rebalance without a record for this long is counted without its end."""
CARRY_S = 7 * 86_400.0
"""If a member's episode is open for longer, its next record counts as a start."""
_ROUNDS_KEPT = 2


class Carried(msgspec.Struct, frozen=True):
    """State that a day passes to the next day."""

    records: tuple[Sample, ...] = ()
    counted_to: float = float("-inf")
    """Start of the last counted rebalance, and its id, since several can begin at once."""
    counted_id: str = "~"  # sorts behind every id: older state had counted all of that instant

    def encode(self) -> bytes:
        """Encode the state."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, written: bytes | None) -> "Carried":
        """Decode the output of `encode`; None means a new group."""
        return cls() if written is None else msgspec.msgpack.decode(written, type=cls)


class GroupDays:
    """The history of one group, advanced day by day."""

    def __init__(self, carried: Carried) -> None:
        """Start from the state of the day before."""
        self.carried = carried
        self.pending: Sequence[ExplainedRebalance] = ()
        """Rebalances that are not over yet, in their present form."""

    def day(
        self, day: date, events: Iterable[Sample], last_seen: Mapping[str, str]
    ) -> Sequence[ExplainedRebalance]:
        """Return the rebalances that are over by the end of a day.

        ``last_seen`` has the time of each agent's last record by then (RFC 3339).
        """
        records = [*self.carried.records, *events]
        made = sorted(explain_records(records, last_seen), key=_order)
        counted = self.carried.counted_to, self.carried.counted_id
        new = [each for each in made if _order(each) > counted]
        midnight = ends_at(day)
        over = list(takewhile(lambda each: _over_at(each) <= midnight, new))
        self.pending = new[len(over) :]
        before = made[: len(made) - len(self.pending)][-_ROUNDS_KEPT:]
        starts = [each.round.started_at for each in [*before, *self.pending[:1]]]
        kept = _retain(records, _cut(made, min([midnight - RETURN_S, *starts])), midnight)
        self.carried = Carried(tuple(kept), *(_order(over[-1]) if over else counted))
        return over


def explain_records(
    records: Iterable[Sample], last_seen: Mapping[str, str]
) -> list[ExplainedRebalance]:
    """Return the rebalances of one group; its records may come in any order.

    ``last_seen`` has the time of each agent's last record (RFC 3339).
    """
    in_order = sorted(records, key=_place)
    agents = {record.agent for record in in_order}
    alive = [_presence_record(agent, last_seen[agent]) for agent in agents if agent in last_seen]
    return explain_rebalances([*in_order, *alive])


def _order(episode: ExplainedRebalance) -> tuple[float, str]:
    return episode.round.started_at, episode.round.id


def _over_at(episode: ExplainedRebalance) -> float:
    made = episode.round
    return made.ended_at + (OPEN_S if made.is_open else QUIET_S)


def _cut(made: Sequence[ExplainedRebalance], since: float) -> float:
    """Return the latest time before ``since`` that cuts no rebalance; rebalances can overlap."""
    for each in sorted(made, key=lambda each: each.round.ended_at, reverse=True):
        if each.round.ended_at < since:
            break
        since = min(since, each.round.started_at)
    return since


def _retain(records: Sequence[Sample], since: float, midnight: float) -> list[Sample]:
    """Return the records since a time, whole episodes, and episodes that are still open."""
    cut = format_time(since)
    latest: dict[str | None, Sample] = {}
    for record in sorted(records, key=lambda record: (record.ts, record.seq)):
        if record.kind is not SampleKind.SIGNAL:
            latest[record.episode] = record
    long_ago = format_time(midnight - CARRY_S)
    whole = {
        episode
        for episode, last in latest.items()
        if last.ts >= cut or (last.to and last.ts >= long_ago)
    }
    kept = (record for record in records if record.ts >= cut or record.episode in whole)
    return sorted(kept, key=_place)


def _place(record: Sample) -> tuple[str, str]:
    return record.ts, record.id


def _presence_record(agent: str, ts: str) -> Sample:
    return Sample(
        id=agent,
        kind=SampleKind.SAMPLE,
        ts=ts,
        agent=agent,
        cluster="",
        app="",
        group="",
        scope=Scope.CONSUMER,
        source="",
    )


def last_seen_by(day: date, last_seen: Mapping[str, Sequence[tuple[date, str]]]) -> dict[str, str]:
    """Return the time of each agent's last record by the end of a day."""
    found: dict[str, str] = {}
    for agent, days in last_seen.items():
        known = [ts for seen, ts in days if seen <= day]
        if known:
            found[agent] = max(known)
    return found


def day_after(day: date) -> date:
    """Return the batch of rebalances that are not over on the last day."""
    return day + timedelta(days=1)
