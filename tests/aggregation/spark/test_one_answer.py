"""One set of records through all views: each figure is the same everywhere (issue's item 1).

Views are the command `explain` on a spool and on tables, the API of an agent and of a hub, the
page, traces, metrics, records of incidents, and Spark's incidents.
"""

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from string import Template
from typing import Any

import httpx
import msgspec
import pytest
import yaml
from click.testing import CliRunner
from opentelemetry.sdk.resources import Resource
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from starlette.applications import Starlette

from agent.cli.explain import explain
from agent.hub.incident_recorder import IncidentRecorder
from agent.hub.push_receiver import PushReceiver
from agent.hub.rebalance_recorder import RebalanceRecorder
from agent.hub.recent_records import RecentRecords
from agent.hub.recorder_io import RecorderIO
from agent.outputs.otlp.spans import spans
from agent.web.api import ApiDependencies, routes
from agent.web.pages.group import GroupQuery, group_content
from aggregation.counterfactuals.best_changes import BestChanges
from aggregation.incidents.amounts import LATE_S
from aggregation.incidents.answers import answer_of
from aggregation.incidents.incidents import Analysis, analyze, split_by_group
from aggregation.incidents.records import IncidentRecord
from aggregation.rebalances.counter import SETTLE_S, UNKNOWN
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.spark.report.proposals import FACTS, propose_changes
from aggregation.spark.rollups.group_rebalances import (
    CARRIED,
    agents_last_seen,
    explain_by_day,
    group_rebalances,
)
from aggregation.spark.rollups.incident_rows import INCIDENT, incident_row
from aggregation.spark.tables.schema import empty
from metrics.model.sample import Sample, encode
from metrics.model.signals import Signal, SignalKind
from metrics.model.snapshot import Snapshot
from metrics.tracking.status_track import StatusConfig
from tests.aggregation.incidents.test_counter import DONE, READS, STUCK, failures
from tests.aggregation.incidents.test_incidents import reads
from tests.aggregation.rebalances.test_rebalances import NEW, START, A, B, C, left, round_of
from tests.aggregation.rebalances.test_rebalances import records as records_of
from tests.aggregation.spark.conftest import table_of
from tests.dashboards.test_rules import ALERTS, RULES, tool
from tests.metrics.given import signal

pytestmark = pytest.mark.spark

GROUP, NOW = "g", 9_000.0
DAY = date(1970, 1, 1)
Figures = list[dict[str, Any]]


def story() -> list[Signal]:
    """Return a dropped member, a restart, a cause that nobody saw, joins that fail, and a leave."""
    return [
        *START,
        *READS,
        *STUCK,
        *DONE,
        *round_of(3, 120.0, A, B, C, causes={"a": NEW}),
        reads(121.0, A, "t-0"),
        reads(121.0, B, "u-2"),  # of a topic that nobody else reads: it waits for B's return
        left(900.0, B, "closed"),
        *round_of(4, 901.0, A, C),
        *round_of(5, 910.0, A, B, C, causes={"b": NEW}),
        reads(912.0, B, "u-2"),
        *round_of(6, 2_000.0, A, B, C),
        *failures("INCONSISTENT_GROUP_PROTOCOL", 3_000.0, 3_001.0),
        left(5_000.0, C, "closed"),
        *round_of(7, 5_001.0, A, B),
        reads(5_002.0, A, "t-0", "t-1"),
        signal(SignalKind.SEEN, 8_000.0, A),
    ]


@pytest.fixture(scope="module")
def records() -> list[Sample]:
    made = records_of(*story())
    return [msgspec.structs.replace(each, agent="h", seq=n) for n, each in enumerate(made, 1)]


@pytest.fixture(scope="module")
def whole(records: list[Sample]) -> Analysis:
    return analyze(records, lambda _: NOW, NOW)


@pytest.fixture(scope="module")
def wanted(whole: Analysis) -> Figures:
    found = figures(map(msgspec.to_builtins, map(answer_of, whole.incidents)))
    assert [each["kind"] for each in found] == [
        "member_joined",
        "poll_timeout",
        "restart",
        "unknown",
        "join_failed",
        "member_left",
    ]
    return found


def figures(answers: Iterable[dict[str, Any]]) -> Figures:
    """Return incidents by their start, without recommendations: only some views have them."""
    bare = ({k: v for k, v in each.items() if k != "recommendations"} for each in answers)
    return sorted(json.loads(json.dumps([*bare])), key=lambda each: str(each["started_at"]))


