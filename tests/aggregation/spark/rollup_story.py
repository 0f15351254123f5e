"""Rollups of Delta or Iceberg that are read all the time, in a process with their jars.

``python -P -m tests.aggregation.spark.rollup_story FORMAT FOLDER STORED_IN``: prints the result.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from threading import Event, Thread

import click
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from agent.cli.spark_jars import find_jars
from aggregation.spark.rollups.preaggregations import PreAggregation
from aggregation.spark.rollups.rollup_manifest import LAYOUT, RollupBatch
from aggregation.spark.rollups.rollup_store import RollupStore
from aggregation.spark.rollups.rollup_tables import SCHEMAS, manifest_of
from aggregation.spark.session.jars import Need
from aggregation.spark.session.session import spark_session
from aggregation.spark.tables.period import Period
from aggregation.spark.tables.schema import Table, empty, lake_table
from aggregation.spark.tables.table_place import TableFormat
from aggregation.spark.tables.tables import Tables, open_tables, session_settings
from metrics.model.sample import Sample, SampleKind
from metrics.model.status import RebalanceStatus
from tests.aggregation.spark.conftest import table_of
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, rebalance

_PAUSE_S = 0.5
"""Reads that never pause take half of the time from what they look at."""
ADDED = "unread_at_least"
"""A column that rollups before layout 12 lack."""
SUMS = ("times", "seconds", "member_seconds", "unread_seconds", ADDED)


class Reader(Thread):
    """Reads the given days of all rollups, again and again."""

    def __init__(self, spark: SparkSession, folder: Path, days: Sequence[date]) -> None:
        super().__init__(daemon=True)
        self._spark, self._folder, self._days = spark, folder, set(days)
        self._ends = Event()
        self.reads = 0
        self.missed: list[str] = []

    def run(self) -> None:
        """Read until the end; a read that fails misses all."""
        while not self._ends.is_set():
            for name in ("rollups", "rebalances", "incidents"):
                try:
                    rows = getattr(RollupStore(self._spark, self._folder), name)()
                    seen = {row.batch for row in rows.select("batch").distinct().collect()}
                except PySparkException as error:
                    self.missed.append(f"{name}: {error}")
                else:
                    self.missed += [f"{name}: {day}" for day in self._days - seen]
            self.reads += 1
            self._ends.wait(_PAUSE_S)

    def end(self) -> None:
        self._ends.set()
        self.join()


def at(day: int, second: float) -> float:
    """Return a time on one of the days from 30 November on; November is over in the first run."""
    return START_AT + (6 + day) * DAY_S + second


def busy(day: int, second: float) -> list[Sample]:
    """Write a rebalance of a group."""
    members = [Client(group=f"g{day}", client_id=f"c{n}") for n in range(2)]
    rebalance(members, at(day, second), RebalanceStatus.METADATA_CHANGED, 5.0)
    return [sample for member in members for sample in member.written]


def half_open() -> list[Sample]:
    """Write the two records of an episode that goes from the second to the fourth day."""
    client = Client(group="open", client_id="c")
    client.move(at(1, 86_000), RebalanceStatus.SUBSCRIPTION_CHANGED)
    client.settle(at(3, 10))
    return client.written


def add(spark: SparkSession, tables: Tables, samples: Sequence[Sample]) -> None:
    rows = table_of(spark, samples).coalesce(1)
    periodic = F.col("kind") == SampleKind.SAMPLE.value
    tables.append(rows.where(periodic), Table.SAMPLES)
    tables.append(rows.where(~periodic), Table.TRANSITIONS)


def rows_of(spark: SparkSession, folder: Path) -> dict[str, dict[str, float]]:
    """Return all rollups, rebalances and incidents, with the sums of rows that add up."""
    store = RollupStore(spark, folder)
    frames = (store.rollups(), store.rebalances(), store.incidents())
    return add_up(row.asDict() for frame in frames for row in frame.collect())


def add_up(rows: Iterable[Mapping[str, object]]) -> dict[str, dict[str, float]]:
    """Add up rows that differ in sums alone: a day in two files can have two of them."""
    found: dict[str, Counter[str]] = {}
    for row in rows:
        names = sorted(row.keys() - {*SUMS})
        sums = found.setdefault(str([(name, str(row[name])) for name in names]), Counter())
        sums.update({name: _number(row[name]) for name in SUMS if name in row})
    return {key: {name: round(sums[name], 4) for name in SUMS} for key, sums in found.items()}


def widen(spark: SparkSession, lake: Tables) -> list[object]:
    """Read and update rollups of an earlier release; return their rows, and kinds of a column."""
    lake.create(spark)
    add(spark, lake, busy(0, 80_000))
    for name, schema in SCHEMAS.items():
        table = lake_table(lake.folder, name.removeprefix("_").replace("/", "_"), lake.format)
        table.create(empty(spark, schema).drop(ADDED), ["batch"])
    manifest_of(lake.folder).mark(date(2025, 11, 30), RollupBatch(files="", layout=LAYOUT - 1))
    store = RollupStore(spark, lake.folder)
    before = [each.count() for each in (store.rollups(), store.rebalances(), store.incidents())]
    store.update(partial(click.echo, err=True))
    return [before, store.incidents().select(ADDED).distinct().count()]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float(str(value or 0))


def main(kind: TableFormat, folder: Path, stored_in: str) -> None:
    """Compute rollups of two days, then of the second one again and of a third: read all the time.

    They are the same as those of Parquet, computed at once.
    """
    notify = partial(click.echo, err=True)
    begins, *ends = half_open()
    early = [*busy(0, 80_000), *busy(1, 80_000), begins]
    late = [*busy(1, 40_000), *busy(3, 80_000), *ends]
    jars = find_jars([Need(kind)], None, notify, offline=False)
    lake, plain = open_tables(folder / kind, kind, stored_in), open_tables(folder / "plain")
    settings = session_settings([kind], lake.place) | {"spark.sql.adaptive.enabled": "false"}
    with spark_session("story", notify, jars=jars, settings=settings) as spark:
        lake.folder.mkdir(parents=True)
        lake.create(spark)
        add(spark, lake, early)
        first = RollupStore(spark, lake.folder).update(notify)
        add(spark, lake, late)
        reader = Reader(spark, lake.folder, first)
        reader.start()
        again = RollupStore(spark, lake.folder).update(notify)
        reader.end()
        add(spark, plain, [*early, *late])
        RollupStore(spark, plain.folder).update(notify)
        november = Period(date(2025, 11, 1), date(2025, 11, 30))
        store = RollupStore(spark, lake.folder)
        month = store.rollups_of("group", november)[PreAggregation.GROUPS]
        earlier = open_tables(folder / "earlier", kind)
        earlier.folder.mkdir()
        got = {
            "widened": widen(spark, earlier),
            "days": [list(map(str, first)), list(map(str, again))],
            "missed": reader.missed,
            "was_read": reader.reads > 0,
            "as_parquet": rows_of(spark, lake.folder) == rows_of(spark, plain.folder),
            "is_month": month.where("what = 'incident'").count() > 0,
            "idle": store.update(notify),
        }
    print(json.dumps(got))  # noqa: T201 - its output


if __name__ == "__main__":
    main(TableFormat(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
