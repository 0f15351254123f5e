"""Keeps the rollups beside the tables, and computes what is missing or no longer true.

Theory of operation. A batch is done again when the files of its day have changed, or when the batch
before it carries on something else than it was made of: late data redo their own day, and the next
one only where it makes a difference. What a day is made of and its rows are one write, the last of
several: a run that was killed is simply not done. Days whose files are gone keep their rollups.

Under ``--tables``: ``rollups`` (`aggregation.spark.rollups`), ``rebalances`` (one row each), and
``_carry``, all partitioned by ``batch``.
"""

import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.group_days import day_after
from aggregation.spark.group_rebalances import CARRIED, REBALANCES
from aggregation.spark.rollups import ROLLUPS
from aggregation.spark.schema import Table, literal_path, read_table, table_format
from aggregation.spark.span import Span, compute
from aggregation.spark.unfinished import CARRIED_PARTS

SPAN_DAYS = 7
"""So many days are computed in one go: a worker holds a group's events of them."""
_BEFORE_ALL = date(1970, 1, 1)
_PENDING = "pending"
_FILE_DAY = re.compile(r"/day=(\d{4}-\d\d-\d\d)/")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a batch was made of, and a digest of what it carries on."""

    files: str
    carried_in: str
    carries: str


_NOTHING = Batch(files="", carried_in="", carries="")


class RollupStore:
    """The rollups of one set of tables. The caller holds their lock."""

    def __init__(self, spark: SparkSession, tables: Path) -> None:
        """Take what there is.

        Raises:
            SparkSetupError: there are no tables.

        """
        if not any((tables / table).is_dir() for table in (Table.TRANSITIONS, Table.SAMPLES)):
            raise SparkSetupError(f"no tables in {str(tables)!r}; run rebalance-agent ingest first")
        self._spark, self._tables = spark, tables

    def rollups(self) -> DataFrame:
        """Return the table of rollups."""
        return self._read("rollups", ROLLUPS)

    def rebalances(self) -> DataFrame:
        """Return all rebalances of groups, one row each."""
        return self._read("rebalances", REBALANCES)

    def update(self, say: Say) -> list[date]:
        """Compute what is missing or stale and return which days that were.

        Raises:
            SparkJobError: the tables are empty.

        """
        files = self._files()
        done: list[date] = []
        while span := self._stale(files):
            say(f"rollups of {span[0]}" + (f" to {span[-1]}" if span[1:] else ""))
            self._compute(span, files)
            done += span
        if not files and not self._batches():
            raise SparkJobError("the tables are empty: there is nothing to report")
        return done

    def _stale(self, files: Mapping[date, str]) -> list[date]:
        """Return the first days in a row that must be computed."""
        known = self._batches()
        span: list[date] = []
        for before, day in pairwise([_BEFORE_ALL, *sorted({*known, *files})]):
            batch = known.get(day, _NOTHING)
            fits = batch.files == files.get(day, batch.files)
            if not span and fits and batch.carried_in == known.get(before, _NOTHING).carries:
                continue
            if len(span) == SPAN_DAYS or (span and fits) or day not in files:
                break
            span.append(day)
        return span

    def _compute(self, span: list[date], files: Mapping[date, str]) -> None:
        known = self._batches()
        before = max((day for day in known if day < span[0]), default=_BEFORE_ALL)
        is_last = span[-1] == max({*known, *files})
        asked = Span(
            days=tuple(span),
            before=before,
            carried=self._of("_carry/groups", CARRIED, before),
            parts=self._of("_carry/members", CARRIED_PARTS, before),
            transitions=self._days(Table.TRANSITIONS, span),
            samples=self._days(Table.SAMPLES, span),
        )
        batches = [*span, day_after(span[-1])] if is_last else span
        over = self._pending() if is_last else []  # else what is open at the end stays as it is
        self._forget([*batches, *over])
        with compute(asked, batches) as found:
            self._append("_carry/groups", found.carried)
            self._append("_carry/members", found.parts)
            self._append("rebalances", found.rebalances)
            carries = self._digests(found.carried, found.parts)
            marks = self._marks(batches, files, carries, known.get(before, _NOTHING).carries)
            self._append("rollups", found.rollups.unionByName(marks))

    def _digests(self, *carried: DataFrame) -> dict[date, str]:
        """Return a digest of what each batch carries on."""
        found: dict[date, list[str]] = defaultdict(list)
        for frame in carried:
            hashes = frame.groupBy("batch").agg(F.bit_xor(F.xxhash64(*frame.columns)).alias("x"))
            for row in hashes.collect():
                found[row.batch].append(f"{row.x:x}")
        return {batch: " ".join(each) for batch, each in found.items()}

    def _marks(
        self,
        batches: Sequence[date],
        files: Mapping[date, str],
        carries: Mapping[date, str],
        carried_in: str,
    ) -> DataFrame:
        """Return the rows that tell what the batches were made of."""
        handed = [carried_in, *(carries.get(batch, "") for batch in batches)]
        rows = [
            (batch, "batch", files.get(batch, _PENDING), came, went, 1)
            for batch, (came, went) in zip(batches, pairwise(handed), strict=True)
        ]
        schema = "batch date, what string, kind string, last_reason string, host string, times int"
        marks = self._spark.createDataFrame(rows, schema)
        return marks.select(
            *(
                (F.col(f.name) if f.name in marks.columns else F.lit(None))
                .cast(f.dataType)
                .alias(f.name)
                for f in ROLLUPS
            )
        )

    def _marked(self) -> Iterable[T.Row]:
        return self.rollups().where(F.col("what") == "batch").collect()

    def _batches(self) -> dict[date, Batch]:
        return {
            row.batch: Batch(files=row.kind, carried_in=row.last_reason, carries=row.host)
            for row in self._marked()
            if row.kind != _PENDING
        }

    def _pending(self) -> list[date]:
        return [row.batch for row in self._marked() if row.kind == _PENDING]

    def _files(self) -> dict[date, str]:
        """Return of what the tables consist on each day: a digest."""
        parts: dict[date, list[str]] = defaultdict(list)
        for table in (Table.TRANSITIONS, Table.SAMPLES):
            if table_format(self._tables, table) is not None:
                for day, part in _content(read_table(self._spark, self._tables, table)):
                    parts[day].append(part)
        return {
            day: sha256("\n".join(sorted(each)).encode()).hexdigest()[:16]
            for day, each in parts.items()
        }

    def _days(self, table: Table, days: Sequence[date]) -> DataFrame:
        rows = read_table(self._spark, self._tables, table)
        return rows.where(F.col("day").isin(list(days)))

    def _of(self, name: str, schema: T.StructType, batch: date) -> DataFrame:
        return self._read(name, schema).where(F.col("batch") == F.lit(batch))

    def _read(self, name: str, schema: T.StructType) -> DataFrame:
        folder = self._tables / name
        if not any(folder.glob("batch=*")):
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(literal_path(folder))

    def _forget(self, batches: Iterable[date]) -> None:
        for batch in batches:
            for name in ("rollups", "rebalances", "_carry/groups", "_carry/members"):
                shutil.rmtree(self._tables / name / f"batch={batch}", ignore_errors=True)

    def _append(self, name: str, rows: DataFrame) -> None:
        rows.write.mode("append").partitionBy("batch").parquet(str(self._tables / name))


def _content(rows: DataFrame) -> Iterator[tuple[date, str]]:
    """Yield what tells whether a table has changed, with its day: files' names, or all ids."""
    names = rows.inputFiles()
    for name in names:
        found = _FILE_DAY.search(name)
        if found is not None:
            yield date.fromisoformat(found[1]), name.rpartition("/")[2]
    if not names:  # Iceberg does not tell
        ids = rows.groupBy("day").agg(F.bit_xor(F.xxhash64("id")).alias("ids"))
        for row in ids.collect():
            yield row.day, f"{row.ids:x}"
