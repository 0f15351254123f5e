"""The report as a reader gets it."""

import csv
from collections import Counter
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from statistics import quantiles

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.ingest import append
from aggregation.spark.report import SECTIONS
from aggregation.spark.report.facts import By, load_facts
from aggregation.spark.report.render import write_report
from aggregation.spark.schema import Table
from metrics.sample import Sample, SampleKind
from metrics.status import RebalanceStatus as S
from tests.aggregation.spark import oracle
from tests.aggregation.spark.conftest import table_of
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, Fleet, fleet, rebalance

pytestmark = pytest.mark.spark

EVIL = "=1+1</td><script>alert(1)</script>\x00\x1b[31m\n$\\frac{\N{PILE OF POO}"


def evil_records() -> list[Sample]:
    members = [Client(group=EVIL, client_id=EVIL + str(n), app=EVIL, cluster="") for n in range(2)]
    rebalance(members, START_AT + 500, S.SUBSCRIPTION_CHANGED, 9.0)
    return [sample for member in members for sample in member.written]


def faulty_records() -> list[Sample]:
    """Leave a gap: 1 is followed by a record that leaves 2."""
    client = Client(group="faulty", client_id="c")
    client.move(START_AT, 1)
    client.status = 2
    client.move(START_AT + 1, 6)
    client.settle(START_AT + 2)
    return client.written


@pytest.fixture(scope="module")
def week() -> Fleet:
    return fleet(5, days=4, sampled_every_s=3600)


class Reports:
    """Writes tables and a report of them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.tables, self.output = folder / "tables", folder / "report"
        self.page = ""

    def ingest(self, samples: list[Sample]) -> None:
        for table, periodic in ((Table.TRANSITIONS, False), (Table.SAMPLES, True)):
            part = [s for s in samples if (s.kind is SampleKind.SAMPLE) is periodic]
            append(table_of(self.spark, part), self.tables, table)

    def write(self, first: date | None = None, last: date | None = None, by: By = "group") -> str:
        facts = load_facts(self.spark, self.tables, first, last, by)
        return write_report(facts, self.output, lambda _: None).read_text()

    def rows(self, name: str) -> list[dict[str, str]]:
        with (self.output / f"{name}.csv").open(newline="") as file:
            return list(csv.DictReader(file))


class Tags(HTMLParser):
    """Collects the elements of a page and their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]


@pytest.fixture(scope="module")
def week_report(
    spark: SparkSession, week: Fleet, tmp_path_factory: pytest.TempPathFactory
) -> Reports:
    """Write one report that most tests look at."""
    reports = Reports(spark, tmp_path_factory.mktemp("week"))
    reports.ingest(week.samples + evil_records() + faulty_records())
    reports.page = reports.write()
    return reports


def test_tables_hold_what_was_done(week_report: Reports, week: Fleet) -> None:
    causes = Counter[tuple[str, int]]()
    for row in week_report.rows("rebalances"):
        if row["group"] not in (f"'{EVIL}", "faulty"):
            causes[row["group"], int(row["cause"])] += int(row["rebalances"])
    assert week.causes == causes
    truth = oracle.read(week.samples)
    held = {
        (row["group"], int(row["status"])): float(row["seconds"])
        for row in week_report.rows("status_time")
    }
    assert {key: pytest.approx(s, abs=1e-5) for key, s in truth.held.items()} == {
        key: held[key] for key in truth.held
    }


def test_percentiles_are_exact(week_report: Reports, week: Fleet) -> None:
    episodes = [e for e in oracle.read(week.samples).episodes if e.member[0] == "orders"]
    cuts = quantiles([e.seconds or 0.0 for e in episodes], n=100, method="inclusive")
    (row,) = [row for row in week_report.rows("durations") if row["group"] == "orders"]
    assert len(episodes) == int(row["member_rebalances"])
    found = [float(row[f"member_p{p}_s"]) for p in (50, 95, 99)]
    assert pytest.approx([cuts[49], cuts[94], cuts[98]], abs=1e-5) == found


def test_headline_says_it_in_words(week_report: Reports) -> None:
    total = sum(int(row["rebalances"]) for row in week_report.rows("rebalances"))
    assert f"{total} rebalances in 8 groups from 24 to 27 November 2025 (UTC)." in week_report.page
    assert "The data has 1 gap and 0 quarantined lines" in week_report.page


def test_every_section_has_its_files_and_the_page_has_them_all(week_report: Reports) -> None:
    for section in SECTIONS:
        table = pq.read_table(week_report.output / f"{section.name}.parquet")
        assert table.num_rows == len(week_report.rows(section.name))
        assert f'id="{section.name}"' in week_report.page
    assert Tags(week_report.page).names.count("svg") == 5


def test_text_of_clients_is_never_markup_nor_formula(week_report: Reports) -> None:
    tags = Tags(week_report.page)
    assert "script" not in tags.names
    assert not [name for name in tags.attributes if name.startswith("on")]
    assert not set("\x00\x1b") & set(week_report.page)
    assert "default-src 'none'" in week_report.page
    assert "'" + EVIL in {row["group"] for row in week_report.rows("durations")}
    table = pq.read_table(week_report.output / "durations.parquet")
    assert EVIL in table["group"].to_pylist()


def test_instants_are_utc_wherever_the_machine_is(week_report: Reports) -> None:
    (row,) = [row for row in week_report.rows("triggers") if row["group"] == "'" + EVIL]
    assert row["last_at"] == "2025-11-24T00:08:20.000000Z"
    table = pq.read_table(week_report.output / "triggers.parquet")
    ends = dict(zip(table["group"].to_pylist(), table["last_at"].to_pylist(), strict=True))
    assert ends[EVIL].timestamp() == START_AT + 500


def test_faults_of_the_data_are_told(week_report: Reports) -> None:
    found = {row["check"]: row["found"] for row in week_report.rows("quality")}
    assert (found["gaps"], found["episodes cut short"]) == ("1", "2")


def test_period_cuts_and_its_margins_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    reports = Reports(spark, tmp_path)
    client = Client(group="g", client_id="c", app="shop")
    for at in (START_AT + DAY_S - 1, START_AT + 2 * DAY_S - 1, START_AT + 2 * DAY_S):
        client.move(at, S.NEW_MEMBER)
        client.settle(at + 0.5)
    reports.ingest(client.written)
    day = date(2025, 11, 25)
    reports.write(day, day, by="app")
    (row,) = reports.rows("rebalances")
    assert (row["day"], row["app"], row["rebalances"]) == ("2025-11-25", "shop", "1")
    assert [row["day"] for row in reports.rows("share")] == ["2025-11-25"]


def test_quiet_period_is_reported_as_such(spark: SparkSession, tmp_path: Path) -> None:
    reports = Reports(spark, tmp_path)
    client = Client(group="g", client_id="c")
    reports.ingest([client.sample(START_AT + n) for n in range(0, 600, 15)])
    page = reports.write()
    assert "No rebalance on 24 November 2025 (UTC); 1 group observed." in page
    assert "No rebalance began in this period." in page
    with pytest.raises(SparkJobError, match="hold 2025-11-24 to 2025-11-24"):
        load_facts(spark, reports.tables, date(2026, 1, 1), None, "group")


def test_missing_tables_are_the_operators_to_make(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SparkSetupError, match="run rebalance-agent ingest first"):
        Reports(spark, tmp_path).write()
