"""Findings of group inspection about a past rebalance: partitions moved, records behind. Pure.

A poll knows nothing of members' episodes, so its findings go by time, to the latest rebalance that
had begun by then and was not long over. Who came or went stands with the coordinator before the
others hear of it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from aggregation.rebalances.grouping import EPOCH_NOTICE_S, RebalanceSegments
from aggregation.rebalances.root_cause import Certainty, Trigger
from aggregation.rebalances.segments import MemberRef
from metrics.model.sample import Sample, SampleKind, Scope, parse_time
from metrics.model.status import RebalanceStatus

LATE_S = 60.0
"""A few polls: 10 s apart, and later where a cluster is large."""


class Finding(NamedTuple):
    """One finding. ``at`` is Unix seconds; what was not known is None."""

    at: float
    cluster: str
    moved: int | None
    lag: int | None
    member: MemberRef | None = None
    """The one member that had joined or left since the poll before."""
    joined: bool = False


def read_findings(records: Iterable[Sample]) -> dict[str, list[Finding]]:
    """Return the findings about each group."""
    found: dict[str, dict[str, Finding]] = defaultdict(dict)
    for each in records:
        if each.scope is Scope.GROUP and each.kind is SampleKind.SIGNAL:
            found[each.group][each.id] = _finding(each)
    return {group: list(by_id.values()) for group, by_id in found.items()}


def _finding(record: Sample) -> Finding:
    client_id = record.client_id
    return Finding(
        at=parse_time(record.ts),
        cluster=record.cluster,
        moved=record.gained,
        lag=record.lag,
        member=None if client_id is None else MemberRef(client_id, record.host),
        joined=record.to == RebalanceStatus.NEW_MEMBER,
    )


def infer_trigger(trigger: Trigger, findings: Sequence[Finding]) -> Trigger:
    """Return who began what nobody has seen: the only one that came or went meanwhile."""
    changed = [finding for finding in findings if finding.member is not None]
    if trigger.certainty is not Certainty.UNKNOWN or len(changed) != 1:
        return trigger
    joined = changed[0].joined
    return Trigger(
        certainty=Certainty.INFERRED,
        at=trigger.at,
        member=changed[0].member,
        code=RebalanceStatus.NEW_MEMBER if joined else None,
        reason="the coordinator has it as a new member"
        if joined
        else "the coordinator has it no more",
    )


def assign_findings(
    rounds: Iterable[RebalanceSegments], findings: Iterable[Finding]
) -> Iterator[tuple[Finding, ...]]:
    """Return, for each rebalance of one group, the findings that are of it and of no later one."""
    rounds = list(rounds)
    starts = sorted({each.started_at for each in rounds})
    by_start: dict[float, list[Finding]] = defaultdict(list)
    for finding in findings:
        early_s = 0.0 if finding.member is None else EPOCH_NOTICE_S
        before = bisect_right(starts, finding.at + early_s)
        if before:
            by_start[starts[before - 1]].append(finding)
    for each in rounds:
        until, cluster = each.ended_at + LATE_S, each.ref.cluster
        near = by_start.get(each.started_at, ())
        yield tuple(t for t in near if t.at < until and _same(t.cluster, cluster))


def _same(one: str, other: str) -> bool:
    """Tell whether two names may be of one cluster: not every source knows its name."""
    return one == other or not one or not other
