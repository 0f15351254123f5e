"""Rollups merged by month, so that a year is a few files and a small part of the rows.

Theory of operation. A month holds the pre-aggregations that sections of the report need
(`aggregation.spark.rollups.preaggregations`). It is computed once its last day or a later one is
present, and again after a change of one of its batches. It replaces its batches if a period holds
all of it or none, and if no later batch has a rebalance that began before its last day. For other
months the batches themselves are read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame

from aggregation.spark.rollups.preaggregations import By, PreAggregation, preaggregate
from aggregation.spark.rollups.rollup_manifest import PENDING, Manifest, RollupBatch
from aggregation.spark.rollups.rollup_tables import RollupTables
from aggregation.spark.tables.period import Period, month_end

ORDER = ("what", "day", "group")
"""Order of rows in a file: a section's rows are adjacent, and pages of others are skipped."""
_LAYOUT = b"6"
"""A month in another layout is computed again."""


@dataclass(frozen=True, slots=True)
class Months:
    """The months of a folder of batches, each named by its first day."""

    rows: RollupTables
    manifest: Manifest
    folder: Path

    def update(self, notify: Callable[[str], None]) -> list[date]:
        """Compute the complete months that are missing or stale, and return them."""
        done, marked = [], self.manifest.entries()
        for month, made_of in missing(self.manifest, self.folder).items():
            notify(f"rollups of {month:%B %Y}")
            days = [day for day in marked if day.replace(day=1) == month]
            rows = preaggregate(self.rows.read_rows(days), month).coalesce(1)
            self.rows.replace_month(rows.sortWithinPartitions("cut", *ORDER), month)
            Manifest(self.folder).mark(month, made_of)
            done.append(month)
        return done

    def rollups_of(self, periods: Sequence[Period], by: By) -> Mapping[PreAggregation, DataFrame]:
        """Return rows that give each pre-aggregation's queries the same results as all batches."""
        known, marked = Manifest(self.folder).entries(), self.manifest.entries()
        whole = [
            month
            for month, made_of in _over(marked).items()
            if known.get(month) == made_of
            and not any(_splits(period, month) for period in periods)
            and not any(_reaches_into(month, day, batch) for day, batch in marked.items())
        ]
        days = [day for day in marked if day.replace(day=1) not in whole]
        return {
            cut: self.rows.read_rows(days, whole, cut.partition_name(by)) for cut in PreAggregation
        }


def missing(manifest: Manifest, folder: Path) -> Mapping[date, RollupBatch]:
    """Return the months to compute, each with its fingerprint."""
    known = Manifest(folder).entries()
    over = _over(manifest.entries())
    return {month: made_of for month, made_of in over.items() if known.get(month) != made_of}


def _over(marked: Mapping[date, RollupBatch]) -> Mapping[date, RollupBatch]:
    """Return the complete months, each with its fingerprint."""
    last = max((day for day, batch in marked.items() if batch != PENDING), default=date.min)
    months: dict[date, list[RollupBatch]] = {}
    for day, batch in marked.items():
        months.setdefault(day.replace(day=1), []).append(batch)
    return {
        month: RollupBatch(files=sha256(_LAYOUT + msgspec.json.encode(batches)).hexdigest()[:16])
        for month, batches in months.items()
        if month_end(month) <= last and PENDING not in batches
    }


def _splits(period: Period, month: date) -> bool:
    """Return whether a part of the month, but not all of it, is within the period."""
    end = month_end(month)
    apart = end < period.first or period.last < month
    return not apart and not (period.first <= month and end <= period.last)


def _reaches_into(month: date, day: date, batch: RollupBatch) -> bool:
    """Return whether a later batch has rebalances from before the month's last day."""
    end = month_end(month)
    return day > end and batch.since is not None and batch.since < end
