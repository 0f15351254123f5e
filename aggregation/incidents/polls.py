"""Times of members' polls, as rebalances of the classic protocol show them. Pure.

A member that learns of a rebalance joins it at its next poll: so the time from its notice to its
join is the rest of its work between two polls. librdkafka in a cooperative group is the exception:
it joins from a thread of its own.

Source: rd_kafka_cgrp_group_is_rebalancing (rdkafka_cgrp.c), ensureActiveGroup
(AbstractCoordinator.java).
"""

from collections.abc import Iterable
from typing import NamedTuple

from aggregation.incidents.attributes import Attributes
from aggregation.incidents.cost import spans_of
from aggregation.incidents.drafts import Draft
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.segments import Segment
from metrics.model.status import RebalanceStatus

_LIBRDKAFKA = "rdkafka"
"""A part of the name or version that librdkafka and all its bindings send."""


class PollTimes(NamedTuple):
    """Means of an incident, in seconds; None: no source shows them."""

    notice_s: float | None = None
    """From the start of a rebalance until the last of the other members has learned of it."""
    wait_s: float | None = None
    """From there to a member's join, at its next poll."""
    group_size: int | None = None
    """Members that took part in the largest rebalance, not a mean."""


def measure_polls(draft: Draft) -> PollTimes:
    """Return the times of the members that were asked to join again, and the group's size."""
    notices, waits, size = list[float](), list[float](), 0
    for since, rebalance in spans_of(draft):
        asked = [(s, min(s.joins)) for s in _asked(rebalance)]
        size = max(size, len({s.member for s in rebalance.round.consumers if s.is_round}))
        waits += [max(0.0, join - s.started_at) for s, join in asked]
        notices += [max(s.started_at for s, _ in asked) - since] if asked else []
    return PollTimes(_mean(notices), _mean(waits), size or None)


def _asked(rebalance: ExplainedRebalance) -> Iterable[Segment]:
    """Return the segments of members that learned of a rebalance from the coordinator."""
    if rebalance.round.group_type != "classic":
        return ()
    return [
        each
        for each in rebalance.round.consumers
        if each.is_round
        and each.joins
        and each.steps
        and each.steps[0].code is RebalanceStatus.COORDINATOR_REQUESTED
    ]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def join_without_poll(draft: Draft, attributes: Attributes) -> bool | None:
    """Return whether all clients of an incident are librdkafka; None: no source shows them."""
    members = {s.member.key for each in draft.rebalances for s in each.round.consumers}
    names = [attributes.software.get(member) for member in members]
    if not names or None in names:
        return None
    return all(_LIBRDKAFKA in (name or "") for name in names)
