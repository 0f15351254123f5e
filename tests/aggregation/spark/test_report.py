"""The report as a reader gets it."""

import csv
from collections.abc import Iterator
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

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
from tests.aggregation.spark.conftest import Frame
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, Fleet, fleet, rebalance

pytestmark = pytest.mark.spark

EVIL = "=1+1</td><script>alert(1)</script>\x00\x1b[31m\n$\\frac{\N{PILE OF POO}"


def evil_records() -> list[Sample]:
    members = [Client(group=EVIL, client_id=EVIL + str(n), app=EVIL, cluster="") for n in range(2)]
    rebalance(members, START_AT + 500, S.SUBSCRIPTION_CHANGED, 9.0)
    return [sample for member in members for sample in member.written]


@pytest.fixture(scope="module")
def week() -> Fleet:
    return fleet(5, days=4, sampled_every_s=3600)


class Reports:
    """Writes tables and reports of them."""

    def __init__(self, spark: SparkSession, frame: Frame, folder: Path) -> None:
        self.spark, self.frame, self.folder = spark, frame, folder
        self.tables, self.output = folder / "tables", folder / "report"

    def ingest(self, samples: list[Sample]) -> None:
        for table, periodic in ((Table.TRANSITIONS, False), (Table.SAMPLES, True)):
            part = [s for s in samples if (s.kind is SampleKind.SAMPLE) is periodic]
            append(self.frame(part), self.tables, table)

    def write(self, first: date | None = None, last: date | None = None, by: By = "group") -> str:
        facts = load_facts(self.spark, self.tables, first, last, by)
        return write_report(facts, self.output, lambda _: None).read_text()

    def rows(self, name: str) -> list[dict[str, str]]:
        with (self.output / f"{name}.csv").open(newline="") as file:
            return list(csv.DictReader(file))


@pytest.fixture
def reports(spark: SparkSession, frame: Frame, tmp_path: Path) -> Iterator[Reports]:
    yield Reports(spark, frame, tmp_path)
    spark.catalog.clearCache()


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


def test_tables_hold_what_was_done(reports: Reports, week: Fleet) -> None:
    reports.ingest(week.samples)
    page = reports.write()
    total = week.causes.total()
    assert f"{total} rebalances in 6 groups from 24 to 27 November 2025 (UTC)." in page
    assert total == sum(int(row["rebalances"]) for row in reports.rows("rebalances"))
    assert total == sum(int(row["triggered"]) for row in reports.rows("triggers"))
    truth = oracle.read(week.samples)
    held = {
        (row["group"], int(row["status"])): float(row["seconds"])
        for row in reports.rows("status_time")
        if row["status"] != "0"
    }
    assert {key: pytest.approx(seconds) for key, seconds in truth.held.items()} == held
    lengths = sorted(e.seconds or 0.0 for e in truth.episodes if e.member[0] == "orders")
    (row,) = [row for row in reports.rows("durations") if row["group"] == "orders"]
    assert len(lengths) == int(row["member_rebalances"])
    rank = 0.95 * (len(lengths) - 1)
    low = lengths[int(rank)]
    p95 = low + (rank % 1) * (lengths[int(rank) + 1] - low)
    assert pytest.approx(p95) == float(row["member_p95_s"])


def test_every_section_has_its_files_and_the_page_has_them_all(
    reports: Reports, week: Fleet
) -> None:
    reports.ingest(week.samples)
    page = reports.write(by="app")
    for section in SECTIONS:
        table = pq.read_table(reports.output / f"{section.name}.parquet")
        assert table.num_rows == len(reports.rows(section.name))
        assert f'id="{section.name}"' in page
    assert {"payments", "orders"} < {row["app"] for row in reports.rows("durations")}
    assert Tags(page).names.count("svg") == 5


def test_text_of_clients_is_never_markup_nor_formula(reports: Reports) -> None:
    reports.ingest(evil_records())
    tags = Tags(page := reports.write())
    assert "script" not in tags.names
    assert not [name for name in tags.attributes if name.startswith("on")]
    assert not set("\x00\x1b") & set(page)
    assert "default-src 'none'" in page
    assert {"'" + EVIL} == {row["group"] for row in reports.rows("durations")}
    assert pq.read_table(reports.output / "durations.parquet")["group"].to_pylist() == [EVIL]


def test_period_cuts_and_its_margins_do_not_count(reports: Reports, week: Fleet) -> None:
    reports.ingest(week.samples)
    day = date(2025, 11, 25)
    reports.write(day, day)
    assert {"2025-11-25"} == {row["day"] for row in reports.rows("rebalances")}
    assert {"2025-11-25"} == {row["day"] for row in reports.rows("share")}
    assert all(float(row["observed_s"]) <= DAY_S for row in reports.rows("share"))


def test_quiet_period_is_reported_as_such(reports: Reports) -> None:
    client = Client(group="g", client_id="c")
    reports.ingest([client.sample(START_AT + n) for n in range(0, 600, 15)])
    page = reports.write()
    assert "No rebalance on 24 November 2025 (UTC); 1 group observed." in page
    assert "No rebalance began in this period." in page


def test_period_without_records_is_an_error_that_names_the_days(reports: Reports) -> None:
    reports.ingest(evil_records())
    with pytest.raises(SparkJobError, match="hold 2025-11-24 to 2025-11-24"):
        reports.write(date(2026, 1, 1))
    assert not reports.output.exists()


def test_missing_tables_are_the_operators_to_make(reports: Reports) -> None:
    with pytest.raises(SparkSetupError, match="run rebalance-agent ingest first"):
        reports.write()


def test_faults_of_the_data_are_told(reports: Reports) -> None:
    client = Client(group="g", client_id="c")
    client.move(START_AT, 1)
    client.status = 2
    client.move(START_AT + 1, 6)
    client.settle(START_AT + 2)
    reports.ingest(client.written)
    page = reports.write()
    assert "The data has 1 gap and 0 quarantined lines" in page
    found = {row["check"]: row["found"] for row in reports.rows("quality")}
    assert (found["gaps"], found["episodes without an end"]) == ("1", "2")
