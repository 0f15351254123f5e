"""Proposals of a report: the rows that they are made from."""

from dataclasses import replace
from string import Template

import pytest
from pyspark.sql import SparkSession

from aggregation.counterfactuals.changes import find_changes
from aggregation.counterfactuals.facts import IncidentFacts, facts_of_incident, facts_of_row
from aggregation.incidents.incidents import analyze
from aggregation.incidents.model import Incident, IncidentKind
from aggregation.spark.report.proposals import FACTS, propose_changes
from aggregation.spark.report.section import Rows
from aggregation.spark.rollups.incident_rows import INCIDENT, incident_row
from tests.aggregation.incidents import invented

pytestmark = pytest.mark.spark


DETAILS: dict[IncidentKind, dict[str, object]] = {
    IncidentKind.RESTART: {"max_poll_interval_ms": 60_000, "between_polls_ms": 72_000},
    IncidentKind.STALE_MEMBER: {
        "session_timeout_ms": 10_000,
        "since": "2026-03-12T10:00:00.000000Z",
    },
    IncidentKind.ROLLOUT: {"field": "assignor", "before": "range", "after": "roundrobin"},
}
"""What members' attributes add, on kinds that are there: the invented histories have none."""


def histories() -> list[Incident]:
    """Return the incidents of all invented histories, each in a group of its own."""
    found = []
    for name in invented.NAMES:
        analysis = analyze(invented.records(name), now=invented.read(name)["now"])
        found += [
            replace(
                each,
                ref=each.ref._replace(group=name),
                id=f"{name} {each.id}",
                detail=each.detail | DETAILS.get(each.kind, {}),
            )
            for each in analysis.incidents
        ]
    return found


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Rows:
    made = [incident_row(each, "app") for each in histories()]
    spark.createDataFrame(
        [tuple(row[name] for name in INCIDENT.names) for row in made], INCIDENT
    ).createOrReplaceTempView("incidents")
    query = Template(FACTS).substitute(period="true")
    return [row.asDict() for row in spark.sql(query).collect()]


def rounded(facts: IncidentFacts) -> dict[str, object]:
    """Return facts with times to 10 microseconds: floats of either side differ below."""
    shown = {name: getattr(facts, name) for name in IncidentFacts.__dataclass_fields__}
    times = {name: round(each, 5) for name, each in shown.items() if isinstance(each, float)}
    absences = [
        each._replace(
            at=round(each.at, 5),
            returned_at=None if each.returned_at is None else round(each.returned_at, 5),
        )
        for each in facts.absences
    ]
    return shown | times | {"absences": absences}


def test_row_of_the_table_has_the_facts_of_the_incident(rows: Rows) -> None:
    found = {facts.id: rounded(facts) for facts in map(facts_of_row, rows)}
    wanted = {
        facts.id: rounded(facts)
        for each in histories()
        if (facts := facts_of_incident(each)) is not None
    }
    assert found == wanted
    assert any(facts["absences"] for facts in wanted.values())
    for name in ("between_polls_s", "silent_since", "assignor"):
        assert any(facts[name] for facts in wanted.values())


def test_sentence_is_of_the_whole_period(rows: Rows) -> None:
    """A week with one rollout said "60 of 60 rebalances in 28 min"."""
    assert {each.text.rpartition(" in ")[2] for each in propose_changes(rows, 7)} == {"7 days"}


def test_proposals_are_the_changes_of_the_same_incidents(rows: Rows) -> None:
    proposals = propose_changes(rows)
    facts = [facts_of_incident(each) for each in histories()]
    changes = find_changes(each for each in facts if each is not None)
    assert proposals
    assert [(each.group, each.setting, each.proposed, each.incidents) for each in proposals] == [
        (each.group, each.setting, each.proposed, each.incidents) for each in changes
    ]
