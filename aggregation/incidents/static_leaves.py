"""Rebalances at the end of the session of a static member that had left. Pure.

A static member of a group of type `consumer` or `streams` leaves with member epoch -2. It is
expected back, so its partitions stay its own until its session ends, 45 s later by default. Only
then the others get them.

Source: KIP-848, "Static Membership"; incidents.md section 2 (`member_left`).
"""

from collections.abc import Iterable

from aggregation.incidents.attributes import Attributes
from aggregation.incidents.model import DepartureMode
from aggregation.incidents.presence import AwayMember
from aggregation.rebalances.rebalances import RETURN_S, ExplainedRebalance
from aggregation.rebalances.segments import is_static

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
        if each.how is DepartureMode.LEFT
        and is_static(each.member.key)
        and each.at <= round_.started_at <= each.at + RETURN_S
    ]
    given = _list_given(rebalance, attributes) if left else frozenset[str]()
    return next((each for each in left if _owned_at(each, attributes) & given), None)


def _list_given(rebalance: ExplainedRebalance, attributes: Attributes) -> frozenset[str]:
    """Return the partitions that members of a rebalance have behind it."""
    until = rebalance.round.ended_at + _REPORT_S
    found = frozenset[str]()
    for segment in rebalance.round.consumers:
        changes = attributes.changes_of_member.get(segment.member.key, ())
        found |= next((c.owned for c in reversed(changes) if c.at <= until), frozenset())
    return found


def _owned_at(away: AwayMember, attributes: Attributes) -> frozenset[str]:
    """Return the partitions that a member had when it left."""
    changes = attributes.changes_of_member.get(away.member.key, ())
    before = [change for change in changes if change.at <= away.at + _REPORT_S and change.owned]
    return before[-1].owned if before else frozenset()
