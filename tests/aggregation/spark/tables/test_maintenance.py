"""Small files become few and old days go, and a kill on the way changes nothing."""

import errno
from collections import Counter
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from aggregation.spark.tables import maintenance as upkeep
from aggregation.spark.tables.atomic_swap import exchange
from aggregation.spark.tables.maintenance import MIN_FILES, Maintenance
from aggregation.spark.tables.retention import removed_records, retention_horizon
from aggregation.spark.tables.schema import Table, read_table
from aggregation.spark.tables.tables import Tables
from metrics.model.sample import Sample
from tests.aggregation.spark.conftest import Frame
from tests.aggregation.spark.histories import DAY_S, START_AT, Client

pytestmark = pytest.mark.spark

TABLE = Table.TRANSITIONS


def moves(count: int, at: float = START_AT) -> list[Sample]:
    client = Client(group="g", client_id="c")
    return [client.move(at + n, n % 2) for n in range(count)]


def test_small_files_of_a_day_become_one_in_the_order_of_time(
    spark: SparkSession, frame: Frame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, said = Tables(folder=tmp_path), list[str]()
    rows = frame(moves(MIN_FILES + 40)).repartitionByRange(MIN_FILES, "ts")
    rows.write.partitionBy("day").parquet(str(tmp_path / TABLE))
    large = frame(moves(2000, START_AT + 1000))
    large.coalesce(1).write.mode("append").partitionBy("day").parquet(str(tmp_path / TABLE))
    other = frame(moves(3, START_AT + DAY_S)).coalesce(1)
    other.write.mode("append").partitionBy("day").parquet(str(tmp_path / TABLE))
    before = Counter(row.id for row in read_table(spark, tmp_path, TABLE).collect())
    days = sorted((tmp_path / TABLE).iterdir())
    monkeypatch.setattr(
        upkeep, "SMALL_BYTES", max(path.stat().st_size for path in days[0].glob("*.parquet"))
    )
    Maintenance(tables=tables, notify=said.append).run(spark)
    files = {day.name: len(list(day.glob("*.parquet"))) for day in days}
    assert files == {"day=2025-11-24": 2, "day=2025-11-25": 1}
    assert before == Counter(row.id for row in read_table(spark, tmp_path, TABLE).collect())
    assert said == [f"transitions: day=2025-11-24 had {MIN_FILES} small files, merged"]
    assert not (tmp_path / "_upkeep").exists()


def test_small_files_with_one_of_others_are_not_merged(
    spark: SparkSession, frame: Frame, tmp_path: Path
) -> None:
    """Its rows became rows of nulls in the table."""
    rows = frame(moves(MIN_FILES)).repartitionByRange(MIN_FILES, "ts")
    rows.write.partitionBy("day").parquet(str(tmp_path / TABLE))
    (day,) = (tmp_path / TABLE).glob("day=*")
    pq.write_table(pa.table({"a": [1]}), day / "other.parquet")
    before, said = sorted(day.iterdir()), list[str]()

    Maintenance(tables=Tables(folder=tmp_path), notify=said.append).run(spark)

    assert sorted(day.iterdir()) == before
    [text] = said
    assert text.startswith(f"transitions: {day.name} stays in {MIN_FILES + 1} small files: {day}")
    assert "(it has no column 'id'); move it away" in text


def test_days_beyond_those_to_keep_go(spark: SparkSession, frame: Frame, tmp_path: Path) -> None:
    tables = Tables(folder=tmp_path)
    for day in range(3):
        tables.append(frame(moves(2, START_AT + day * DAY_S)), TABLE)
    Maintenance(tables=tables, keep_days=1, notify=lambda _: None).run(spark, date(2025, 11, 26))
    days = {str(row.day) for row in read_table(spark, tmp_path, TABLE).collect()}
    assert days == {"2025-11-25", "2025-11-26"}


def test_removed_days_leave_the_number_of_their_records(
    spark: SparkSession, frame: Frame, tmp_path: Path
) -> None:
    tables = Tables(folder=tmp_path)
    for day in range(3):
        tables.append(frame(moves(2 + day, START_AT + day * DAY_S)), TABLE)
    upkeep = Maintenance(tables=tables, keep_days=1, notify=lambda _: None)
    for today in (26, 27, 27):
        upkeep.run(spark, date(2025, 11, today))
    assert removed_records(tmp_path) == {date(2025, 11, 24): 2, date(2025, 11, 25): 3}
    assert retention_horizon(tmp_path) == date(2025, 11, 26)


def test_what_a_kill_left_is_cleared_away(spark: SparkSession, tmp_path: Path) -> None:
    left = tmp_path / "_upkeep" / "day=2025-11-24" / "part.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    Maintenance(tables=Tables(folder=tmp_path), notify=lambda _: None).run(spark)
    assert list(tmp_path.iterdir()) == []


def test_file_system_that_cannot_exchange_keeps_its_small_files(
    spark: SparkSession, frame: Frame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    rows = frame(moves(40)).repartitionByRange(MIN_FILES, "ts")
    rows.write.partitionBy("day").parquet(str(tmp_path / TABLE))

    def refuse(*_: Path) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(upkeep, "exchange", refuse)
    Maintenance(tables=Tables(folder=tmp_path), notify=said.append).run(spark)
    assert said == [
        f"transitions: day=2025-11-24 stays in {MIN_FILES} small files: Invalid argument"
    ]
    assert read_table(spark, tmp_path, TABLE).count() == 40


class Died(BaseException):
    """As by kill -9: nothing is cleared away."""


@pytest.mark.parametrize("swapped", [False, True])
def test_death_at_the_exchange_leaves_each_record_once(
    spark: SparkSession,
    frame: Frame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    swapped: bool,
) -> None:
    samples = moves(40)
    rows = frame(samples).repartitionByRange(MIN_FILES, "ts")
    rows.write.partitionBy("day").parquet(str(tmp_path / TABLE))

    def die(one: Path, other: Path) -> None:
        if swapped:
            exchange(one, other)
        raise Died

    work = Maintenance(tables=Tables(folder=tmp_path), notify=lambda _: None)
    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "exchange", die)
        with pytest.raises(Died):
            work.run(spark)
    wanted = sorted(sample.id for sample in samples)
    assert wanted == sorted(r.id for r in read_table(spark, tmp_path, TABLE).collect())
    work.run(spark)
    assert wanted == sorted(r.id for r in read_table(spark, tmp_path, TABLE).collect())
    assert len(list((tmp_path / TABLE).glob("day=*/*.parquet"))) == 1
    assert not (tmp_path / "_upkeep").exists()


def test_exchange_is_of_two_folders_that_are_there(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    (one / "file").touch()
    with pytest.raises(FileNotFoundError):
        exchange(one, other)
    other.mkdir()
    exchange(one, other)
    assert list(other.iterdir()) == [other / "file"]
