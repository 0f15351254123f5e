"""What inspection has found of a rebalance after the fact: partitions moved, records behind. Pure.

A poll knows nothing of members' episodes, so its findings go by time, to the latest rebalance that
had begun by then and was not long over.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aggregation.rounds import Round
from metrics.sample import Sample, SampleKind, Scope, parse_time

LATE_S = 60.0
"""A few polls: 10 s apart, and later where a cluster is large."""


class Toll(NamedTuple):
    """One finding. ``at`` is Unix seconds; what was not known is None."""

    at: float
    cluster: str
    moved: int | None
    lag: int | None


def tolls(records: Iterable[Sample]) -> dict[str, list[Toll]]:
    """Return the findings about each group."""
    found: dict[str, dict[str, Toll]] = defaultdict(dict)
    for each in records:
        if each.scope is Scope.GROUP and each.kind is SampleKind.SIGNAL:
            toll = Toll(parse_time(each.ts), each.cluster, each.gained, each.lag)
            found[each.group][each.id] = toll
    return {group: list(by_id.values()) for group, by_id in found.items()}


def of_round(made: Round, others: Iterable[Round], told: Sequence[Toll]) -> tuple[Toll, ...]:
    """Return the findings that are of one rebalance and not of a later one of its group."""
    later = [each.started_at for each in others if each.started_at > made.started_at]
    until = min([made.ended_at + LATE_S, *later])
    return tuple(
        toll
        for toll in told
        if made.started_at <= toll.at < until and _same(toll.cluster, made.ref.cluster)
    )


def _same(one: str, other: str) -> bool:
    """Tell whether two names may be of one cluster: not every source knows its name."""
    return one == other or not one or not other
