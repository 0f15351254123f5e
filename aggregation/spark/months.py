"""Months of rollups put together, so that a year is a few files and a tenth of the rows.

Theory of operation. What reports ask of a whole period alone (`_MERGED`) is added up over a month's
days and counts as its first day; all other rows keep their days. A month is made when its last day,
or a later one, is there, and again when one of its batches was. It stands for its batches where a
period holds it whole, or nothing of it; of other months the batches themselves are read.
"""

from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812

from aggregation.spark.batches import PENDING, Batch, Batches
from aggregation.spark.period import Period
from aggregation.spark.rollups import ROLLUPS
from aggregation.spark.schema import empty, literal_path

ORDER = ("what", "day", "group")
"""Of the rows in a file: a section's are side by side, and the others' pages are passed over."""
_MERGED = ("member", "status", "duration", "straggler", "follow_up")
_SUMS = ("times", "seconds", "member_seconds")
_LAST = ("last_at", "last_reason")
_ROWS = T.StructType([field for field in ROLLUPS if field.name != "batch"])


@dataclass(frozen=True, slots=True)
class Months:
    """The months of some batches, each by its first day."""

    spark: SparkSession
    batches: Batches
    folder: Path

    def update(self, say: Callable[[str], None]) -> None:
        """Make the months that are over and were not made of what there is now."""
        months = Batches(self.folder)
        known = months.marked()
        for month, made_of in self._over().items():
            if known.get(month) == made_of:
                continue
            say(f"rollups of {month:%B %Y}")
            months.empty(month)
            rows = merged(self._read(self._folders(month)), month)
            in_order = rows.coalesce(1).sortWithinPartitions(*ORDER)
            in_order.write.mode("append").parquet(str(months.of(month)))
            months.mark(month, made_of)

    def rollups_of(self, periods: Sequence[Period]) -> DataFrame:
        """Return rows that add up to the same as all batches' in each of the periods."""
        known, over = Batches(self.folder).marked(), self._over()
        whole = {
            month
            for month, made_of in over.items()
            if known.get(month) == made_of and not any(_cuts(period, month) for period in periods)
        }
        days = [self.batches.of(d) for d in self.batches.marked() if d.replace(day=1) not in whole]
        return self._read([*(Batches(self.folder).of(month) for month in sorted(whole)), *days])

    def _over(self) -> Mapping[date, Batch]:
        """Return which months are over, and what they are made of."""
        marked = self.batches.marked()
        last = max((day for day, batch in marked.items() if batch != PENDING), default=date.min)
        months: dict[date, list[Batch]] = {}
        for day, batch in marked.items():
            months.setdefault(day.replace(day=1), []).append(batch)
        return {
            month: Batch(files=sha256(msgspec.json.encode(batches)).hexdigest()[:16])
            for month, batches in months.items()
            if _last_day(month) <= last and PENDING not in batches
        }

    def _folders(self, month: date) -> list[Path]:
        return [self.batches.of(d) for d in self.batches.marked() if d.replace(day=1) == month]

    def _read(self, folders: Iterable[Path]) -> DataFrame:
        paths = [literal_path(folder) for folder in folders]
        return self.spark.read.schema(_ROWS).parquet(*paths) if paths else empty(self.spark, _ROWS)


def merged(rows: DataFrame, month: date) -> DataFrame:
    """Add up a month's rows; what began in another month keeps its day."""
    is_trigger, within = F.col("what") == "trigger", F.trunc("day", "month") == F.lit(month)
    is_merged = within & (is_trigger | F.col("what").isin(*_MERGED))
    reason = F.max(F.struct(*_LAST))
    parts = [
        rows.where(~is_merged),
        _together(rows.where(within & F.col("what").isin(*_MERGED)), month, F.lit(None)),
        _together(rows.where(within & is_trigger), month, reason),
    ]
    return parts[0].unionByName(parts[1]).unionByName(parts[2])


def _together(rows: DataFrame, month: date, last: Column) -> DataFrame:
    keys = [name for name in _ROWS.names if name not in {"day", *_SUMS, *_LAST}]
    return (
        rows.groupBy(*keys)
        .agg(*(F.sum(name).alias(name) for name in _SUMS), last.alias("last"))
        .select(
            *keys,
            *_SUMS,
            F.lit(month).alias("day"),
            *(F.col("last").cast(_LAST_TYPE)[name].alias(name) for name in _LAST),
        )
    )


_LAST_TYPE = T.StructType([field for field in _ROWS if field.name in _LAST])


def _cuts(period: Period, month: date) -> bool:
    """Whether a part of the month, but not all of it, is within the period."""
    end = _last_day(month)
    apart = end < period.first or period.last < month
    return not apart and not (period.first <= month and end <= period.last)


def _last_day(month: date) -> date:
    return month.replace(day=monthrange(month.year, month.month)[1])
