"""Moves read from files are those that Spark reads, and add up to the same."""

import random
from collections import Counter, defaultdict
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from aggregation.spark.rollups.member_episodes import moves_with_episode, select_columns
from aggregation.spark.rollups.parquet_scan import files_of, read_moves, shares
from aggregation.spark.rollups.rollup_job import all_member_rollups
from aggregation.spark.session.session import _gist
from aggregation.spark.tables.schema import Table, read_table
from metrics.model.sample import SampleKind
from tests.aggregation.spark.conftest import Frame
from tests.aggregation.spark.histories import DAY_S, START_AT, Client
from tests.aggregation.spark.rollups.test_member_episodes import wander

pytestmark = pytest.mark.spark


@pytest.fixture
def tables(frame: Frame, tmp_path: Path) -> Path:
    """Make two days in two files each, some records without names, kinds or labels that matter."""
    rng = random.Random(5)
    samples = sorted(wander(rng), key=lambda each: (each.ts, each.seq))
    late = Client(group="late %", client_id="c")
    late.move(START_AT + DAY_S - 1, 3)
    late.settle(START_AT + DAY_S + 1)
    nameless = [replace(each, episode=None, group="x") for each in late.written]
    signal = replace(samples[0], kind=SampleKind.SIGNAL)
    hostless = replace(samples[1], client_id=None, host="")
    got = [*samples, *late.written, *nameless, signal, hostless]
    folder = tmp_path / "tables of %20"
    rows = frame(got).repartition(2)
    rows.write.partitionBy("day").parquet(str(folder / Table.TRANSITIONS))
    return folder


def moves_in(table: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in select_columns(moves_with_episode(table)).collect())


def moves_of(files: list[Path], table: DataFrame) -> Counter[tuple[Any, ...]]:
    names = select_columns(table).columns
    rows = [row for file in files for batch in read_moves(file) for row in batch.to_pylist()]
    return Counter(tuple(row[name] for name in names) for row in rows)


def added(rows: DataFrame) -> dict[tuple[Any, ...], tuple[float, float]]:
    found = defaultdict[tuple[Any, ...], list[tuple[int, float]]](list)
    for row in rows.collect():
        found[tuple(row)[:12]].append((row.times or 0, row.seconds or 0.0))
    return {
        key: (sum(times for times, _ in each), round(sum(seconds for _, seconds in each), 6))
        for key, each in found.items()
    }


def test_files_hold_the_moves_that_spark_reads_and_they_add_up_to_the_same(
    spark: SparkSession, tables: Path
) -> None:
    table = read_table(spark, tables, Table.TRANSITIONS)
    files = files_of(tables, Table.TRANSITIONS)
    assert files
    assert moves_of(files, table) == moves_in(table)
    assert added(all_member_rollups(table, files)) == added(all_member_rollups(table))


def test_days_are_their_files_alone(tables: Path) -> None:
    files = files_of(tables, Table.TRANSITIONS) or []
    days = {file.parent.name for file in files}
    first = min(days)
    day = date.fromisoformat(first.removeprefix("day="))
    assert len(days) > 1
    assert files_of(tables, Table.TRANSITIONS, [day]) == [
        file for file in files if file.parent.name == first
    ]


def test_unfinished_files_are_none_of_a_table(tables: Path) -> None:
    files = files_of(tables, Table.TRANSITIONS) or []
    for name in ("_temporary.parquet", ".part.parquet"):
        (files[0].parent / name).touch()
    assert files_of(tables, Table.TRANSITIONS) == files


def test_columns_that_an_older_file_lacks_are_null(spark: SparkSession, tables: Path) -> None:
    table = read_table(spark, tables, Table.TRANSITIONS)
    older = tables / "older" / "transitions"
    table.drop("host", "agent", "from").coalesce(1).write.partitionBy("day").parquet(str(older))
    table = read_table(spark, tables / "older", Table.TRANSITIONS)
    files = files_of(tables / "older", Table.TRANSITIONS) or []
    assert moves_of(files, table) == moves_in(table)


def test_tables_of_other_formats_are_left_to_spark(tmp_path: Path) -> None:
    assert files_of(tmp_path, Table.TRANSITIONS) is None
    (tmp_path / "transitions" / "_delta_log").mkdir(parents=True)
    (tmp_path / "transitions" / "_delta_log" / "0.json").touch()
    assert files_of(tmp_path, Table.TRANSITIONS) is None


def test_small_files_share_a_task(tmp_path: Path) -> None:
    files = [tmp_path / name for name in "abc"]
    for file, size in zip(files, (1, 40 << 20, 1), strict=True):
        with file.open("wb") as opened:
            opened.truncate(size)
    assert shares(files) == [files[:2], files[2:]]
    assert shares([]) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"no parquet", "is broken or no Parquet file"), (None, "went while it was being read")],
)
def test_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "day=2025-11-24" / "part 1.parquet"
    path.parent.mkdir()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OSError, match="FAILED_READ_FILE") as error:
        list(read_moves(path))
    assert f"{path} {said}" in _gist(f"Traceback\nOSError: {error.value}")
