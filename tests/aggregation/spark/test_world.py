"""Every figure of a world is its truth: whatever period, late data, repeats, and an agent's outage.

The short form asks the functions of a day, without Spark. The long one, of `make field`, goes from
spools to the report: nine days over a month's end, and sixty days of 40 groups.
"""

from collections import Counter, defaultdict
from datetime import date, timedelta
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.ingest.job import IngestConfig, TableIngest
from aggregation.spark.ingest.spool_source import SpoolSource
from aggregation.spark.report import causes, groups, quality
from aggregation.spark.report.context import ReportContext, ReportRequest, context_of
from aggregation.spark.rollups.daily_rebalances import Carried, GroupDays, last_seen_by
from aggregation.spark.rollups.group_rebalances import rows_of
from aggregation.spark.rollups.rollup_store import RollupStore
from aggregation.spark.tables.schema import Table, read_table
from metrics.model.sample import Sample, SampleKind
from tests.aggregation.spark.histories import DAY_S, START_AT, write_spool
from tests.aggregation.spark.world import (
    Cell,
    Key,
    Part,
    World,
    first_of_month,
    first_of_week,
    make_world,
    sum_up,
)

SPANS = (lambda day: day, first_of_week, first_of_month)
By = Literal["group", "app"]
BOTH: tuple[By, ...] = ("group", "app")
FIRST = date(2025, 11, 24)
LATE_GROUPS, LATE_DAYS = {"group-1", "group-2"}, (3.5, 6.5)
"""The records of these groups from the fourth day's noon to the seventh's come after all others."""
OUTAGE_DAYS = (2.25, 2.75)
"""The agent of one group is down for half a day."""


class Tables:
    """Tables of a world, by the way that its records take."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder / "tables"
        self.spool = folder / "spool"

    def ingest(self, **files: list[Sample]) -> None:
        for name, samples in files.items():
            write_spool(self.spool, samples, name=name)
        config = IngestConfig(sources=[SpoolSource(str(self.spool))], tables=self.folder, once=True)
        job = TableIngest(self.spark, config, lambda _: None)
        job.wait(job.start(), lambda: False)
        RollupStore(self.spark, self.folder).update(lambda _: None)

    def days(self) -> list[Part]:
        """Return the sums of each group's rollups of a day."""
        rows = RollupStore(self.spark, self.folder).rollups().where("what = 'rebalance'")
        names = ("times", "seconds", "member_seconds")
        sums = rows.groupBy("cluster", "group", "app", "day").agg(
            *(F.sum(name).alias(name) for name in names)
        )
        return [
            Part(row["cluster"], row["group"], row["app"], row["day"], Cell(*row[4:]))
            for row in sums.collect()
        ]

    def context(self, first: date | None, last: date | None, by: By) -> ReportContext:
        store = RollupStore(self.spark, self.folder)
        quarantine = read_table(self.spark, self.folder, Table.QUARANTINE)
        request = ReportRequest(first=first, last=last, by=by)
        return context_of(store.rollups(), quarantine, request, store.incidents())


def same(found: dict[Key, Cell], wanted: dict[Key, Cell]) -> None:
    """Check that two tables are equal in every cell; seconds to a millisecond."""
    assert found.keys() == wanted.keys()
    for key, cell in wanted.items():
        assert found[key].times == cell.times, key
        assert found[key][1:] == pytest.approx(cell[1:], abs=1e-3), key


def is_late(group: str, at: float) -> bool:
    first, last = (START_AT + day * DAY_S for day in LATE_DAYS)
    return group in LATE_GROUPS and first <= at < last


def is_outage(at: float) -> bool:
    first, last = (START_AT + day * DAY_S for day in OUTAGE_DAYS)
    return first <= at < last


def find_down_group(world: World) -> str:
    """Return the group with the unseen time: one that rebalances in it and has no late records."""
    return min(
        each.group
        for each in world.truth
        if is_outage(each.start) and each.group not in LATE_GROUPS
    )


def without_outage(world: World, down: str) -> World:
    return world.without(lambda group, at: group == down and is_outage(at))


def check_rollups(tables: Tables, world: World) -> None:
    """Check sums by day, week and month, by group and by application."""
    found = tables.days()
    for first_of in SPANS:
        for by in BOTH:
            same(sum_up(found, by, first_of), sum_up(world.parts(), by, first_of))


