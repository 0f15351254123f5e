"""The store of rollups beside the tables, which computes missing and stale batches.

Theory of operation. A batch is computed again if its day's files changed, or if the batch before it
passes on a different state. Late data recompute their own day, and the next one only if it is
affected. A day's manifest entry is written after its rows, so a killed run counts as not done.
Days with a missing source keep their rollups (`aggregation.spark.rollups.final_days`). Only
computed days are read, so a day costs the same with a year before it.

The tables (`aggregation.spark.rollups.rollup_tables`) are ``rollups``, ``rebalances`` and
``incidents`` (one row each), ``_carry`` and ``_months`` (`aggregation.spark.rollups.months`), all
partitioned by ``batch``.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from itertools import pairwise
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.rollups.daily_rebalances import day_after
from aggregation.spark.rollups.final_days import (
    count_gone,
    count_rolled_up,
    final_entries,
    find_changed_days,
    report_late,
)
from aggregation.spark.rollups.months import ORDER, Months, missing
from aggregation.spark.rollups.parquet_scan import files_of
from aggregation.spark.rollups.preaggregations import By, PreAggregation
from aggregation.spark.rollups.rollup_job import DayRange, compute
from aggregation.spark.rollups.rollup_manifest import (
    LAYOUT,
    NOTHING,
    PENDING,
    RollupBatch,
)
from aggregation.spark.rollups.rollup_tables import manifest_of, rollup_format, rollup_tables
from aggregation.spark.tables.foreign_files import check_days
from aggregation.spark.tables.period import Period
from aggregation.spark.tables.retention import removed_records, retention_horizon
from aggregation.spark.tables.schema import (
    Table,
    formats,
    read_days,
)
from aggregation.spark.tables.table_fingerprint import (
    count_parquet,
    count_records,
    fingerprints,
    parquet_fingerprints,
)
from aggregation.spark.tables.table_place import TableFormat, check_local, read_place

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
    is_here = any((tables / table).is_dir() for table in (Table.TRANSITIONS, Table.SAMPLES))
    if not is_here and read_place(tables) is None:
        raise SparkSetupError(f"no tables in {str(tables)!r}; run rebalance-agent ingest first")
    if not formats(tables) and not manifest_of(tables).complete_entries():
        raise SparkJobError(f"the tables in {str(tables)!r} are empty: there is nothing to report")


def is_up_to_date(tables: Path) -> bool:
    """Return, without Spark, whether all is computed; False if only Spark could know."""
    files, manifest = parquet_fingerprints(tables), manifest_of(tables)
    if files is None or rollup_format(tables) is not TableFormat.PARQUET:
        return False
    known = manifest.complete_entries()
    present = count_parquet(tables, find_changed_days(known, files))
    present |= count_gone(known, files, removed_records(tables))
    rolled_up = count_rolled_up(tables / "rollups", present)
    horizon = retention_horizon(tables)
    if final_entries(known, files, (present, rolled_up), horizon) or _stale(known, files):
        return False
    return not missing(manifest, tables / "_months")


def _stale(
    known: Mapping[date, RollupBatch], files: Mapping[date, str], ahead: int = 0
) -> list[date]:
    """Return the first consecutive days that must be computed.

    ``ahead`` more days follow them, whose state probably differs, too.
    """
    span: list[date] = []
    for before, day in pairwise([_BEFORE_ALL, *sorted({*known, *files})]):
        batch = known.get(day, NOTHING)
        if batch.is_final and not span:
            continue
        is_new = day in files and batch.layout != LAYOUT and not batch.is_final
        fits = batch.files == files.get(day, batch.files) and not is_new
        if not span and fits and batch.carried_in == known.get(before, NOTHING).carries:
            continue
        if span and fits:
            ahead -= 1
        if len(span) == RANGE_DAYS or ahead < 0 or batch.is_final or day not in files:
            break
        span.append(day)
    return span


def _spans(
    read_entries: Callable[[], Mapping[date, RollupBatch]], files: Mapping[date, str]
) -> Iterator[list[date]]:
    """Yield days to compute until none is stale; the caller computes them meanwhile.

    The state after late data may differ for weeks. Each computation has a price of its own, so the
    spans of such days grow: one day, two, four.
    """
    last, ahead = _BEFORE_ALL, 0
    while span := _stale(read_entries(), files, ahead):
        ahead = min(RANGE_DAYS, 2 * ahead + 1) if span[0] == day_after(last) else 0
        last = span[-1]
        yield span


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
        self._manifest, self._rows = manifest_of(tables), rollup_tables(spark, tables)
        self._months = Months(self._rows, self._manifest, tables / "_months")

    def rollups(self) -> DataFrame:
        """Return the table of rollups."""
        return self._rows.read("rollups")

    def rollups_of(self, by: By, *periods: Period) -> Mapping[PreAggregation, DataFrame]:
        """Return equivalent rollups of these periods with fewer rows, without ``batch``."""
        return self._months.rollups_of(periods, by)

    def days(self) -> list[date]:
        """Return the days that have records."""
        return list(self._manifest.complete_entries())

    def pin(self) -> Callable[[], None]:
        """Return a check for the end of reading; Delta and Iceberg have snapshots and need none."""
        is_plain = rollup_format(self._tables) is TableFormat.PARQUET
        return self._manifest.pin() if is_plain else lambda: None

    def rebalances(self) -> DataFrame:
        """Return all rebalances of groups, one row each."""
        return self._rows.read("rebalances")

    def incidents(self) -> DataFrame:
        """Return all incidents of groups, one row each."""
        return self._rows.read("incidents")

    def update(self, notify: Notify) -> list[date]:
        """Compute missing and stale batches and return their days."""
        entries = self._manifest.entries()
        is_first = not entries
        if is_first or any(batch.layout != LAYOUT for batch in entries.values()):
            self._rows.create()
        files = fingerprints(self._spark, self._tables)
        self._close_days(files, notify)
        done: list[date] = []
        for span in _spans(self._manifest.complete_entries, files):
            notify(f"rollups of {span[0]}" + (f" to {span[-1]}" if span[1:] else ""))
            self._compute(span, files)
            done += span
        if self._months.update(notify) and not is_first:
            self._rows.expire()  # once a month is often enough
        return done

    def _close_days(self, files: Mapping[date, str], notify: Notify) -> None:
        """Mark days as final if a part of their source is gone."""
        known = self._manifest.complete_entries()
        present = count_records(self._spark, self._tables, find_changed_days(known, files))
        present |= count_gone(known, files, removed_records(self._tables))
        counts = present, self._rows.count_records(present)
        entries = final_entries(known, files, counts, retention_horizon(self._tables))
        for day, entry in entries.items():
            self._manifest.mark(day, entry)
        report_late(entries, notify)

    def late_records(self) -> dict[date, int]:
        """Return the number of records that final days do not count."""
        known = self._manifest.complete_entries()
        return {day: batch.late for day, batch in known.items() if batch.late}

    def _compute(self, span: list[date], files: Mapping[date, str]) -> None:
        for table in (Table.TRANSITIONS, Table.SAMPLES):
            check_days(self._tables, table, span)
        known = self._manifest.complete_entries()
        before = max((day for day in known if day < span[0]), default=_BEFORE_ALL)
        is_last = span[-1] == max({*known, *files})
        asked = DayRange(
            days=tuple(span),
            before=before,
            carried=self._rows.read_batch("_carry/groups", before),
            parts=self._rows.read_batch("_carry/members", before),
            transitions=read_days(self._spark, self._tables, Table.TRANSITIONS, span),
            samples=read_days(self._spark, self._tables, Table.SAMPLES, span),
            files=files_of(self._tables, Table.TRANSITIONS, span),
        )
        batches = [*span, day_after(span[-1])] if is_last else span
        # if days follow, the batch after the last day stays as it is
        over = [d for d, b in self._manifest.entries().items() if b == PENDING] if is_last else []
        replaced = {*batches, *over}
        self._rows.begin(replaced)
        with compute(asked, batches) as found:
            self._rows.replace("_carry/groups", found.carried, replaced)
            self._rows.replace("_carry/members", found.parts, replaced)
            self._rows.replace("rebalances", found.rebalances, replaced)
            self._rows.replace("incidents", found.incidents, replaced)
            carries = self._digests(found.carried, found.parts)
            starts = found.rebalances.select("batch", "day").unionAll(
                found.incidents.select("batch", "day")
            )
            began = starts.groupBy("batch").agg(F.min("day").alias("day")).collect()
            rows = found.rollups.hint("rebalance", "batch")
            in_order = rows.sortWithinPartitions("batch", *ORDER)
            self._rows.replace("rollups", in_order, replaced)
        for day in replaced - {*batches}:
            self._manifest.forget(day)
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
