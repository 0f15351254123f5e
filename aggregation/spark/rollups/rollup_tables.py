"""The tables of rollups: plain Parquet, or the Delta or Iceberg of the tables themselves.

Theory of operation. Parquet removes the old files of a batch, then writes new ones. A reader misses
the batch meanwhile. Delta and Iceberg replace the rows of all batches of a computation in one
commit of each table, so a reader sees the old rows or the new ones. Rollups that exist keep their
format.
"""

import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812

from aggregation.spark.rollups.final_days import count_rolled_up
from aggregation.spark.rollups.group_rebalances import CARRIED, INCIDENTS, REBALANCES
from aggregation.spark.rollups.open_episodes import CARRIED_PARTS
from aggregation.spark.rollups.preaggregations import ROWS
from aggregation.spark.rollups.rollup_manifest import PENDING, Manifest
from aggregation.spark.rollups.rollups import ROLLUPS
from aggregation.spark.tables.lake_table import LakeTable
from aggregation.spark.tables.schema import (
    empty,
    formats,
    lake_table,
    literal_path,
    select_known,
)
from aggregation.spark.tables.table_place import TableFormat, folder_format

_GROUPS, _MEMBERS, _MONTHS = "_carry/groups", "_carry/members", "_months"
SCHEMAS = {
    "rollups": ROLLUPS,
    "rebalances": REBALANCES,
    "incidents": INCIDENTS,
    _GROUPS: CARRIED,
    _MEMBERS: CARRIED_PARTS,
}
"""Columns of the tables by day, by the names of their folders in Parquet."""
_LAKE_NAMES = {_GROUPS: "carry_groups", _MEMBERS: "carry_members", _MONTHS: "months"}
"""Names of the others in Delta and Iceberg; catalogs have no folders within a namespace."""
_CUT, _BATCH = T.StructField("cut", T.StringType()), T.StructField("batch", T.DateType())
_MONTH_ROWS = T.StructType([*ROWS, _CUT, _BATCH])


class RollupTables(Protocol):
    """The tables of rollups. Rows of a batch are replaced as a whole."""

    def create(self) -> None:
        """Create the tables if there are none; add columns to those of an earlier release."""

    def read(self, name: str) -> DataFrame:
        """Return a table."""

    def read_batch(self, name: str, batch: date) -> DataFrame:
        """Return a batch of a table."""

    def read_rows(
        self, days: Sequence[date], months: Sequence[date] = (), cut: str = ""
    ) -> DataFrame:
        """Return rollups of some days, and a pre-aggregation of some months."""

    def begin(self, batches: Iterable[date]) -> None:
        """Mark batches as pending, before their rows are replaced."""

    def replace(self, name: str, rows: DataFrame, batches: Collection[date]) -> None:
        """Replace all rows of some batches."""

    def replace_month(self, rows: DataFrame, month: date) -> None:
        """Replace the pre-aggregations of a month."""

    def count_records(self, days: Collection[date]) -> dict[date, int]:
        """Return the number of records behind the rollups of some days."""

    def expire(self) -> None:
        """Remove files that no reader needs any more."""


def rollup_format(tables: Path) -> TableFormat:
    """Return the format of the rollups: their own, else that of the tables."""
    found = folder_format(tables / "rollups")
    if found is not None:
        return found
    if any((tables / "rollups").glob("batch=*")):
        return TableFormat.PARQUET
    return next(iter(formats(tables)), TableFormat.PARQUET)


def manifest_of(tables: Path) -> Manifest:
    """Return the marks of the batches; Delta and Iceberg own all files in their folders."""
    is_plain = rollup_format(tables) is TableFormat.PARQUET
    return Manifest(tables / ("rollups" if is_plain else "_rollups"))


def rollup_tables(spark: SparkSession, tables: Path) -> RollupTables:
    """Return the tables of rollups beside other tables."""
    found = rollup_format(tables)
    if found is TableFormat.PARQUET:
        return ParquetRollups(spark, tables)
    return LakeRollups(spark, tables, found)


