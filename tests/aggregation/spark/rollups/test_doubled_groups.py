"""Members that two agents see: each of their seconds and episodes counts once."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.rollups import doubled_groups
from aggregation.spark.rollups.doubled_groups import find_doubled
from aggregation.spark.rollups.member_episodes import member_episodes
from aggregation.spark.rollups.parquet_scan import files_of
from aggregation.spark.rollups.rollup_job import all_member_rollups
from aggregation.spark.rollups.rollup_store import RollupStore
from aggregation.spark.tables.schema import Table
from metrics.model.sample import Sample, Scope
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark.conftest import Frame, table_of
from tests.aggregation.spark.histories import DAY_S, START_AT, Client

pytestmark = pytest.mark.spark

NOON = START_AT + DAY_S / 2
LATE_S = 0.004
"""What the proxy sees is so much later."""


def seen_by(
    agent: str, host: str, act: Callable[[Client, float], None], off: float, **labels: Any
) -> list[Sample]:
    """Return what one agent writes of a member's history."""
    member = Client(group="g", client_id="m0", host=host, **labels)
    act(member, off)
    return [replace(each, agent=agent, member_id="m0-1f") for each in member.written]


def twice(act: Callable[[Client, float], None], **labels: Any) -> list[Sample]:
    return [
        *seen_by("sidecar", "pod-0", act, 0.0, **labels),
        *seen_by("proxy", "10.0.0.7", act, LATE_S, **labels),
    ]


def two_rounds(member: Client, off: float) -> None:
    """Rebalance for ten seconds, and again a millisecond later."""
    member.move(NOON + off, S.METADATA_CHANGED)
    member.settle(NOON + 10 + off)
    member.move(NOON + 10.001 + off, S.COORDINATOR_REQUESTED)
    member.move(NOON + 10.5 + off, S.UNKNOWN_MEMBER)
    member.settle(NOON + 12 + off)


def over_midnight(member: Client, off: float) -> None:
    member.move(START_AT + DAY_S - 5 + off, S.DROPPED_GROUP)
    member.settle(START_AT + DAY_S + 5 + off)


def counted(rows: Iterable[Row], what: str, scope: str = "consumer") -> dict[int, float]:
    found = Counter[int]()
    for row in rows:
        if row.what == what and row.scope == scope:
            found[row.code] += row.seconds
    return {code: round(seconds, 6) for code, seconds in found.items()}


def test_member_of_two_agents_is_found_and_replicas_of_one_client_id_are_not(frame: Frame) -> None:
    replicas = [
        replace(each, agent=agent, member_id=agent, group="other")
        for agent in ("pod-1", "pod-2")
        for each in seen_by(agent, agent, two_rounds, 0.0)
    ]

    assert find_doubled(frame([*twice(two_rounds), *replicas])) == {("prod-eu", "g")}


@pytest.mark.parametrize("few", [0, 1_000])
def test_files_give_the_same_groups(
    few: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doubled_groups, "_FEW", few)
    alone = [replace(each, group="other") for each in seen_by("proxy", "p", two_rounds, 0.0)]
    for name, samples in (("doubled", [*twice(two_rounds), *alone]), ("alone", alone)):
        folder = tmp_path / name
        rows = table_of(spark, samples)
        rows.write.partitionBy("day").parquet(str(folder / Table.TRANSITIONS))
        files = files_of(folder, Table.TRANSITIONS)
        assert files
        assert find_doubled(rows, files) == find_doubled(rows)
        assert bool(find_doubled(rows, files)) == (name == "doubled")


def test_seconds_and_episodes_of_a_member_that_two_agents_see_count_once(frame: Frame) -> None:
    instance = [replace(each, member_id=None) for each in twice(two_rounds, scope=Scope.STREAMS)]

    rows = all_member_rollups(frame([*twice(two_rounds), *instance])).collect()

    assert counted(rows, "status", "streams") == counted(rows, "status")
    members = [row for row in rows if row.what == "member" and row.scope == "consumer"]
    assert sum(row.times for row in members) == 2
    assert {row.host for row in members} == {"pod-0"}
    seconds = {S.METADATA_CHANGED: 10.004, S.COORDINATOR_REQUESTED: 2.003}
    assert counted(rows, "member") == pytest.approx(seconds)
    held = {S.METADATA_CHANGED: 10.004, S.COORDINATOR_REQUESTED: 0.499, S.UNKNOWN_MEMBER: 1.504}
    assert counted(rows, "status") == pytest.approx(held)
    assert sum(row.times for row in rows if row.what == "duration") == 2


def test_whole_history_of_one_agent_stands_for_a_part_of_the_other(frame: Frame) -> None:
    whole, part = twice(two_rounds)[:2], twice(two_rounds)[5:6]

    rows = all_member_rollups(frame([*whole, *part])).collect()

    (row,) = [row for row in rows if row.what == "member"]
    assert (row.kind, row.times, row.seconds) == ("ended", 1, pytest.approx(10.0))


def test_api_has_one_row_for_each_episode(frame: Frame) -> None:
    rows = member_episodes(frame(twice(two_rounds))).orderBy("started_at").collect()

    assert [row.seconds for row in rows] == pytest.approx([10.004, 2.003])


@pytest.mark.field
def test_days_one_by_one_count_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """The episode over midnight is carried for both agents, and merged when it is over."""
    rows = table_of(spark, [*twice(two_rounds), *twice(over_midnight)])
    for day in sorted({row.day for row in rows.select("day").distinct().collect()}):
        of_day = rows.where(F.col("day") == F.lit(day))
        of_day.coalesce(1).write.mode("append").partitionBy("day").parquet(
            str(tmp_path / Table.TRANSITIONS)
        )
        RollupStore(spark, tmp_path).update(lambda _: None)

    found = RollupStore(spark, tmp_path).rollups().collect()

    drops = [row for row in found if row.what == "member" and row.code == S.DROPPED_GROUP]
    assert [(row.times, row.seconds) for row in drops] == [(1, pytest.approx(10.004))]
    assert {row.day for row in drops} == {date(2025, 11, 24)}
    groups = sum(row.member_seconds for row in found if row.what == "rebalance")
    total = sum(counted(found, "member").values())
    assert total - 10.004 == pytest.approx(12.007)
    assert groups == pytest.approx(total, abs=0.01)
