"""The changes worth making in each group, the most useful first. Pure.

Changes are ranked by the unread seconds that they avoid, then by rebalances. One that mends a fault
is worth making whatever that cost. The best one of a group takes its incidents: the others count
without them, so no incident is avoided twice, and the sum of all proposals is never more than what
was recorded.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from aggregation.counterfactuals.change import Change, PastIncidents
from aggregation.counterfactuals.facts import IncidentFacts
from aggregation.counterfactuals.membership_rules import (
    propose_leave_on_close,
    propose_probing_interval,
    propose_separate_groups,
    propose_unique_instance_ids,
)
from aggregation.counterfactuals.rules import (
    propose_poll_interval,
    propose_poll_records,
    propose_session_timeout,
    propose_static_membership,
)
from aggregation.counterfactuals.shape_rules import (
    propose_consumer_protocol,
    propose_cooperative,
    propose_initial_delay,
    propose_pacing,
)

MAX = 3
"""Proposals of a group."""

Rule = Callable[[PastIncidents], Change | None]

RULES: tuple[Rule, ...] = (
    propose_static_membership,
    propose_session_timeout,
    propose_poll_interval,
    propose_poll_records,
    propose_cooperative,
    propose_consumer_protocol,
    propose_initial_delay,
    propose_pacing,
    propose_unique_instance_ids,
    propose_leave_on_close,
    propose_probing_interval,
    propose_separate_groups,
)


def find_changes(facts: Iterable[IncidentFacts]) -> tuple[Change, ...]:
    """Return the changes of all groups, the most useful first: `MAX` a group at most."""
    groups: dict[tuple[str, str], dict[str, IncidentFacts]] = defaultdict(dict)
    for each in facts:
        groups[each.cluster, each.group][each.id] = each
    found = [
        change
        for name in sorted(groups)
        for change in _of_group(
            sorted(groups[name].values(), key=lambda each: (each.started_at, each.id))
        )
    ]
    return tuple(sorted(found, key=_rank, reverse=True))


def _rank(change: Change) -> tuple[float, int]:
    return (change.unread_avoided_s or 0.0, change.rebalances_avoided)


def _of_group(facts: list[IncidentFacts]) -> list[Change]:
    found: list[Change] = []
    uncounted, rules = facts, list(RULES)
    while len(found) < MAX:
        changes = {rule: rule(PastIncidents(facts, uncounted)) for rule in rules}
        offered = [
            (change, rule)
            for rule, change in changes.items()
            if change is not None and (change.mends_fault or _rank(change) > (0.0, 0))
        ]
        if not offered:
            break
        best, chosen = max(offered, key=lambda pair: (pair[0].mends_fault, *_rank(pair[0])))
        found.append(best)
        rules.remove(chosen)
        taken = set(best.incidents)
        uncounted = [each for each in uncounted if each.id not in taken]
    return found