def check_report(tables: Tables, world: World, first: date | None, last: date | None) -> None:
    """Check the table of groups and the causes of a period, by group and by application."""
    for by in BOTH:
        context = tables.context(first, last, by)
        days = context.period.first, context.period.last
        parts = [part for part in world.parts() if days[0] <= part.day <= days[1]]
        found = {
            (row["cluster"], row[by], FIRST): Cell(
                row["rebalances"], row["rebalancing_s"], row["lost_s"]
            )
            for row in context.run(groups.SECTION).collect()
            if row["rebalances"]
        }
        same(found, sum_up(parts, by, lambda _: FIRST))
        by_cause = Counter[int]()
        for row in context.run(causes.SECTION).collect():
            by_cause[row["cause"]] += row["rebalances"]
        assert by_cause == Counter(
            int(each.cause) for each in world.truth if days[0] <= each.day <= days[1]
        )


def check_outage(tables: Tables, down: str) -> None:
    """Check that Data quality names the agent that was down, and for how long."""
    rows = tables.context(None, None, "group").run(quality.SECTION).collect()
    named = {row["agent"]: row["outage_h"] for row in rows if row["outage_h"]}
    hours = 24 * (OUTAGE_DAYS[1] - OUTAGE_DAYS[0])
    assert named == {down: pytest.approx(hours, abs=1.0)}


def play(spark: SparkSession, folder: Path, seed: int, days: int, number: int) -> None:
    """Check a world before its late records come, and after that, with half of all repeated."""
    whole = make_world(seed, days, number)
    assert any(is_late(each.group, each.start) for each in whole.truth)
    down = find_down_group(whole)
    seen = without_outage(whole, down)
    tables = Tables(spark, folder)
    middle = FIRST + timedelta(days=days // 3), FIRST + timedelta(days=days - 2)

    early = seen.without(is_late)
    tables.ingest(early=early.samples)
    check_rollups(tables, early)

    late = seen.without(lambda group, at: not is_late(group, at))
    tables.ingest(late=late.samples, again=seen.samples[::2])
    check_rollups(tables, seen)
    check_report(tables, seen, *middle)
    check_report(tables, seen, None, None)
    check_outage(tables, down)


@pytest.mark.parametrize("seed", [1, 2, 71])
def test_sums_by_day_are_the_truth_before_and_after_late_data(seed: int) -> None:
    """Without Spark: the rules that its workers run, day by day, and again with late data."""
    whole = make_world(seed, 14, 8)
    seen = without_outage(whole, find_down_group(whole))
    for world in (seen.without(is_late), seen):
        found = parts_by_day(world)
        for first_of in SPANS:
            for by in BOTH:
                same(sum_up(found, by, first_of), sum_up(world.parts(), by, first_of))


def parts_by_day(world: World) -> list[Part]:
    """Return the rows of the rollups, by the functions of each day."""
    events: dict[tuple[str, str], dict[date, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    last_seen: dict[str, dict[date, str]] = defaultdict(dict)
    for sample in world.samples:
        day = date.fromisoformat(sample.ts[:10])
        known = last_seen[sample.agent]
        known[day] = max(known.get(day, ""), sample.ts)
        if sample.kind is not SampleKind.SAMPLE:
            events[sample.cluster, sample.group][day].append(sample)
    agents = {agent: sorted(days.items()) for agent, days in last_seen.items()}
    days = sorted({day for known in last_seen.values() for day in known})
    rows = []
    for by_day in events.values():
        group = GroupDays(Carried())
        for day in days:
            found = group.day(day, by_day[day], last_seen_by(day, agents))
            rows += rows_of(found.rebalances, {})
        rows += rows_of(group.pending, {})
    return [
        Part(
            row["cluster"],
            row["group"],
            row["app"],
            row["day"],
            Cell(1, row["seconds"], row["member_seconds"]),
        )
        for row in rows
        if not row["is_end"]
    ]


@pytest.mark.spark
@pytest.mark.field
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("seed", "days", "number"), [(1, 9, 6), (71, 9, 10), (2, 60, 40), (3, 60, 40)]
)
def test_figures_are_the_truth_before_and_after_late_data_and_repeated(
    seed: int, days: int, number: int, spark: SparkSession, tmp_path: Path
) -> None:
    play(spark, tmp_path, seed, days, number)
