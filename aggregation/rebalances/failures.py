"""Joins and syncs that failed by an error: evidence for the join that follows. Pure.

A failed sync ends a member's episode and sets no code. Its next join is no new member's, whatever
its member id, and needs no other cause.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from aggregation.rebalances.grouping import GroupRef, RebalanceSegments
from aggregation.rebalances.root_cause import Certainty, Trigger
from aggregation.rebalances.segments import member_of
from metrics.model.sample import Outcome, Sample, Scope, parse_time
from metrics.tracking.source_traits import BROKER_SOURCES

AGAIN_S = 10.0
"""A client joins again after its retry.backoff.ms, which is far shorter, or its session's end."""
CLOCKS_S = 1.0
"""The member and those that rebalance because of it may have clocks that differ by so much."""
_ERROR = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b|\w+Exception")


class JoinFailure(NamedTuple):
    """One failed join or sync. ``at`` is Unix seconds."""

    at: float
    reason: str


Failures = dict[tuple[str, ...], list[JoinFailure]]
"""By member."""


def read_failures(records: Iterable[Sample]) -> dict[GroupRef, Failures]:
    """Return the failed joins and syncs of each group."""
    found: dict[GroupRef, Failures] = defaultdict(lambda: defaultdict(list))
    for each in records:
        if each.outcome is not Outcome.FAILED or not each.reason:
            continue
        if each.scope is Scope.CONSUMER and each.source not in BROKER_SOURCES:
            failure = JoinFailure(parse_time(each.ts), each.reason)
            found[GroupRef(each.cluster, each.group)][member_of(each).key].append(failure)
    return found


def find_rejoin(round_: RebalanceSegments, failures: Failures) -> Trigger | None:
    """Return the join after a failure that began a rebalance of which no cause was seen.

    A failure within the rebalance did not begin it.
    """
    until = round_.started_at + CLOCKS_S
    for segment in sorted(round_.consumers, key=lambda segment: segment.started_at):
        if segment.is_exit:
            continue
        for failure in failures.get(segment.member.key, ()):
            if failure.at <= until and 0.0 <= segment.started_at - failure.at <= AGAIN_S:
                error = _ERROR.search(failure.reason)
                name = failure.reason if error is None else error[0]
                return Trigger(
                    certainty=Certainty.INFERRED,
                    at=round_.started_at,
                    member=segment.member,
                    reason=f"its join or sync failed ({name}) and it joined again",
                )
    return None
