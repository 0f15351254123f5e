"""The store of rollups beside the tables, which computes missing and stale batches.

Theory of operation. A batch is computed again if its day's files changed, or if the batch before it
passes on a different state. Late data recompute their own day, and the next one only if it is
affected. A day's manifest entry is written after its rows, so a killed run counts as not done.
Days with a missing source keep their rollups (`aggregation.spark.rollups.final_days`). Only
computed days are read, so a day costs the same with a year before it.

Under ``--tables``: ``rollups`` (`aggregation.spark.rollups.rollups`), ``rebalances`` and
``incidents`` (one row each), ``_carry`` and ``_months`` (`aggregation.spark.rollups.months`), all
partitioned by ``batch``.
"""

import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.rollups.daily_rebalances import day_after
from aggregation.spark.rollups.final_days import (
    count_rolled_up,
    final_entries,
    find_changed_days,
    report_late,
)
from aggregation.spark.rollups.group_rebalances import CARRIED, INCIDENTS, REBALANCES
from aggregation.spark.rollups.months import ORDER, Months, missing
from aggregation.spark.rollups.open_episodes import CARRIED_PARTS
from aggregation.spark.rollups.parquet_scan import files_of
from aggregation.spark.rollups.preaggregations import By, PreAggregation
from aggregation.spark.rollups.rollup_job import DayRange, compute
from aggregation.spark.rollups.rollup_manifest import (
    LAYOUT,
    NOTHING,
    PENDING,
    Manifest,
    RollupBatch,
)
from aggregation.spark.rollups.rollups import ROLLUPS
from aggregation.spark.tables.period import Period
from aggregation.spark.tables.retention import retention_horizon
from aggregation.spark.tables.schema import (
    Table,
    empty,
    formats,
    literal_path,
    read_days,
)
from aggregation.spark.tables.table_fingerprint import (
    count_parquet,
    count_records,
    fingerprints,
    parquet_fingerprints,
)
from aggregation.spark.tables.tables import check_local

RANGE_DAYS = 7
"""Days that are computed together: a worker holds a group's events of all of them."""
_BEFORE_ALL = date(1969, 12, 31)
"""The day before the first one that a record can have."""
Notify = Callable[[str], None]


def check_tables(tables: Path) -> None:
    """Check without Spark that there is something to report.

    Raises:
        SparkSetupError: there are no tables.
        SparkJobError: they are empty.

    """
    check_local(tables)
    if not any((tables / table).is_dir() for table in (Table.TRANSITIONS, Table.SAMPLES)):
        raise SparkSetupError(f"no tables in {str(tables)!r}; run rebalance-agent ingest first")
    if not formats(tables) and not Manifest(tables / "rollups").complete_entries():
        raise SparkJobError(f"the tables in {str(tables)!r} are empty: there is nothing to report")


def is_up_to_date(tables: Path) -> bool:
    """Return, without Spark, whether all is computed; False if only Spark could know."""
    files, manifest = parquet_fingerprints(tables), Manifest(tables / "rollups")
    if files is None:
        return False
    known = manifest.complete_entries()
    present = count_parquet(tables, find_changed_days(known, files))
    if _final_entries(tables, known, files, present) or _stale(known, files):
        return False
    return not missing(manifest, tables / "_months")


def _final_entries(
    tables: Path,
    known: Mapping[date, RollupBatch],
    files: Mapping[date, str],
    present: Mapping[date, int],
) -> dict[date, RollupBatch]:
    rolled_up = count_rolled_up(tables / "rollups", present)
    return final_entries(known, files, (present, rolled_up), retention_horizon(tables))


def _stale(known: Mapping[date, RollupBatch], files: Mapping[date, str]) -> list[date]:
    """Return the first consecutive days that must be computed."""
    span: list[date] = []
    for before, day in pairwise([_BEFORE_ALL, *sorted({*known, *files})]):
        batch = known.get(day, NOTHING)
        if batch.is_final and not span:
            continue
        is_new = day in files and batch.layout != LAYOUT and not batch.is_final
        fits = batch.files == files.get(day, batch.files) and not is_new
        if not span and fits and batch.carried_in == known.get(before, NOTHING).carries:
            continue
        if len(span) == RANGE_DAYS or (span and fits) or batch.is_final or day not in files:
            break
        span.append(day)
    return span


