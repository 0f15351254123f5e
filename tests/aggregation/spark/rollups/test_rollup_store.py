"""Rollups: additive, each day by itself, redone where something has changed."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.rebalances.rebalances import explain_rebalances
from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.report import COMPARE, SECTIONS, flapping, share
from aggregation.spark.report.context import ReportRequest, build_context
from aggregation.spark.report.section import Section
from aggregation.spark.rollups.group_rebalances import INCIDENTS
from aggregation.spark.rollups.months import Months
from aggregation.spark.rollups.preaggregations import ROWS, By, PreAggregation, preaggregate
from aggregation.spark.rollups.rollup_manifest import PENDING, Manifest, RollupBatch
from aggregation.spark.rollups.rollup_store import RollupStore, is_up_to_date
from aggregation.spark.rollups.rollup_tables import ParquetRollups
from aggregation.spark.rollups.rollups import ROLLUPS
from aggregation.spark.tables.maintenance import Maintenance
from aggregation.spark.tables.period import Period
from aggregation.spark.tables.schema import QUARANTINE, empty
from aggregation.spark.tables.tables import Tables as StoredTables
from metrics.model.sample import Sample, SampleKind
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark import oracle
from tests.aggregation.spark.conftest import table_of
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, fleet, rebalance

pytestmark = pytest.mark.spark

DAYS = [date(2025, 11, day) for day in (24, 25, 26, 27)]


class Tables:
    """Tables that grow."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def add(self, samples: Sequence[Sample]) -> None:
        rows = table_of(self.spark, samples).coalesce(1)
        periodic = F.col("kind") == SampleKind.SAMPLE.value
        for name, chosen in (("samples", periodic), ("transitions", ~periodic)):
            part = rows.where(chosen)
            part.write.mode("append").partitionBy("day").parquet(str(self.folder / name))

    def update(self) -> list[date]:
        return RollupStore(self.spark, self.folder).update(lambda _: None)

    def rows(self) -> Counter[str]:
        """Return all rollups but the marks, as they add up."""
        frame = RollupStore(self.spark, self.folder).rollups().where(F.col("what") != "batch")
        return Counter(str([_rounded(value) for value in row]) for row in frame.collect())

    def of_group(self, group: str) -> set[tuple[str, int, float]]:
        """Return how many rebalances of a group, and episodes of members, took how long."""
        rows = RollupStore(self.spark, self.folder).rollups()
        asked = rows.where((F.col("group") == group) & F.col("what").isin("rebalance", "member"))
        return {(row.what, row.times, row.seconds or 0.0) for row in asked.collect()}

    def total(self, what: str, value: str = "times", kind: str | None = None) -> float:
        rows = RollupStore(self.spark, self.folder).rollups().where(F.col("what") == what)
        rows = rows if kind is None else rows.where(F.col("kind") == kind)
        return float(rows.agg(F.coalesce(F.sum(value), F.lit(0))).first()[0])  # type: ignore[index]