def watched(records: Sequence[Sample]) -> RecentRecords:
    history = RecentRecords(watermark_of=lambda _: NOW)
    history.add(records, NOW)
    return history


def pushed(records: Sequence[Sample]) -> RecentRecords:
    """Return a hub's records after an agent has pushed these."""
    receiver, history = PushReceiver("", StatusConfig()), RecentRecords(watermark_of=lambda _: NOW)
    taken = receiver.apply_lines("spool", b"".join(map(encode, records)), NOW)
    history.add(taken, NOW)
    return history


@pytest.mark.parametrize("view", [watched, pushed], ids=["agent", "hub"])
def test_api(
    view: Callable[[Sequence[Sample]], RecentRecords], records: list[Sample], wanted: Figures
) -> None:
    app = Starlette(routes=routes(ApiDependencies(lambda: (Snapshot(at=NOW), ()), view(records))))

    async def ask(path: str) -> Any:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            return (await client.get(f"/api/v1/{path}?group={GROUP}")).json()

    assert figures(asyncio.run(ask("incidents"))) == wanted
    (answer,) = asyncio.run(ask("explain"))
    assert figures(answer["incidents"]) == wanted


def test_explain_of_a_spool(records: list[Sample], wanted: Figures, tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_bytes(b"".join(map(encode, records)))

    assert explained(tmp_path) == wanted


def test_explain_of_tables(
    spark: SparkSession, records: list[Sample], wanted: Figures, tmp_path: Path
) -> None:
    table = table_of(spark, records).coalesce(1)
    table.write.partitionBy("day").parquet(str(tmp_path / "transitions"))

    assert explained(tmp_path) == wanted


def explained(place: Path) -> Figures:
    done = CliRunner().invoke(explain, [GROUP, "--from", str(place), "--output", "json"])
    assert done.exit_code == 0, done.output
    return figures(json.loads(done.stdout)["incidents"])


def test_page(records: list[Sample], wanted: Figures) -> None:
    query = GroupQuery(group=GROUP, minutes=5)

    content = group_content(query, watched(records), Snapshot(at=NOW))

    assert figures(map(msgspec.to_builtins, content.incidents)) == wanted


def test_spark(spark: SparkSession, records: list[Sample], whole: Analysis) -> None:
    table = table_of(spark, records)

    rows = explain_by_day(table, empty(spark, CARRIED), [DAY], agents_last_seen(table))

    found = [row.of_incident for row in rows.where(F.col("of_incident").isNotNull()).collect()]
    assert sorted(
        (row.id, row.kind, row.unread_partition_seconds, row.member_seconds, row.partitions_moved)
        for row in found
    ) == sorted(
        (
            incident.id,
            incident.kind.value,
            _rounded(incident.cost.unread_partition_seconds),
            _rounded(incident.cost.member_seconds),
            incident.cost.partitions_moved,
        )
        for incident in whole.incidents
    )
    episodes = {
        row.id: (row.seconds, row.member_seconds) for row in group_rebalances(table).collect()
    }
    assert episodes == {
        each.round.id: (_rounded(each.seconds), _rounded(each.member_seconds))
        for each in whole.rebalances
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


class Agents:
    """One agent that has sent everything."""

    def watermark(self, _: str) -> float:
        return NOW

    def is_pending(self, _: str, until: float) -> bool:
        return until > NOW


def test_metrics_records_and_traces(
    records: list[Sample], whole: Analysis, wanted: Figures
) -> None:
    now, taken, traced = [NOW], list[Sample](), list[ExplainedRebalance]()
    io = RecorderIO(
        history=watched(records),
        spooled=(),
        limit=10,
        take=taken.extend,
        agents=Agents(),
        clock=lambda: now[0],
    )
    incidents, rebalances = IncidentRecorder(io), RebalanceRecorder(io, traced.extend)
    for after in (0.0, LATE_S, SETTLE_S, 3 * SETTLE_S):
        now[0] = NOW + after
        asyncio.run(incidents.check())
        asyncio.run(rebalances.check())

    made = [each.incident for each in taken if isinstance(each, IncidentRecord)]
    assert figures(map(msgspec.to_builtins, made)) == wanted
    totals, costs = incidents.totals(), [each.cost for each in whole.incidents]
    assert {key.kind: number for key, number in totals.final.items()} == Counter(
        each.kind.value for each in whole.incidents
    )
    unread = sum(cost.unread_partition_seconds or 0.0 for cost in costs)
    assert list(totals.unread_s.values()) == [pytest.approx(unread)]
    assert list(totals.member_s.values()) == [
        pytest.approx(sum(cost.member_seconds for cost in costs))
    ]
    assert [(key.error, number) for key, number in totals.join_failures.items()] == [
        ("INCONSISTENT_GROUP_PROTOCOL", 2)
    ]
    assert list(totals.last_ends.values()) == [max(e.round.ended_at for e in whole.rebalances)]
    assert {
        key.status: sum(each.durations.buckets) for key, each in rebalances.totals().items()
    } == Counter(
        UNKNOWN if each.trigger.code is None else each.trigger.code.label
        for each in whole.rebalances
    )
    assert traces(traced) == traces(whole.rebalances)


def test_change_is_one_line_everywhere(
    spark: SparkSession, records: list[Sample], whole: Analysis, tmp_path: Path
) -> None:
    (tmp_path / "s.jsonl").write_bytes(b"".join(map(encode, records)))
    done = CliRunner().invoke(explain, [GROUP, "--from", str(tmp_path), "--output", "json"])
    texts = [each["text"] for each in json.loads(done.stdout)["changes"]]

    assert "would have avoided" in texts[0]
    page = group_content(GroupQuery(group=GROUP, minutes=5), watched(records), Snapshot(at=NOW))
    shown = "\n".join(page.advice)
    assert all(text in shown for text in texts)
    rows = [incident_row(each, "app") for each in whole.incidents]
    spark.createDataFrame(
        [tuple(row[name] for name in INCIDENT.names) for row in rows], INCIDENT
    ).createOrReplaceTempView("incidents")
    found = spark.sql(Template(FACTS).substitute(period="true")).collect()
    assert [each.text for each in propose_changes([row.asDict() for row in found])] == texts
    check_alert(tmp_path, whole, texts[0])


def check_alert(folder: Path, whole: Analysis, text: str) -> None:
    """Check that an alert's annotation is a text, from the metrics of a hub."""
    best = BestChanges(10)
    best.update({GROUP}, split_by_group(whole))
    ((key, cost),) = best.avoidable().items()
    own = {"group": key.group, "kafka_cluster": key.cluster}
    names = own | {"setting": key.setting, "change": key.change}
    values = {
        "kafka_group_avoidable_rebalances": (names, cost.rebalances),
        "kafka_group_avoidable_unread_partition_seconds": (names, cost.unread_s),
        "kafka_group_remembered_rebalances": (own, cost.of_rebalances),
        "kafka_group_remembered_seconds": (own, cost.within_s),
    }
    series = [
        {"series": f"{name}{{{','.join(f'{k}={json.dumps(v)}' for k, v in labels.items())}}}",
         "values": f"{value}x10"}
        for name, (labels, value) in values.items()
        if value is not None
    ]  # fmt: skip
    alert = {
        "alert": "Any",
        "expr": "group:kafka_group_remembered_rebalances:max",
        "annotations": {"change": ALERTS["KafkaGroupIncident"]["annotations"]["change"]},
    }
    rules = {"groups": [{"name": "all", "rules": [*(r for r in RULES if "record" in r), alert]}]}
    fires = {"exp_labels": own, "exp_annotations": {"change": text}}
    look = {"alertname": "Any", "eval_time": "5m", "exp_alerts": [fires]}
    test = {"interval": "1m", "input_series": series, "alert_rule_test": [look]}
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    (folder / "test.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]})
    )
    ran = subprocess.run(
        [tool("promtool"), "test", "rules", "test.yaml"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr


def traces(rebalances: Iterable[ExplainedRebalance]) -> dict[object, tuple[object, ...]]:
    """Return duration, time of the members and cause of each trace, by its episode."""
    roots = [next(spans(each, Resource({}))) for each in rebalances]
    return {
        (root.attributes or {})["kafka.rebalance.episode"]: (
            (root.end_time or 0) - (root.start_time or 0),
            (root.attributes or {})["kafka.rebalance.member_time"],
            (root.attributes or {})["kafka.rebalance.status"],
        )
        for root in roots
    }