@dataclass(frozen=True, slots=True)
class ParquetRollups:
    """Folders of Parquet files."""

    spark: SparkSession
    tables: Path

    def create(self) -> None:
        """Do nothing: a folder comes with its first rows."""

    def read(self, name: str) -> DataFrame:
        """Return a table; it is empty if it does not exist yet."""
        folder = self.tables / name
        if not any(folder.glob("batch=*")):
            return empty(self.spark, SCHEMAS[name])
        return self.spark.read.schema(SCHEMAS[name]).parquet(literal_path(folder))

    def read_batch(self, name: str, batch: date) -> DataFrame:
        """Return a batch; folders of others are not listed."""
        folder = self.tables / name / f"batch={batch}"
        if not folder.is_dir():
            return empty(self.spark, SCHEMAS[name])
        reader = self.spark.read.schema(SCHEMAS[name]).option("basePath", str(folder.parent))
        return reader.parquet(literal_path(folder))

    def read_rows(
        self, days: Sequence[date], months: Sequence[date] = (), cut: str = ""
    ) -> DataFrame:
        """Return rows of days and months, whose folders are read as one."""
        folders = [self.tables / _MONTHS / f"batch={month}" / f"cut={cut}" for month in months]
        folders += [self.tables / "rollups" / f"batch={day}" for day in days]
        paths = [literal_path(folder) for folder in folders if folder.is_dir()]
        return self.spark.read.schema(ROWS).parquet(*paths) if paths else empty(self.spark, ROWS)

    def begin(self, batches: Iterable[date]) -> None:
        """Mark batches as pending and remove their rows."""
        for batch in batches:
            self._clear("rollups", batch)
            for name in SCHEMAS.keys() - {"rollups"}:
                shutil.rmtree(self.tables / name / f"batch={batch}", ignore_errors=True)

    def replace(self, name: str, rows: DataFrame, batches: Collection[date]) -> None:  # noqa: ARG002
        """Write rows of batches; `begin` has removed the old ones."""
        rows.write.mode("append").partitionBy("batch").parquet(str(self.tables / name))

    def replace_month(self, rows: DataFrame, month: date) -> None:
        """Remove and write the rows of a month."""
        self._clear(_MONTHS, month)
        folder = self.tables / _MONTHS / f"batch={month}"
        rows.write.mode("append").partitionBy("cut").parquet(str(folder))

    def _clear(self, name: str, batch: date) -> None:
        manifest = Manifest(self.tables / name)
        manifest.mark(batch, PENDING)
        for path in manifest.of(batch).rglob("*.parquet"):
            path.unlink()

    def count_records(self, days: Collection[date]) -> dict[date, int]:
        """Return the number of records, read without Spark."""
        return count_rolled_up(self.tables / "rollups", days)

    def expire(self) -> None:
        """Do nothing: files are removed at once."""


@dataclass(frozen=True, slots=True)
class LakeRollups:
    """Tables of Delta or Iceberg. Each change of a table is one commit."""

    spark: SparkSession
    tables: Path
    format: TableFormat

    def _of(self, name: str) -> LakeTable:
        return lake_table(self.tables, _LAKE_NAMES.get(name, name), self.format)

    def create(self) -> None:
        """Create the tables, or add the columns that they lack."""
        for name, schema in SCHEMAS.items():
            self._of(name).create(empty(self.spark, schema), ["batch"])
        self._of(_MONTHS).create(empty(self.spark, _MONTH_ROWS), ["batch", "cut"])

    def read(self, name: str) -> DataFrame:
        """Return a table; columns that one of an earlier release lacks are null."""
        return select_known(self._of(name).read(self.spark), SCHEMAS[name])

    def read_batch(self, name: str, batch: date) -> DataFrame:
        """Return a batch."""
        return self.read(name).where(F.col("batch") == F.lit(batch))

    def read_rows(
        self, days: Sequence[date], months: Sequence[date] = (), cut: str = ""
    ) -> DataFrame:
        """Return the union of rows of days and months."""
        rows = self.read("rollups").where(F.col("batch").isin(list(days)))
        if not months:
            return rows.select(ROWS.fieldNames())
        wanted = F.col("batch").isin(list(months)) & (F.col("cut") == cut)
        merged = select_known(self._of(_MONTHS).read(self.spark), _MONTH_ROWS).where(wanted)
        names = ROWS.fieldNames()
        return rows.select(names).unionAll(merged.select(names))

    def begin(self, batches: Iterable[date]) -> None:
        """Mark batches as pending; their rows stay until others replace them."""
        for batch in batches:
            manifest_of(self.tables).mark(batch, PENDING)

    def replace(self, name: str, rows: DataFrame, batches: Collection[date]) -> None:
        """Replace all rows of some batches in one commit."""
        self._of(name).replace(rows, batches)

    def replace_month(self, rows: DataFrame, month: date) -> None:
        """Replace the rows of a month in one commit."""
        Manifest(self.tables / _MONTHS).mark(month, PENDING)
        self._of(_MONTHS).replace(rows.withColumn("batch", F.lit(month)), [month])

    def count_records(self, days: Collection[date]) -> dict[date, int]:
        """Return the number of records."""
        if not days:
            return {}
        rows = self.read("rollups").where("what = 'quality' AND kind = 'records'")
        sums = rows.where(F.col("batch").isin(list(days))).groupBy("batch").agg(F.sum("times"))
        return {batch: count or 0 for batch, count in sums.collect()}

    def expire(self) -> None:
        """Remove replaced files of all tables."""
        for name in (*SCHEMAS, _MONTHS):
            self._of(name).expire(self.spark)
