"""The best change of each group is that of `find_changes`, bounded, and computed only if needed."""

from collections.abc import Collection

import pytest

from aggregation.counterfactuals import best_changes
from aggregation.counterfactuals.best_changes import BestChanges
from aggregation.counterfactuals.changes import find_changes
from aggregation.counterfactuals.facts import IncidentFacts, facts_of_incident
from aggregation.counterfactuals.sentences import name_of
from aggregation.incidents.incidents import GroupIncidents, analyze, split_by_group
from aggregation.rebalances.grouping import GroupRef
from metrics.model.sample import Sample
from metrics.model.snapshot import AvoidableCost
from tests.aggregation.rebalances.test_rebalances import START, A, B, C, records, round_of
from tests.metrics.given import raised, synced


def drops(number: int) -> list[Sample]:
    """Return a group in which A is dropped and comes back, so many times."""
    signals = [*START]
    for n in range(number):
        at = 2000.0 + 4000.0 * n
        signals += [raised(5, at, A), *round_of(10 * n + 2, at + 1.0, B, C)]
        signals += [raised(2, at + 60.0, A), *round_of(10 * n + 3, at + 60.5, A, B, C)]
    return records(*signals)


def analysis(number: int) -> dict[GroupRef, GroupIncidents]:
    return split_by_group(analyze(drops(number), lambda _: 90_000.0, 90_000.0))


def test_the_first_change_and_what_it_is_of() -> None:
    best, found = BestChanges(10), analysis(3)
    (group,) = found.values()
    facts = [each for one in group.incidents if (each := facts_of_incident(one))]
    first = find_changes(facts)[0]

    best.update({"g"}, found)

    ((key, cost),) = best.avoidable().items()
    assert (key.group, key.setting, key.change) == ("g", first.setting, name_of(first))
    total, span = sum(each.rebalances for each in facts), facts[-1].ended_at - facts[0].started_at
    assert cost == AvoidableCost(first.rebalances_avoided, first.unread_avoided_s, total, span)
    assert cost.rebalances > 0


def test_it_is_computed_again_only_when_an_incident_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def count(facts: Collection[IncidentFacts]) -> tuple[()]:
        calls.append(len(facts))
        return ()

    monkeypatch.setattr(best_changes, "find_changes", count)
    best = BestChanges(10)

    for number in (2, 2, 3):
        best.update({"g"}, analysis(number))

    assert len(calls) == 2


def test_a_group_without_records_is_forgotten() -> None:
    best = BestChanges(10)
    best.update({"g"}, analysis(3))

    best.update({"other"}, {})
    assert best.avoidable()
    best.update({"g"}, {})
    assert best.avoidable() == {}


def test_groups_are_bounded() -> None:
    best = BestChanges(0)
    best.update({"g"}, analysis(3))
    assert best.avoidable() == {}


def test_synced_members_alone_have_no_change() -> None:
    best = BestChanges(10)
    best.update(
        {"g"}, split_by_group(analyze(records(*START, synced(2000.0, A)), lambda _: 9e4, 9e4))
    )
    assert best.avoidable() == {}
