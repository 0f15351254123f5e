"""Outages of agents in rollups: the silences are those of all records, and no crash follows."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from aggregation.rebalances.silences import read_silences
from aggregation.rebalances.slots import SLOT_S
from aggregation.spark.ingest.job import IngestConfig, TableIngest
from aggregation.spark.ingest.spool_source import SpoolSource
from aggregation.spark.rollups.group_rebalances import agents_silences
from aggregation.spark.rollups.rollup_store import RollupStore
from aggregation.spark.rollups.rollups import timestamps
from metrics.model.sample import Sample, format_time, parse_time
from tests.aggregation.rebalances.test_rebalances import NEW, A, B, C, round_of
from tests.aggregation.rebalances.test_silences import (
    BEGAN_AT,
    CAME_BACK,
    HOUR_S,
    LONG_START,
    REPLACED,
    watched,
)
from tests.aggregation.spark.conftest import Frame
from tests.aggregation.spark.histories import START_AT, write_spool


def on_a_day(found: Sequence[Sample], hour: float) -> list[Sample]:
    """Return records that begin at an hour of the first day."""
    later_s = START_AT + hour * HOUR_S - BEGAN_AT
    return [
        msgspec.structs.replace(
            each,
            id=f"{each.agent}-{each.id}",
            ts=format_time(parse_time(each.ts) + later_s),
            joined_ts=each.joined_ts and format_time(parse_time(each.joined_ts) + later_s),
        )
        for each in found
    ]


@pytest.mark.parametrize("hour", [1.0, 21.0])
def test_silences_are_those_of_all_records(frame: Frame, hour: float) -> None:
    """They are in one piece over midnight, too. An agent was silent until its first record."""
    seen = on_a_day(watched([*LONG_START, *REPLACED, *CAME_BACK]), hour)
    found = agents_silences(timestamps(frame(seen)))
    wanted = read_silences(seen)
    begun_at = START_AT + hour * HOUR_S
    for agent, (first, *others) in found.items():
        assert (first.since, first.until) == (START_AT, begun_at // SLOT_S * SLOT_S)
        assert others == [*wanted.get(agent, ())]
    assert found.keys() == {"agent-a", "agent-b", "agent-c"}


def test_agents_without_periodic_samples_have_none(frame: Frame) -> None:
    seen = on_a_day(watched([*LONG_START], sampled=False), 1.0)
    assert agents_silences(timestamps(frame(seen))) == {}


def expired(spark: SparkSession, folder: Path, found: Sequence[Sample]) -> list[str]:
    """Return the expired members of tables, by rebalances; incidents have as many."""
    write_spool(folder / "spool", found)
    config = IngestConfig(
        sources=[SpoolSource(str(folder / "spool"))], tables=folder / "tables", once=True
    )
    job = TableIngest(spark, config, lambda _: None)
    job.wait(job.start(), lambda: False)
    store = RollupStore(spark, folder / "tables")
    store.update(lambda _: None)
    departures = store.rebalances().selectExpr("explode(departures) AS gone").select("gone.*")
    names = [row.client_id for row in departures.where("kind = 'expired'").collect()]
    incidents = store.incidents().where("kind = 'session_expired'")
    assert incidents.count() == len(names)
    return names


def test_restart_in_an_outage_is_no_crash(spark: SparkSession, tmp_path: Path) -> None:
    """The agent is out over midnight: the day before its return shows nothing yet."""
    seen = on_a_day(watched([*LONG_START, *REPLACED, *CAME_BACK]), 21.0)
    assert expired(spark, tmp_path, seen) == []


@pytest.mark.field
def test_crash_beside_a_living_agent_is_one(spark: SparkSession, tmp_path: Path) -> None:
    back = round_of(4, 3 * HOUR_S, A, B, C, causes={"a": NEW})
    crash = round_of(3, 2 * HOUR_S, B, C)
    seen = on_a_day(watched([*LONG_START, *crash, *back], out=(0.0, 0.0)), 1.0)
    assert expired(spark, tmp_path, seen) == ["a"]


@pytest.mark.field
def test_member_killed_with_its_agent_is_a_crash_and_no_outage(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The others show the expiry two minutes behind its last record; it is back in hour 6."""
    killed = round_of(3, 0.92 * HOUR_S, B, C)
    back = round_of(4, 5 * HOUR_S + 60.0, A, B, C, causes={"a": NEW})
    seen = on_a_day(watched([*LONG_START, *killed, *back]), 1.0)
    assert expired(spark, tmp_path, seen) == ["a"]

    rollups = RollupStore(spark, tmp_path / "tables").rollups()
    (row,) = rollups.where("host = 'agent-a' AND kind = 'records'").collect()
    assert [hour for hour in range(24) if row.bucket >> hour & 1] == [*range(1, 9)]