def _rounded(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


def week() -> list[Sample]:
    """Four days; over the first midnight two rebalances, one with a member that takes until noon,
    at the end one that is open.
    """
    members = [Client(group="late", client_id=f"late-{n}") for n in range(3)]
    rebalance(members, START_AT + DAY_S - 2, S.SUBSCRIPTION_CHANGED, 5.0)
    members[0].move(START_AT + DAY_S - 600, S.DROPPED_GROUP)
    members[0].settle(START_AT + DAY_S * 1.5)
    still_open = Client(group="open", client_id="c")
    still_open.move(START_AT + 4 * DAY_S - 5, S.SUBSCRIPTION_CHANGED)
    busy = busy_group(80_000, 81_000, 82_000)
    midnight = Client(group="midnight", client_id="c")
    midnight.move(START_AT + DAY_S - 5, S.SUBSCRIPTION_CHANGED)
    midnight.settle(START_AT + DAY_S + 5)
    own = [sample for member in [*members, midnight, still_open] for sample in member.written]
    return fleet(5, days=4, sampled_every_s=43_200).samples + own + busy


def busy_group(*seconds: float) -> list[Sample]:
    """Write rebalances of a group on the second day."""
    members = [Client(group="busy", client_id=f"busy-{n}") for n in range(2)]
    for at in seconds:
        rebalance(members, START_AT + DAY_S + at, S.METADATA_CHANGED, 5.0)
    return [sample for member in members for sample in member.written]


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return week()


@pytest.fixture(scope="module")
def at_once(
    spark: SparkSession, samples: list[Sample], tmp_path_factory: pytest.TempPathFactory
) -> Tables:
    tables = Tables(spark, tmp_path_factory.mktemp("at_once"))
    tables.add(samples)
    assert tables.update() == DAYS
    return tables


def test_add_up_to_what_happened(at_once: Tables, samples: list[Sample]) -> None:
    episodes = oracle.read(samples)
    groups = explain_rebalances(samples)
    assert at_once.total("rebalance") == len(groups)
    assert at_once.total("rebalance", "seconds") == pytest.approx(sum(e.seconds for e in groups))
    assert at_once.total("member") == len(episodes)
    lengths = sum(each.seconds or 0.0 for each in episodes)
    assert at_once.total("member", "seconds") == pytest.approx(lengths)
    assert at_once.total("status", "seconds") == pytest.approx(lengths)
    ended = [each for each in episodes if each.seconds is not None]
    assert at_once.total("duration") == len(groups) + len(ended)
    assert at_once.total("quality") == len(samples) + len(episodes) - len(ended)


def test_nothing_new_is_nothing_to_do(at_once: Tables) -> None:
    before = at_once.rows()
    assert at_once.update() == []
    assert at_once.rows() == before


def test_day_by_day_is_all_at_once(
    spark: SparkSession, at_once: Tables, samples: list[Sample], tmp_path: Path
) -> None:
    tables = Tables(spark, tmp_path)
    done: list[list[date]] = []
    got: list[set[tuple[str, int, float]]] = []
    for last in (DAYS[0], DAYS[3]):
        known = done[-1][-1] if done else date.min
        tables.add([s for s in samples if known < date.fromisoformat(s.ts[:10]) <= last])
        done.append(tables.update())
        got.append(tables.of_group("midnight"))
    assert done == [DAYS[:1], DAYS[1:]]
    # an open rebalance counts until its end is there, and lasts to the agent's last record
    assert got == [
        {("rebalance", 1, 3.2), ("member", 1, 0.0)},
        {("rebalance", 1, 10.0), ("member", 1, 10.0)},
    ]
    assert tables.rows() == at_once.rows()


def test_late_records_redo_their_own_day_alone(
    spark: SparkSession, at_once: Tables, tmp_path: Path
) -> None:
    shutil.copytree(at_once.folder, tmp_path / "tables")
    tables = Tables(spark, tmp_path / "tables")
    before = tables.total("rebalance")

    tables.add(busy_group(40_000))

    assert tables.update() == DAYS[1:2]
    assert tables.total("rebalance") == before + 1


@pytest.mark.field
def test_records_of_a_clock_that_began_at_zero_are_computed_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    members = [Client(group="g", client_id=f"c{n}") for n in range(2)]
    for at in (3_600.0, DAY_S + 3_600.0):
        rebalance(members, at, S.METADATA_CHANGED, 5.0)
    late = Client(group="late", client_id="c")
    late.move(7_200.0, S.SUBSCRIPTION_CHANGED)
    late.settle(7_205.0)
    tables = Tables(spark, tmp_path)
    tables.add([record for member in members for record in member.written])
    first_days = [date(1970, 1, 1), date(1970, 1, 2)]
    assert tables.update() == first_days

    tables.add(late.written)

    assert tables.update() == first_days  # the late group's records are carried on
    assert tables.total("rebalance") == 3


def test_late_record_of_a_removed_day_changes_no_history(
    spark: SparkSession, at_once: Tables, tmp_path: Path
) -> None:
    shutil.copytree(at_once.folder, tmp_path / "tables")
    tables = Tables(spark, tmp_path / "tables")
    before = tables.rows()
    for day in DAYS[:2]:
        for name in ("transitions", "samples"):
            shutil.rmtree(tables.folder / name / f"day={day}", ignore_errors=True)
    late = busy_group(40_000)

    tables.add(late)

    assert not is_up_to_date(tables.folder)
    assert tables.update() == []
    assert tables.rows() == before
    assert RollupStore(spark, tables.folder).late_records() == {DAYS[1]: len(late)}
    assert is_up_to_date(tables.folder)


def test_late_record_that_is_removed_with_its_day_is_counted(
    spark: SparkSession, at_once: Tables, tmp_path: Path
) -> None:
    shutil.copytree(at_once.folder, tmp_path / "tables")
    tables = Tables(spark, tmp_path / "tables")
    before, late = tables.rows(), busy_group(40_000)
    tables.add(late)
    upkeep = Maintenance(
        tables=StoredTables(folder=tables.folder), keep_days=1, notify=lambda _: None
    )

    upkeep.run(spark, DAYS[3])

    assert not is_up_to_date(tables.folder)
    assert tables.update() == []
    assert tables.rows() == before
    assert RollupStore(spark, tables.folder).late_records() == {DAYS[1]: len(late)}
    upkeep.run(spark, DAYS[3] + timedelta(days=1))
    tables.update()
    assert RollupStore(spark, tables.folder).late_records() == {DAYS[1]: len(late)}


@pytest.fixture(scope="module")
def months(
    spark: SparkSession, at_once: Tables, tmp_path_factory: pytest.TempPathFactory
) -> Tables:
    """Eighty days like the four, until 11 February; of the first of them there is no record."""
    tables = Tables(spark, tmp_path_factory.mktemp("months"))
    rows = RollupStore(spark, at_once.folder).rollups().where(F.col("batch").isin(DAYS))
    many = rows.crossJoin(spark.range(20).select((F.col("id") * 4).cast("int").alias("later")))
    for name in ("batch", "day"):
        many = many.withColumn(name, F.date_add(name, F.col("later")))
    many.select(ROLLUPS.fieldNames()).write.partitionBy("batch").parquet(
        str(tables.folder / "rollups")
    )
    (tables.folder / "transitions").mkdir()
    batches = Manifest(tables.folder / "rollups")
    for n in range(80):
        batches.mark(DAYS[0] + timedelta(n), RollupBatch(files=""))
    tables.update()
    return tables


def test_whole_months_say_the_same_in_fewer_rows(months: Tables) -> None:
    store = RollupStore(months.spark, months.folder)
    period = Period(date(2025, 11, 29), date(2026, 2, 3))
    single = store.rollups().coalesce(1).persist()
    groups, apps = store.rollups_of("group", period), store.rollups_of("app", period)
    assert all(rows.count() < 0.6 * single.count() for rows in groups.values())
    asked: list[tuple[Section, By, Mapping[PreAggregation, DataFrame]]] = [
        *((section, "group", groups) for section in (*SECTIONS, COMPARE) if section.rows_shown),
        *((section, "app", apps) for section in (share.SECTION, flapping.SECTION)),
    ]
    for section, by, rows in asked:
        wanted = _answer(section, by, dict.fromkeys(PreAggregation, single))
        found = _answer(section, by, rows)
        assert [got for got, _ in found] == [got for got, _ in wanted]
        for (_, numbers), (_, others) in zip(found, wanted, strict=True):
            assert numbers == pytest.approx(others)


def _answer(
    section: Section, by: By, rollups: Mapping[PreAggregation, DataFrame]
) -> list[tuple[str, list[float]]]:
    spark = rollups[PreAggregation.DAYS].sparkSession
    asked = ReportRequest(first=date(2025, 11, 29), last=date(2026, 2, 3), by=by, compared=True)
    period = Period(date(2025, 11, 29), date(2026, 2, 3))
    none = empty(spark, INCIDENTS)
    facts = build_context(rollups, empty(spark, QUARANTINE), asked, period, none)
    return sorted(_got(row) for row in facts.run(section).collect())


def _got(row: Row) -> tuple[str, list[float]]:
    """Tell numbers that were added up from the rest; of days that are alike any is the worst."""
    values = {name: value for name, value in row.asDict().items() if name != "worst_day"}
    numbers = [value for value in values.values() if isinstance(value, float)]
    return str([value for value in values.values() if not isinstance(value, float)]), numbers


def test_a_months_worst_and_flapping_days_stay(spark: SparkSession) -> None:
    """The last day's sums are not all there, nor are those of what began in another month."""
    rows = [
        *(_observed(day, seconds=100.0) for day in range(1, 32)),
        *(_lost(day, seconds=day % 7) for day in range(1, 32)),
        *(_gone(day, "flaps", times=2 if day % 9 else 3) for day in range(1, 32)),
        *(_gone(day, "calm", times=2) for day in range(1, 32)),
        _lost(6, seconds=90.0, month=11),
    ]
    month = spark.createDataFrame([tuple(row.get(n) for n in ROWS.names) for row in rows], ROWS)
    cuts = preaggregate(month, date(2025, 12, 1)).persist()
    worst = cuts.where("cut = 'worst-group' AND what = 'rebalance'").orderBy("day")
    flapping_days = cuts.where("cut = 'flapping-group' AND bucket IS NULL").orderBy(
        "day", "client_id"
    )
    calm = cuts.where("cut = 'flapping-group' AND bucket IS NOT NULL").orderBy("client_id")

    assert [(row.day.month, row.day.day, row.seconds) for row in worst.collect()] == [
        (11, 6, 90.0),
        (12, 27, 6.0),
        (12, 30, 81.0),
        (12, 31, 3.0),
    ]
    assert [(row.client_id, row.day.day, row.times) for row in flapping_days.collect()] == [
        ("flaps", 9, 3),
        ("flaps", 18, 3),
        ("flaps", 27, 3),
        ("calm", 31, 2),
        ("flaps", 31, 2),
    ]
    assert [(row.client_id, row.times) for row in calm.collect()] == [("calm", 60), ("flaps", 54)]


def test_a_months_application_has_rebalances_of_observed_groups_alone(spark: SparkSession) -> None:
    """Of one group the time on 9 December is not known; the last day's may be in January's rows."""
    rows = [
        *(_observed(day, seconds=100.0) for day in (9, 31)),
        *(_lost(day, seconds=5.0) for day in (9, 31)),
        *(_lost(day, seconds=70.0) | {"group": "unsampled"} for day in (9, 31)),
        _observed(9, seconds=0.0) | {"group": "unsampled", "seconds": None, "kind": "unknown"},
    ]
    own = [row | {"app": "shop"} for row in rows]
    month = spark.createDataFrame([tuple(row.get(n) for n in ROWS.names) for row in own], ROWS)
    worst = preaggregate(month, date(2025, 12, 1)).where("cut = 'worst-app'")

    assert {(row.day.day, row.group, row.what): row.seconds for row in worst.collect()} == {
        (9, None, "rebalance"): 5.0,
        (9, None, "observed"): 100.0,
        (31, "g", "rebalance"): 5.0,
        (31, "g", "observed"): 100.0,
        (31, "unsampled", "rebalance"): 70.0,
        (31, "unsampled", "observed"): None,
    }


def _observed(day: int, seconds: float) -> dict[str, Any]:
    return {"what": "observed", "day": date(2025, 12, day), "group": "g", "seconds": seconds}


def _lost(day: int, seconds: float, month: int = 12) -> dict[str, Any]:
    at = date(2025, month, day)
    return {"what": "rebalance", "day": at, "group": "g", "times": 1, "seconds": float(seconds)}


def _gone(day: int, client_id: str, times: int) -> dict[str, Any]:
    at = date(2025, 12, day)
    member = {"group": "g", "client_id": client_id, "kind": "left"}
    return {"what": "departure", "day": at, "times": times} | member


def test_a_month_is_made_again_when_a_day_of_it_is(months: Tables, tmp_path: Path) -> None:
    folder = shutil.copytree(months.folder, tmp_path / "tables")
    said: list[str] = []
    Manifest(folder / "rollups").mark(date(2026, 1, 20), RollupBatch(files="", carries="other"))
    Manifest(folder / "rollups").mark(date(2025, 12, 3), PENDING)
    over = Months(
        ParquetRollups(months.spark, folder), Manifest(folder / "rollups"), folder / "_months"
    )

    over.update(said.append)

    assert said == ["rollups of January 2026"]
    over.update(said.append)
    assert len(said) == 1
    unfinished = over.rollups_of([Period(date(2025, 12, 1), date(2025, 12, 31))], "group")
    assert (
        unfinished[PreAggregation.GROUPS].where("what = 'member' AND day = '2025-12-24'").count()
        > 0
    )


def test_a_month_that_a_later_day_reaches_into_is_read_by_day(months: Tables) -> None:
    store = RollupStore(months.spark, months.folder)
    period = Period(date(2025, 12, 1), date(2025, 12, 31))
    batches, day = Manifest(months.folder / "rollups"), date(2026, 2, 2)
    before = batches.entries()[day]
    by_day = []
    for since in (date(2025, 12, 31), date(2025, 12, 30)):
        batches.mark(day, RollupBatch(files="", since=since))
        rows = store.rollups_of("group", period)[PreAggregation.GROUPS]
        by_day.append(rows.where("what = 'member' AND day = '2025-12-24'").count() > 0)
    batches.mark(day, before)
    assert by_day == [False, True]


def test_missing_tables_are_the_operators_to_make(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SparkSetupError, match="run rebalance-agent ingest first"):
        RollupStore(spark, tmp_path)
    (tmp_path / "transitions").mkdir()
    with pytest.raises(SparkJobError, match="nothing to report"):
        RollupStore(spark, tmp_path).update(lambda _: None)


@pytest.mark.field
def test_lost_end_of_a_member_that_is_at_0_is_no_day_of_rebalance(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its agent writes periodic samples, and the member is quiet for two days."""
    members = [Client(group="g", client_id=f"c{n}") for n in range(2)]
    rebalance(members, START_AT + 3_600.0, S.METADATA_CHANGED, 5.0)
    lost = next(each for each in members[1].written if each.to == 0)
    for hour in range(2, 46):
        for member in members:
            member.sample(START_AT + 3_600.0 * hour)
    written = [each for member in members for each in member.written if each is not lost]
    days = {each.ts[:10] for each in written}
    tables = Tables(spark, tmp_path)
    for day in sorted(days):
        tables.add([each for each in written if each.ts[:10] == day])
        tables.update()

    rows = RollupStore(spark, tmp_path).rebalances().collect()

    assert len(days) == 2
    assert [(row.batch, row.is_open, row.seconds) for row in rows] == [(DAYS[0], False, 5.0)]
    assert rows[0].seconds == explain_rebalances(written)[0].seconds


@pytest.mark.parametrize("table", ["samples", "transitions"])
def test_file_of_others_ends_the_computation_with_its_name(
    spark: SparkSession, tmp_path: Path, table: str
) -> None:
    """Its rows were nulls, which no figure showed."""
    tables = Tables(spark, tmp_path)
    tables.add(fleet(1, days=1, sampled_every_s=7200).samples)
    path = tmp_path / table / f"day={DAYS[0]}" / "other.parquet"
    pq.write_table(pa.table({"id": ["a"], "kind": ["sample"], "ts": ["2025"]}), path)

    with pytest.raises(SparkJobError) as error:
        tables.update()

    assert str(error.value).startswith(f"{path} is no file of the table {table} (its column 'ts'")
    assert Manifest(tmp_path / "rollups").entries() == {}
