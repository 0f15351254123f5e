"""Probing rebalances of a Streams application, from its members' signals to a proposal."""

from dataclasses import replace

from aggregation.counterfactuals.change import PastIncidents
from aggregation.counterfactuals.changes import find_changes
from aggregation.counterfactuals.facts import facts_of_incident
from aggregation.counterfactuals.membership_rules import propose_probing_interval
from aggregation.incidents.incidents import analyze
from aggregation.incidents.model import IncidentKind
from tests.aggregation.counterfactuals.given import incident
from tests.aggregation.rebalances.test_rebalances import START, A, B, C, records, round_of

WEEK_S = 7 * 86_400.0
INTERVAL_S = 600.0
PROBES = 3


def test_tasks_that_are_warmed_up_each_week_are_probed_for_half_as_often() -> None:
    """New topics each week, then three probing rebalances: every second one is one of three."""
    rounds = []
    for week in range(1, 5):
        at = week * WEEK_S
        rounds += round_of(10 * week, at, A, B, C, causes={"a": (7, "metadata has changed")})
        for probe in range(1, PROBES + 1):
            due = at + probe * INTERVAL_S
            reason = f"triggered followup rebalance scheduled for {1000 * due:.0f}"
            rounds += round_of(10 * week + probe, due, A, B, C, causes={"a": (6, reason)})
    incidents = analyze(records(*START, *rounds), now=6 * WEEK_S).incidents
    changed = [each for each in incidents if each.kind is IncidentKind.METADATA_CHANGED]
    assert [len(each.rebalances) for each in changed] == [1 + PROBES] * 4
    assert {each.detail["probing_rebalances"] for each in changed} == {PROBES}
    assert {each.detail["probing_interval_ms"] for each in changed} == {1000 * INTERVAL_S}

    found = find_changes(facts for each in incidents if (facts := facts_of_incident(each)))

    (change,) = [each for each in found if each.setting == "probing.rebalance.interval.ms"]
    assert (change.now, change.proposed) == ("600000", "1200000")
    assert change.rebalances_avoided == 4


def test_probe_that_moves_a_task_is_necessary_at_any_interval() -> None:
    """Two of six move one each."""
    joined = incident(
        "j", IncidentKind.MEMBER_JOINED, rebalances=7, probes=6, probing_interval_s=61.0, moved=2
    )
    change = propose_probing_interval(PastIncidents([joined], [joined]))
    assert change is not None
    assert (change.proposed, change.rebalances_avoided) == ("120000", 2)
    busy = replace(joined, moved=6)
    assert propose_probing_interval(PastIncidents([busy], [busy])) is None
