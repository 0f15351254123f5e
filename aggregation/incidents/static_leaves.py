"""Rebalances at the end of the session of a static member that had left. Pure.

A static member of a group of type `consumer` or `streams` leaves with member epoch -2, also when
its poll interval has expired. It is expected back, so its partitions stay its own until its session
ends, 45 s later by default. Only then the others get them.

Source: KIP-848, "Static Membership"; incidents.md section 2 (`member_left`).
"""

from collections.abc import Iterable

from aggregation.incidents.attributes import Attributes
from aggregation.incidents.model import DepartureMode
from aggregation.incidents.presence import AwayMember
from aggregation.rebalances.rebalances import RETURN_S, ExplainedRebalance
from aggregation.rebalances.segments import is_static

_KEEPING = {DepartureMode.LEFT, DepartureMode.DROPPED}
"""Departures after which the coordinator keeps a static member's partitions for it."""
_REPORT_S = 1.0
"""A member reports its partitions a little before or after its status moves."""


def find_static_leave(
    away: Iterable[AwayMember], rebalance: ExplainedRebalance, attributes: Attributes
) -> AwayMember | None:
    """Return the static member that left before, and whose partitions others get now."""
    round_ = rebalance.round
    if round_.group_type == "classic":
        return None
    left = [
        each
        for each in away
        if each.how in _KEEPING
        and is_static(each.member.key)
        and each.at <= round_.started_at <= each.at + RETURN_S
    ]
    given = _list_given(rebalance, attributes) if left else frozenset[str]()
    return next((each for each in left if _owned_before(each, attributes) & given), None)


def _list_given(rebalance: ExplainedRebalance, attributes: Attributes) -> frozenset[str]:
    """Return the partitions that members got in a rebalance."""
    since, until = rebalance.round.started_at - _REPORT_S, rebalance.round.ended_at + _REPORT_S
    found = frozenset[str]()
    for key in {segment.member.key for segment in rebalance.round.consumers}:
        before = attributes.find_owned(key, since)
        found |= attributes.find_owned(key, until) - before
    return found


def _owned_before(away: AwayMember, attributes: Attributes) -> frozenset[str]:
    """Return the partitions that a member had until it left."""
    return attributes.find_owned(away.member.key, away.at - _REPORT_S)
