"""Tables in three formats; each table holds an id once.

Theory of operation. `append` writes only rows with ids that the table does not hold, so a batch may
arrive twice, wholly or in part. It searches for equal ids only around the rows' own times, so its
cost grows neither with the day nor with the days before. An id is made of its event's time, and
``ts`` is that time or a little later (`APART_S`). Delta and Iceberg commit an append as a whole.
Spark's Parquet moves finished files to their place one by one. A killed job leaves some of these
files; each is complete, and its ids count. There is one writer at a time (`lock`).
"""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import reduce
from operator import or_
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.tables.lake_table import LakeTable
from aggregation.spark.tables.period import MICROS, days_between
from aggregation.spark.tables.schema import (
    COLUMNS,
    Table,
    empty,
    formats,
    lake_table,
    read_days,
    read_table,
    table_format,
)
from aggregation.spark.tables.table_place import (
    TableFormat,
    TablePlace,
    check_local,
    choose_place,
    keep_place,
    read_place,
)

APART_S = 300
"""Largest distance between the times of two records with one id, also across midnight.

Two agents that see one event write its time, or the time of their last periodic sample before it.
A log's event can be that late (``max.poll.interval.ms``). A record with a more distant time is
separate, and reports then count its episode as a gap.
"""
_CHECKED_FILES = {"spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem"}
_SETTINGS = {
    TableFormat.PARQUET: {},
    TableFormat.DELTA: {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # its defaults are made for lakes: 50 tasks to read its log and 10,000 to list files
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
        "spark.databricks.delta.optimize.maxFileSize": str(256 << 20),
        "spark.databricks.delta.optimize.minFileSize": str(64 << 20),
    },
    TableFormat.ICEBERG: {
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        # Iceberg needs the file system's scheme, which the raw one does not report
        **_CHECKED_FILES,
    },
}


def session_settings(
    formats: Iterable[TableFormat], place: TablePlace | None = None
) -> dict[str, str]:
    """Return the settings that a session needs to read and write such tables."""
    found = {name: value for each in formats for name, value in _SETTINGS[each].items()}
    # S3A buffers what it uploads in files, for which it wants no raw file system
    return found if place is None else found | _CHECKED_FILES


def open_tables(
    folder: Path, table_format: TableFormat | None = None, stored_in: str | None = None
) -> "Tables":
    """Return the tables of a folder, in their own place and format or else in the given ones.

    Raises:
        SparkSetupError: the folder has others, or tables cannot be in this place.

    """
    check_local(folder)
    place = choose_place(folder, stored_in, table_format)
    known = {place.format} if place is not None else formats(folder)
    chosen = table_format or next(iter(known), TableFormat.PARQUET)
    if known - {chosen}:
        raise SparkSetupError(
            f"the tables in {str(folder)!r} are of format {', '.join(sorted(known))}, wanted "
            f"{chosen}; leave out --table-format or give another --tables"
        )
    if stored_in is not None and read_place(folder) is None and formats(folder):
        raise SparkSetupError(f"{str(folder)!r} has tables in itself; give another --tables")
    return Tables(folder=folder, format=chosen, place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of one folder; new ones get ``format``, and are in ``place`` if there is one."""

    folder: Path
    format: TableFormat = TableFormat.PARQUET
    place: TablePlace | None = None

    def check(self) -> None:
        """Check that the folder can take new rows.

        Raises:
            SparkSetupError: a table is no folder, or cannot be written to.

        """
        for table in Table:
            place = self.folder / table
            if place.exists() and not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
                raise SparkSetupError(f"{place} is no folder that can be written to")

    def create(self, spark: SparkSession) -> None:
        """Create all tables of a place, then keep it; widen those of an earlier release."""
        if self.format is not TableFormat.PARQUET:
            for table in Table:
                if table_format(self.folder, table) is not None:
                    self.lake(table).add_columns(empty(spark, COLUMNS[table]))
        if self.place is not None and read_place(self.folder) is None:
            for table in Table:
                lake = LakeTable(
                    stored_in=self.place.stored_in, format=self.place.format, table=table
                )
                lake.create(empty(spark, COLUMNS[table]), ["day"])
            keep_place(self.folder, self.place)

    def clean(self) -> None:
        """Remove unfinished files of a killed run; no reader looks into them."""
        for table in Table:
            shutil.rmtree(self.folder / table / "_temporary", ignore_errors=True)

    def read(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return a table; it is empty if it does not exist yet."""
        return read_table(spark, self.folder, table)

    def append(self, rows: DataFrame, table: Table) -> int:
        """Write the rows that the table does not hold, and return their number."""
        days, near = _duplicate_range(rows)
        if not days:
            return 0
        known = read_days(rows.sparkSession, self.folder, table, days).where(near)
        new = drop_known(rows, known).persist()
        try:
            count = new.count()
            if count:
                self._write(new.select(COLUMNS[table].fieldNames()), table)
        finally:
            new.unpersist()
        return count

    def lake(self, table: Table) -> LakeTable:
        """Return a table of Delta or Iceberg."""
        return lake_table(self.folder, table, self.format)

    def _write(self, rows: DataFrame, table: Table) -> None:
        in_order = sort_for_write(rows)
        if self.format is TableFormat.PARQUET:
            writer = in_order.write.mode("append").partitionBy("day")
            writer.parquet(str(self.folder / table))
            return
        lake = self.lake(table)
        if table_format(self.folder, table) is None:
            lake.create(rows.limit(0), ["day"])
        lake.append(in_order)


def drop_known(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Return one row for each ``id`` that is not in ``known``."""
    return rows.dropDuplicates(["id"]).join(known.select("id"), "id", "left_anti")


def sort_for_write(rows: DataFrame) -> DataFrame:
    """Arrange rows for few files, one a day unless a day is large, each in order of time."""
    order = [name for name in ("day", "ts", "id") if name in rows.columns]
    return rows.hint("rebalance", "day").sortWithinPartitions(*order)


def _duplicate_range(rows: DataFrame) -> tuple[set[date], Column]:
    """Return the days and the time range of possible equal ids."""
    if "ts" not in rows.columns:
        return {row.day for row in rows.select("day").distinct().collect()}, F.lit(True)
    at, apart = F.unix_micros("ts"), APART_S * MICROS
    found = rows.groupBy("day").agg(F.min(at) - apart, F.max(at) + apart).collect()
    spans = [(first, last) for _, first, last in found]
    days = {day for span in spans for day in days_between(*span)}
    times = ([F.timestamp_micros(F.lit(at)) for at in span] for span in spans)
    return days, reduce(or_, (F.col("ts").between(*span) for span in times), F.lit(False))