class RollupStore:
    """The rollups of one set of tables. The caller holds their lock."""

    def __init__(self, spark: SparkSession, tables: Path) -> None:
        """Open the store.

        Raises:
            SparkSetupError: there are no tables.
            SparkJobError: they are empty.

        """
        check_tables(tables)
        self._spark, self._tables = spark, tables
        self._manifest = Manifest(tables / "rollups")
        self._months = Months(spark, self._manifest, tables / "_months")

    def rollups(self) -> DataFrame:
        """Return the table of rollups."""
        return self._read("rollups", ROLLUPS)

    def rollups_of(self, by: By, *periods: Period) -> Mapping[PreAggregation, DataFrame]:
        """Return equivalent rollups of these periods with fewer rows, without ``batch``."""
        return self._months.rollups_of(periods, by)

    def days(self) -> list[date]:
        """Return the days that have records."""
        return list(self._manifest.complete_entries())

    def rebalances(self) -> DataFrame:
        """Return all rebalances of groups, one row each."""
        return self._read("rebalances", REBALANCES)

    def incidents(self) -> DataFrame:
        """Return all incidents of groups, one row each."""
        return self._read("incidents", INCIDENTS)

    def update(self, notify: Notify) -> list[date]:
        """Compute missing and stale batches and return their days."""
        files = fingerprints(self._spark, self._tables)
        self._close_days(files, notify)
        done: list[date] = []
        while span := _stale(self._manifest.complete_entries(), files):
            notify(f"rollups of {span[0]}" + (f" to {span[-1]}" if span[1:] else ""))
            self._compute(span, files)
            done += span
        self._months.update(notify)
        return done

    def _close_days(self, files: Mapping[date, str], notify: Notify) -> None:
        """Mark days as final if a part of their source is gone."""
        known = self._manifest.complete_entries()
        present = count_records(self._spark, self._tables, find_changed_days(known, files))
        entries = _final_entries(self._tables, known, files, present)
        for day, entry in entries.items():
            self._manifest.mark(day, entry)
        report_late(entries, notify)

    def late_records(self) -> dict[date, int]:
        """Return the number of records that final days do not count."""
        known = self._manifest.complete_entries()
        return {day: batch.late for day, batch in known.items() if batch.late}

    def _compute(self, span: list[date], files: Mapping[date, str]) -> None:
        known = self._manifest.complete_entries()
        before = max((day for day in known if day < span[0]), default=_BEFORE_ALL)
        is_last = span[-1] == max({*known, *files})
        asked = DayRange(
            days=tuple(span),
            before=before,
            carried=self._of("_carry/groups", CARRIED, before),
            parts=self._of("_carry/members", CARRIED_PARTS, before),
            transitions=read_days(self._spark, self._tables, Table.TRANSITIONS, span),
            samples=read_days(self._spark, self._tables, Table.SAMPLES, span),
            files=files_of(self._tables, Table.TRANSITIONS, span),
        )
        batches = [*span, day_after(span[-1])] if is_last else span
        # if days follow, the batch after the last day stays as it is
        over = [d for d, b in self._manifest.entries().items() if b == PENDING] if is_last else []
        self._forget(batches, over)
        with compute(asked, batches) as found:
            self._append("_carry/groups", found.carried)
            self._append("_carry/members", found.parts)
            self._append("rebalances", found.rebalances)
            self._append("incidents", found.incidents)
            carries = self._digests(found.carried, found.parts)
            starts = found.rebalances.select("batch", "day").unionAll(
                found.incidents.select("batch", "day")
            )
            began = starts.groupBy("batch").agg(F.min("day").alias("day")).collect()
            rows = found.rollups.hint("rebalance", "batch")
            self._append("rollups", rows.sortWithinPartitions("batch", *ORDER))
        came, since = known.get(before, NOTHING).carries, {row.batch: row.day for row in began}
        for day in span:
            went = carries.get(day, "")
            batch = RollupBatch(
                files=files[day],
                carried_in=came,
                carries=went,
                since=since.get(day),
                layout=LAYOUT,
            )
            self._manifest.mark(day, batch)
            came = went

    def _digests(self, *carried: DataFrame) -> dict[date, str]:
        """Return a digest of the state that each batch passes on."""
        found: dict[date, list[str]] = defaultdict(list)
        for frame in carried:
            hashes = frame.groupBy("batch").agg(F.bit_xor(F.xxhash64(*frame.columns)).alias("x"))
            for row in hashes.collect():
                found[row.batch].append(f"{row.x:x}")
        return {batch: " ".join(each) for batch, each in found.items()}

    def _of(self, name: str, schema: T.StructType, batch: date) -> DataFrame:
        folder = self._tables / name / f"batch={batch}"
        if not folder.is_dir():
            return empty(self._spark, schema)
        base = str(folder.parent)
        return (
            self._spark.read.schema(schema).option("basePath", base).parquet(literal_path(folder))
        )

    def _read(self, name: str, schema: T.StructType) -> DataFrame:
        folder = self._tables / name
        if not any(folder.glob("batch=*")):
            return empty(self._spark, schema)
        return self._spark.read.schema(schema).parquet(literal_path(folder))

    def _forget(self, batches: Sequence[date], over: Sequence[date]) -> None:
        """Remove all rows of batches that are recomputed now, and of batches that are obsolete."""
        for batch in {*batches, *over}:
            self._manifest.empty(batch)
            for name in ("rebalances", "incidents", "_carry/groups", "_carry/members"):
                shutil.rmtree(self._tables / name / f"batch={batch}", ignore_errors=True)
        for batch in set(over) - set(batches):
            shutil.rmtree(self._manifest.of(batch))

    def _append(self, name: str, rows: DataFrame) -> None:
        rows.write.mode("append").partitionBy("batch").parquet(str(self._tables / name))
