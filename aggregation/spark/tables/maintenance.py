"""Maintenance of the tables: compaction of small files and retention of days.

Theory of operation. Each batch leaves a small file in each day that it touches. Delta and Iceberg
merge and delete in their own commits. For Parquet a day's small files are merged beside the table,
in a folder that also gets links to the day's large files. Then the two folders exchange names in
one step, and an old day leaves by one rename, after the retention horizon and the number of its
records are written. So a kill at any moment leaves the old day or the new one, and files in
``_upkeep`` are garbage. The caller holds the tables' lock.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from aggregation.spark.errors import SparkJobError
from aggregation.spark.tables.atomic_swap import exchange
from aggregation.spark.tables.foreign_files import check_files
from aggregation.spark.tables.retention import keep_removed, raise_horizon
from aggregation.spark.tables.schema import COLUMNS, Table, literal_path, table_format
from aggregation.spark.tables.table_fingerprint import count_before
from aggregation.spark.tables.table_place import TableFormat
from aggregation.spark.tables.tables import Tables

EVERY_S = 3600.0
"""Interval of maintenance in a continuous ingest."""
SMALL_BYTES = 64 << 20
"""A file below this size is merged with others, so a file is rewritten only a few times."""
_MERGED_BYTES = 256 << 20
MIN_FILES = 8
"""A day with fewer small files is not merged."""
_WORK = "_upkeep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Compaction and retention for the tables of one folder."""

    tables: Tables
    keep_days: int | None = None
    notify: Callable[[str], None]

    def run(self, spark: SparkSession, today: date | None = None) -> None:
        """Remove days before the last ``keep_days``, then merge small files."""
        shutil.rmtree(self.tables.folder / _WORK, ignore_errors=True)
        first = self.raise_horizon(today)
        for table in Table:
            if table_format(self.tables.folder, table) is None:
                continue
            if first is not None:
                if table is not Table.QUARANTINE:
                    counts = count_before(spark, self.tables.folder, table, first)
                    keep_removed(self.tables.folder, table, counts)
                self._expire(spark, table, first)
            self._merge(spark, table)

    def raise_horizon(self, today: date | None = None) -> date | None:
        """Write the first day that is kept, and return it; None keeps all."""
        if self.keep_days is None:
            return None
        first = (today or datetime.now(UTC).date()) - timedelta(days=self.keep_days)
        raise_horizon(self.tables.folder, first)
        return first

    def _expire(self, spark: SparkSession, table: Table, first: date) -> None:
        match self.tables.format:
            case TableFormat.PARQUET:
                work = self.tables.folder / _WORK
                work.mkdir(exist_ok=True)
                for folder in self._days(table):
                    if folder.name < f"day={first}":
                        folder.rename(work / f"{table}-{folder.name}")
                        self.notify(f"{table}: {folder.name} is older than {first} and was removed")
                shutil.rmtree(work)
            case TableFormat.DELTA | TableFormat.ICEBERG:
                name = self.tables.lake(table).name(spark)
                spark.sql(f"DELETE FROM {name} WHERE day < date'{first}'")  # noqa: S608 - ours

    def _merge(self, spark: SparkSession, table: Table) -> None:
        match self.tables.format:
            case TableFormat.PARQUET:
                for folder in self._days(table):
                    self._merge_day(spark, table, folder)
            case TableFormat.DELTA:
                self._merge_delta(spark, table)
            case TableFormat.ICEBERG:
                self._merge_iceberg(spark, table)

    def _days(self, table: Table) -> Iterator[Path]:
        yield from sorted((self.tables.folder / table).glob("day=*"))

    def _merge_day(self, spark: SparkSession, table: Table, day: Path) -> None:
        files = {path: path.stat().st_size for path in day.glob("*.parquet")}
        small = [path for path, size in files.items() if size < SMALL_BYTES]
        if len(small) < MIN_FILES:
            return
        try:
            check_files(table, small)
        except SparkJobError as error:
            self.notify(f"{table}: {day.name} stays in {len(small)} small files: {error}")
            return
        work = self.tables.folder / _WORK
        merged, whole = work / "merged", work / day.name
        rows = spark.read.schema(COLUMNS[table]).parquet(*map(literal_path, small)).drop("day")
        order = "ts" if "ts" in rows.columns else "id"
        count = 1 + sum(files[path] for path in small) // _MERGED_BYTES
        in_order = rows.repartitionByRange(count, order).sortWithinPartitions(order)
        in_order.write.mode("overwrite").parquet(str(merged))
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir()
        for path in files.keys() - set(small):
            os.link(path, whole / path.name)
        for path in merged.glob("*.parquet"):
            path.rename(whole / path.name)
        try:
            exchange(whole, day)
        except OSError as error:
            self.notify(f"{table}: {day.name} stays in {len(small)} small files: {error.strerror}")
        else:
            self.notify(f"{table}: {day.name} had {len(small)} small files, merged")
        shutil.rmtree(work)

    def _merge_delta(self, spark: SparkSession, table: Table) -> None:
        days: dict[str, int] = {}
        for file in self.tables.read(spark, table).inputFiles():
            day = file.rpartition("/")[0]
            days[day] = days.get(day, 0) + 1
        if max(days.values(), default=0) >= MIN_FILES:
            lake = self.tables.lake(table)
            spark.sql(f"OPTIMIZE {lake.name(spark)}")
            lake.expire(spark)
            self.notify(f"{table}: small files merged")

    def _merge_iceberg(self, spark: SparkSession, table: Table) -> None:
        lake = self.tables.lake(table)
        catalog, _, name = lake.name(spark).partition(".")
        options = f"map('min-input-files', '{MIN_FILES}')"
        (done,) = spark.sql(
            f"CALL {catalog}.system.rewrite_data_files(table => '{name}', options => {options})"
        ).collect()
        if done.rewritten_data_files_count:
            lake.expire(spark)
            self.notify(f"{table}: {done.rewritten_data_files_count} small files merged")
