"""The best change of each group, kept up to date as incidents end. For exporters.

Theory of operation. A group's changes are computed again only when the incidents of it that are
over differ from those of the last look: rules cost more than the comparison.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from aggregation.counterfactuals.changes import find_changes
from aggregation.counterfactuals.facts import IncidentFacts, facts_of_incident
from aggregation.counterfactuals.sentences import name_of
from aggregation.incidents.incidents import GroupIncidents
from aggregation.incidents.model import Incident
from aggregation.rebalances.grouping import GroupRef
from metrics.model.snapshot import AvoidableCost, ChangeKey


def span_of(facts: Collection[IncidentFacts]) -> tuple[int, float]:
    """Return the rebalances of incidents, and the seconds from the first start to the last end."""
    since = min(each.started_at for each in facts)
    until = max(each.ended_at for each in facts)
    return sum(each.rebalances for each in facts), until - since


class BestChanges:
    """What the best change of each group would have avoided, of all incidents known of it."""

    def __init__(self, limit: int) -> None:
        """``limit`` groups are kept; the longest quiet goes first."""
        self._limit = limit
        self._facts: dict[GroupRef, tuple[IncidentFacts, ...]] = {}
        self._best: dict[GroupRef, tuple[ChangeKey, AvoidableCost]] = {}

    def update(self, names: Collection[str], found: Mapping[GroupRef, GroupIncidents]) -> None:
        """Take all incidents of the named groups; ``found`` may have those of others, too."""
        facts = {
            ref: known
            for ref, group in found.items()
            if ref.group in names and (known := tuple(_facts_of(group.incidents)))
        }
        best = dict(self._best)
        for ref in [ref for ref in self._facts if ref.group in names and ref not in facts]:
            del self._facts[ref]
        for ref, now in facts.items():
            before = self._facts.pop(ref, None)
            self._facts[ref] = now  # the newest is last
            if now != before and (new := _propose(ref, now)) is not None:
                best[ref] = new
            elif now != before:
                best.pop(ref, None)
        while len(self._facts) > self._limit:
            del self._facts[next(iter(self._facts))]
        # another thread reads it
        self._best = {ref: each for ref, each in best.items() if ref in self._facts}

    def avoidable(self) -> dict[ChangeKey, AvoidableCost]:
        """Return what the best changes would have avoided; any thread may call it."""
        return dict(self._best.values())


def _facts_of(incidents: Iterable[Incident]) -> Iterator[IncidentFacts]:
    for incident in incidents:
        facts = facts_of_incident(incident)
        if facts is not None:
            yield facts


def _propose(
    ref: GroupRef, facts: Collection[IncidentFacts]
) -> tuple[ChangeKey, AvoidableCost] | None:
    best = next(iter(find_changes(facts)), None)
    if best is None:
        return None
    cost = AvoidableCost(best.rebalances_avoided, best.unread_avoided_s, *span_of(facts))
    return ChangeKey(*ref, best.setting, name_of(best)), cost
