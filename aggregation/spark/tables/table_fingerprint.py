"""Fingerprints of the tables by day, to detect a change without reading rows."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import reduce
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.errors import SparkJobError
from aggregation.spark.tables.broken_file import unread_file
from aggregation.spark.tables.schema import (
    Table,
    formats,
    read_days,
    read_table,
    table_format,
)
from aggregation.spark.tables.table_place import TableFormat

_DAY = re.compile(r"/day=(\d{4}-\d\d-\d\d)/([^/]+)$")


_TABLES = (Table.TRANSITIONS, Table.SAMPLES)


def parquet_fingerprints(tables: Path) -> dict[date, str] | None:
    """Return the same as `fingerprints` without Spark; None if a table is not of Parquet."""
    if formats(tables) - {TableFormat.PARQUET}:
        return None
    return digest_days(part for table in _TABLES for part in _parquet(tables, table))


def fingerprints(spark: SparkSession, tables: Path) -> dict[date, str]:
    """Return a digest of each day's transitions and samples."""
    return digest_days(part for table in _TABLES for part in _parts(spark, tables, table))


def count_parquet(tables: Path, days: Iterable[date]) -> dict[date, int]:
    """Return the number of records of some days in tables of Parquet, without Spark."""
    return {day: sum(_count_files(tables, table, day) for table in _TABLES) for day in days}


def _count_files(tables: Path, table: Table, day: date) -> int:
    return sum(map(_count_rows, (tables / table / f"day={day}").glob("[!._]*")))


def _count_rows(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException) as error:
        raise unread_file(path, error) from error


def count_records(spark: SparkSession, tables: Path, days: Sequence[date]) -> dict[date, int]:
    """Return the number of records of some days."""
    if not days:
        return {}
    if not formats(tables) - {TableFormat.PARQUET}:
        return count_parquet(tables, days)
    parts = (read_days(spark, tables, table, days).select("day") for table in _TABLES)
    rows = reduce(DataFrame.unionByName, parts).groupBy("day").count().collect()
    return dict.fromkeys(days, 0) | {row["day"]: row["count"] for row in rows}


def count_before(spark: SparkSession, tables: Path, table: Table, first: date) -> dict[date, int]:
    """Return the number of records of each day before ``first`` in one table."""
    if table_format(tables, table) is TableFormat.PARQUET:
        days = {day for day, _ in _parquet(tables, table) if day < first}
        return {day: _count_files(tables, table, day) for day in days}
    rows = read_table(spark, tables, table).where(F.col("day") < F.lit(first))
    return {row["day"]: row["count"] for row in rows.groupBy("day").count().collect()}


def digest_days(parts: Iterable[tuple[date, str]]) -> dict[date, str]:
    """Return a digest of each day's file names, independent of their order."""
    found: dict[date, list[str]] = defaultdict(list)
    for day, part in parts:
        found[day].append(part)
    return {
        day: sha256("\n".join(sorted(each)).encode()).hexdigest()[:16]
        for day, each in found.items()
    }


def _parts(spark: SparkSession, tables: Path, table: Table) -> Iterator[tuple[date, str]]:
    """Yield days with their file names, or for Iceberg with a digest of all ids."""
    match table_format(tables, table):
        case TableFormat.PARQUET:
            yield from _parquet(tables, table)
        case TableFormat.DELTA:
            yield from _parse_paths(read_table(spark, tables, table).inputFiles())
        case TableFormat.ICEBERG:
            rows = read_table(spark, tables, table)
            ids = rows.groupBy("day").agg(F.bit_xor(F.xxhash64("id")).alias("ids"))
            yield from ((row.day, f"{row.ids:x}") for row in ids.collect())
        case None:
            pass


def _parquet(tables: Path, table: Table) -> Iterator[tuple[date, str]]:
    yield from _parse_paths(map(str, (tables / table).glob("day=*/[!._]*")))


def _parse_paths(paths: Iterable[str]) -> Iterator[tuple[date, str]]:
    for path in paths:
        found = _DAY.search(path)
        if found is not None:
            yield _day(path, found[1]), found[2]


def _day(path: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise SparkJobError(f"the folder of {path!r} is named by no day; move it away") from None
