"""Tables in three formats, each of which holds an id once.

Theory of operation. `append` writes only rows with ids that the table does not hold, so a batch may
come twice, wholly or in part. It looks for equal ids only around the rows' own times, so its cost
grows neither with the day nor with the days before. An id is made of its event's time, and ``ts``
is that time or a little later (`APART_S`). Delta and Iceberg commit an append as a whole. Spark's
Parquet moves finished files into place one by one. A killed job leaves some of them, each complete,
and their ids count. There is one writer at a time (`lock`).
"""

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import reduce
from hashlib import sha256
from operator import or_
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.tables.dictionary import TABLES as DICTIONARY
from aggregation.spark.tables.period import MICROS, days_between
from aggregation.spark.tables.schema import (
    COLUMNS,
    Table,
    TableFormat,
    read_days,
    read_table,
    table_format,
)

APART_S = 300
"""Largest distance between the times of two records with one id, also across midnight.

Two agents that see one event write its time, or the time of their last periodic sample before it.
A log's event can be that late (``max.poll.interval.ms``). A record with a more distant time is
separate, and reports then count its episode as a gap.
"""
_CATALOG = "spark.sql.catalog."
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
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    },
}
# Iceberg keeps one metadata file per commit, and an ingest commits every few seconds.
_ICEBERG_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


def session_settings(formats: Iterable[TableFormat]) -> dict[str, str]:
    """Return the settings that a session needs to read and write such tables."""
    return {name: value for each in formats for name, value in _SETTINGS[each].items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of one folder; new ones get ``format``."""

    folder: Path
    format: TableFormat = TableFormat.PARQUET

    def check(self) -> None:
        """Check that existing tables can take new rows.

        Raises:
            SparkSetupError: a table has another format, is no folder, or cannot be written to.

        """
        check_local(self.folder)
        for table in Table:
            place = self.folder / table
            if place.exists() and not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
                raise SparkSetupError(f"{place} is no folder that can be written to")
            found = table_format(self.folder, table)
            if found not in {None, self.format}:
                raise SparkSetupError(
                    f"{self.folder / table} is a table of format {found}, wanted {self.format}; "
                    "give --table-format or another --tables"
                )

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

    def name(self, spark: SparkSession, table: Table) -> str:
        """Return the SQL name of a Delta or Iceberg table; Iceberg's catalog is the folder."""
        place = str(self.folder.resolve())
        if self.format is TableFormat.DELTA:
            return f"delta.`{place.replace('`', '``')}/{table}`"
        catalog = f"tables_{sha256(place.encode()).hexdigest()[:12]}"
        spark.conf.set(_CATALOG + catalog, "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"{_CATALOG}{catalog}.type", "hadoop")
        spark.conf.set(f"{_CATALOG}{catalog}.warehouse", place)
        return f"{catalog}.{table}"

    def _write(self, rows: DataFrame, table: Table) -> None:
        if self.format is not TableFormat.PARQUET and table_format(self.folder, table) is None:
            self._create(with_comments(rows.limit(0), table), table)
        if self.format is TableFormat.ICEBERG:
            sort_for_write(rows).writeTo(self.name(rows.sparkSession, table)).append()
            return
        writer = sort_for_write(rows).write.format(self.format).mode("append").partitionBy("day")
        writer.save(str(self.folder / table))

    def _create(self, empty: DataFrame, table: Table) -> None:
        """Commit an empty table, so that a first append never leaves files without a commit."""
        if self.format is TableFormat.DELTA:
            writer = empty.write.format(self.format).mode("append").partitionBy("day")
            writer.save(str(self.folder / table))
            return
        creation = empty.writeTo(self.name(empty.sparkSession, table)).using(self.format)
        for key, value in _ICEBERG_PROPERTIES.items():
            creation = creation.tableProperty(key, value)
        creation.partitionedBy(F.col("day")).createOrReplace()


def with_comments(rows: DataFrame, table: Table) -> DataFrame:
    """Return rows with columns that carry their text of the data dictionary."""
    described = DICTIONARY[table]
    return rows.select(
        *(
            F.col(f"`{name}`").alias(name, metadata={"comment": described[name].comment})
            for name in rows.columns
        )
    )


def check_local(tables: Path) -> None:
    """Check that a folder of tables is no URL, of which a path would make a local folder.

    Raises:
        SparkSetupError: it is one.

    """
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+:/", str(tables)):
        raise SparkSetupError(
            f"{str(tables)!r} is a URL: tables are on a local or mounted file system"
        )


def drop_known(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Return one row for each ``id`` that is not in ``known``."""
    return rows.dropDuplicates(["id"]).join(known.select("id"), "id", "left_anti")


def sort_for_write(rows: DataFrame) -> DataFrame:
    """Arrange rows for few files, one a day unless a day is large, each in order of time."""
    order = [name for name in ("day", "ts", "id") if name in rows.columns]
    return rows.hint("rebalance", "day").sortWithinPartitions(*order)


def _duplicate_range(rows: DataFrame) -> tuple[set[date], Column]:
    """Return the days and the time range in which equal ids can be."""
    if "ts" not in rows.columns:
        return {row.day for row in rows.select("day").distinct().collect()}, F.lit(True)
    at, apart = F.unix_micros("ts"), APART_S * MICROS
    found = rows.groupBy("day").agg(F.min(at) - apart, F.max(at) + apart).collect()
    spans = [(first, last) for _, first, last in found]
    days = {day for span in spans for day in days_between(*span)}
    times = ([F.timestamp_micros(F.lit(at)) for at in span] for span in spans)
    return days, reduce(or_, (F.col("ts").between(*span) for span in times), F.lit(False))
