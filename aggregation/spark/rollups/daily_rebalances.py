"""One group's rebalances, day after day: pure.

Theory of operation. A rebalance is *over* when its group has been quiet for longer than any rule of
`aggregation.rebalances.grouping` looks back; it is counted with the day on which that is so. From
day to day the group carries the records of what is not over, of members under way, of the last hour
(who caused what) and of the last two rebalances (who is there): so a day is explained by the same
functions as a whole history, and costs what happened on it. What it forgets is older: a member that
was gone for longer and comes back is new, and a scale-down is told by who is there soon after.
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
"""Nothing that begins this long after it belongs to a rebalance."""
OPEN_S = 3600.0
"""A rebalance whose end was not seen for so long is counted as it is."""
CARRY_S = 7 * 86_400.0
"""A member that is under way for longer has its next record taken for a start."""
_ROUNDS_KEPT = 2


class Carried(msgspec.Struct, frozen=True):
    """What a day leaves to the next one."""

    records: tuple[Sample, ...] = ()
    counted_to: float = float("-inf")
    """When the last one that is counted began, and its id: several may begin at once."""
    counted_id: str = "~"  # behind every id: what wrote none had counted all that began then

    def encode(self) -> bytes:
        """Write it."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, written: bytes | None) -> "Carried":
        """Read what `encode` wrote; None is a group that is new."""
        return cls() if written is None else msgspec.msgpack.decode(written, type=cls)


class GroupDays:
    """Follows one group from day to day."""

    def __init__(self, carried: Carried) -> None:
        """Begin with what the day before has left."""
        self.carried = carried
        self.pending: Sequence[ExplainedRebalance] = ()
        """What is not over yet, as it looks so far."""

    def day(
        self, day: date, events: Iterable[Sample], last_seen: Mapping[str, str]
    ) -> Sequence[ExplainedRebalance]:
        """Return what is over by the end of a day.

        ``told`` are the agents and when each was last heard of (RFC 3339) by then.
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


def explain_records(records: Iterable[Sample], last_seen: Mapping[str, str]) -> list[ExplainedRebalance]:
    """Return the rebalances of one group, whatever order its records come in.

    ``told`` are the agents and when each was last heard of (RFC 3339).
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
    """Return a time as early that nothing is cut in two: rebalances of a group can overlap."""
    for each in sorted(made, key=lambda each: each.round.ended_at, reverse=True):
        if each.round.ended_at < since:
            break
        since = min(since, each.round.started_at)
    return since


def _retain(records: Sequence[Sample], since: float, midnight: float) -> list[Sample]:
    """Return the records from a time on, whole episodes, and members that are still under way."""
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
    """Return when each agent was last heard of by the end of a day."""
    found: dict[str, str] = {}
    for agent, days in last_seen.items():
        known = [ts for seen, ts in days if seen <= day]
        if known:
            found[agent] = max(known)
    return found


def day_after(day: date) -> date:
    """Return the batch of what is not over on the last day."""
    return day + timedelta(days=1)
