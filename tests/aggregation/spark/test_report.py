"""The report as a reader gets it."""

import csv
import re
from collections import Counter
from collections.abc import Iterable
from datetime import date
from html import escape
from html.parser import HTMLParser
from math import ceil
from pathlib import Path
from textwrap import dedent
from typing import Any

import duckdb
import msgspec
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.rebalances.rebalances import explain_rebalances
from aggregation.spark.errors import SparkJobError
from aggregation.spark.report import SECTIONS, causes, quality
from aggregation.spark.report.context import ReportRequest, context_of
from aggregation.spark.report.proposals import SHOWN as PROPOSALS_SHOWN
from aggregation.spark.report.proposals import Proposal, propose_changes
from aggregation.spark.report.render import write_report
from aggregation.spark.report.report import build_report
from aggregation.spark.report.section import ROWS_SHOWN
from aggregation.spark.rollups.rollup_store import RollupStore
from aggregation.spark.tables.schema import QUARANTINE, Table, read_table
from metrics.model.sample import Sample, SampleKind, format_time
from metrics.model.status import RebalanceStatus as S
from tests.agent.web.pages.axe import findings
from tests.aggregation.spark import oracle
from tests.aggregation.spark.conftest import table_of
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, Fleet, fleet, rebalance
from tests.browser import TELEPHONE_PX, shown, sideways
from tests.devtools import browser

pytestmark = pytest.mark.spark

EVIL = "=1+1</td><script>alert(1)</script>\x00\x1b[31m\n\u202e$\\frac{\N{PILE OF POO}"
SHOWN = EVIL.replace("\x00\x1b[31m\n\u202e", r"\x00\x1b[31m\n\u202e")
"""The same in a CSV."""


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


PAGE_MAX_CHARS = 250_000
"""A year of 2,000 groups with long names, drawn week by week, has 460,000."""


class Reports:
    """Writes tables, and reports of them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.tables, self.output = folder / "tables", folder / "report"
        self.page = ""
        self.proposals: list[Proposal] = []

    def ingest(self, samples: list[Sample]) -> None:
        for table, periodic in ((Table.TRANSITIONS, False), (Table.SAMPLES, True)):
            part = [s for s in samples if (s.kind is SampleKind.SAMPLE) is periodic]
            rows = table_of(self.spark, part).coalesce(1)
            rows.write.partitionBy("day").parquet(str(self.tables / table))
        RollupStore(self.spark, self.tables).update(lambda _: None)

    def write(self, asked: ReportRequest, output: str = "report") -> "Reports":
        """Report on the same tables, in a folder of its own."""
        other = Reports(self.spark, self.tables.parent)
        other.output = self.tables.parent / output
        quarantine = read_table(self.spark, self.tables, Table.QUARANTINE)
        store = RollupStore(self.spark, self.tables)
        context = context_of(store.rollups(), quarantine, asked, store.incidents())
        report = build_report(context, lambda _: None, propose=propose_changes)
        other.page = write_report(report, other.output).read_text()
        other.proposals = list(report.proposals)
        return other

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


QUIET_AT = START_AT + 6 * DAY_S
"""A Sunday without a rebalance."""


@pytest.fixture(scope="module")
def reports(spark: SparkSession, week: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    made = Reports(spark, tmp_path_factory.mktemp("week"))
    quiet = Client(group="orders", client_id="c", app="orders")
    made.ingest(
        week.samples
        + evil_records()
        + faulty_records()
        + [quiet.sample(QUIET_AT + n) for n in (0, 900)]
    )
    return made


@pytest.fixture(scope="module")
def week_report(reports: Reports) -> Reports:
    """Write one report that most tests look at."""
    return reports.write(ReportRequest(last=date(2025, 11, 27)))


def test_tables_hold_what_was_done(week_report: Reports, week: Fleet) -> None:
    causes = Counter[int]()
    for row in week_report.rows("causes"):
        causes[int(row["cause"])] += int(row["rebalances"])
    done = Counter[int]()
    for (_, cause), times in week.causes.items():
        done[cause] += times
    done[S.SUBSCRIPTION_CHANGED] += 1  # the evil one's
    done[S.USER_REQUESTED] += 1  # the faulty one's
    assert causes == done
    groups = {row["group"]: int(row["rebalances"]) for row in week_report.rows("groups")}
    assert groups["orders"] == sum(n for (group, _), n in week.causes.items() if group == "orders")


def test_seconds_in_each_status_are_those_of_plain_python(
    week_report: Reports, week: Fleet
) -> None:
    truth = Counter[tuple[str, int]]()
    for episode in oracle.read(week.samples):
        for code, seconds in episode.held:
            truth[episode.group, code] += seconds  # type: ignore[assignment]
    found = {
        (row["group"], int(row["status"])): float(row["seconds"])
        for row in week_report.rows("status_time")
    }
    assert {key: found.get(key, 0.0) for key in truth} == pytest.approx(dict(truth), abs=1e-4)


def test_percentiles_are_right_to_a_bucket(week_report: Reports, week: Fleet) -> None:
    lengths = sorted(
        e.seconds
        for e in oracle.read(week.samples)
        if e.group == "orders" and e.seconds is not None
    )
    (row,) = [row for row in week_report.rows("durations") if row["group"] == "orders"]
    assert len(lengths) == int(row["member_rebalances"])
    for percent in (50, 95, 99):
        exact = lengths[ceil(percent / 100 * len(lengths)) - 1]
        assert float(row[f"member_p{percent}_s"]) == pytest.approx(exact, rel=0.05)


def test_report_has_the_proposals_of_its_incidents(week_report: Reports) -> None:
    ids = {row["id"] for row in week_report.rows("incidents")}
    assert len(week_report.proposals) > PROPOSALS_SHOWN
    for proposal in week_report.proposals[:PROPOSALS_SHOWN]:
        assert set(proposal.incidents) <= ids
        assert f"<b>{proposal.name}</b>: {escape(proposal.text)}" in week_report.page
        assert escape(proposal.now_text) in week_report.page


def test_headline_has_the_verdict_in_words(week_report: Reports) -> None:
    total = sum(int(row["rebalances"]) for row in week_report.rows("groups"))
    kinds = week_report.rows("kinds")
    counts = {
        plan: sum(int(row["incidents"]) for row in kinds if row["plan"] == plan)
        for plan in ("unplanned", "planned")
    }
    assert len(week_report.rows("incidents")) == sum(counts.values())
    assert (
        f"{counts['unplanned']} unplanned incidents and {counts['planned']} planned in 8 groups "
        "from 24 to 27 November 2025." in week_report.page
    )
    assert f"{total} rebalances from 24 to 27 November 2025 cost members" in week_report.page
    assert "The data has 1 gap; see" in week_report.page


def test_each_rebalance_is_in_an_incident_of_the_tables(week_report: Reports) -> None:
    found = {
        name: ds.dataset(week_report.tables / name, partitioning="hive").to_table().to_pylist()
        for name in ("rebalances", "incidents")
    }
    episodes = [episode for row in found["incidents"] for episode in row["episodes"]]
    rebalances = [row for row in found["rebalances"] if not row["is_end"]]
    assert sorted(episodes) == sorted(row["id"] for row in rebalances)
    ids = {row["id"] for row in found["incidents"]}
    assert {row["incident"] for row in rebalances} <= ids


def test_every_section_has_its_files_its_query_and_its_place(week_report: Reports) -> None:
    for section in SECTIONS:
        table = pq.read_table(week_report.output / f"{section.name}.parquet")
        assert table.num_rows == len(week_report.rows(section.name))
        if section.rows_shown:
            assert f'id="{section.name}"' in week_report.page
        assert f'id="query-{section.name}"' in week_report.page
    assert "FROM rollups" in week_report.page
    assert Tags(week_report.page).names.count("svg") >= 8


def test_rebalances_whose_cause_was_not_seen_are_in_data_quality(reports: Reports) -> None:
    rollups = RollupStore(reports.spark, reports.tables).rollups()
    quarantine = read_table(reports.spark, reports.tables, Table.QUARANTINE)
    one = rollups.where("what = 'rebalance' AND code = 2").limit(1)
    unseen = one.withColumns({"code": F.lit(None).cast("int"), "times": F.lit(3).cast("long")})
    found = {}
    for name, rows in (("as it is", rollups), ("with unseen", rollups.unionByName(unseen))):
        facts = context_of(rows, quarantine, ReportRequest())
        quality_rows = facts.run(quality.SECTION).where("causes_not_seen > 0").collect()
        causes_rows = facts.run(causes.SECTION).where("cause IS NULL").collect()
        assert [row.agent for row in quality_rows] == [quality.UNSEEN] * bool(causes_rows)
        found[name] = sum(row.causes_not_seen for row in quality_rows)
        assert found[name] == sum(row.rebalances for row in causes_rows)
    assert found["with unseen"] - found["as it is"] == 3


def test_another_engine_gives_the_same_numbers(week_report: Reports) -> None:
    """Compute the page's figure without Spark."""
    rollups = ds.dataset(week_report.tables / "rollups", partitioning="hive").to_table()
    rows = [row for row in rollups.to_pylist() if row["what"] == "rebalance"]
    total = sum(int(row["rebalances"]) for row in week_report.rows("groups"))
    assert sum(row["times"] for row in rows) == total


def test_analysts_questions_run_in_duckdb(week_report: Reports) -> None:
    views, questions = statements_of(Path("docs/analysts.md"))
    with duckdb.connect() as engine:
        for view in views:
            place = f"{week_report.tables}/"
            engine.execute(re.sub(r"read_parquet\('", f"read_parquet('{place}", view))
        answers = [engine.execute(question).fetchall() for question in questions]
        count = engine.execute("SELECT count(*) FROM incidents").fetchone()
    assert len(answers) == 10
    assert count == (len(week_report.rows("incidents")),)
    assert sum(row[2] for row in answers[0]) == count[0]
    assert sum(row[1] for row in answers[2]) == sum(
        int(row["incidents"]) for row in week_report.rows("kinds") if row["plan"] == "unplanned"
    )


def test_analysts_shares_of_time_are_those_of_the_report(week_report: Reports) -> None:
    rollups = f"read_parquet('{week_report.tables}/rollups/*/*.parquet', hive_partitioning = true)"
    question = statements_of(Path("docs/analysts.md"))[1][5].replace(
        "FROM rollups WHERE", f"FROM {rollups} WHERE day <= DATE '2025-11-27' AND"
    )
    with duckdb.connect() as engine:
        found = sorted(share for _, _, share in engine.execute(question).fetchall())
    wanted = sorted(float(row["share"]) for row in week_report.rows("share") if row["share"])
    assert found == pytest.approx(wanted)


def test_analysts_questions_have_the_same_answers_in_spark(week_report: Reports) -> None:
    views, questions = statements_of(Path("docs/analysts.md"))
    spark = week_report.spark.newSession()
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    for name in ("transitions", "incidents", "rebalances", "rollups"):
        rows = spark.read.parquet(str(week_report.tables / name))
        rows.createOrReplaceTempView(name)
    for view in views[-2:]:
        spark.sql(view.replace("CREATE VIEW", "CREATE TEMPORARY VIEW"))
    found = []
    with duckdb.connect() as engine:
        for view in views:
            engine.execute(view.replace("read_parquet('", f"read_parquet('{week_report.tables}/"))
        for question in questions:
            in_spark = question.replace(
                "date_diff('millisecond', ", "timestampdiff(MILLISECOND, "
            ).replace(
                ", UNNEST(i.departures) AS u(d)", " LATERAL VIEW explode(i.departures) u AS d"
            )
            answers = _in_order(engine.execute(question).fetchall())
            found.append(len(answers))
            ours = _in_order(tuple(row) for row in spark.sql(in_spark).collect())
            for one, other in zip(ours, answers, strict=True):
                assert one == pytest.approx(other, abs=2e-3), question  # full or begun ms
    assert len(found) == 10
    assert sum(map(bool, found)) > 5, found


def _in_order(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Return names and numbers without times: each engine has its own time zone."""
    kept = [[value for value in row if isinstance(value, str | int | float)] for row in rows]
    return sorted(kept, key=lambda row: [str(v) for v in row if not isinstance(v, float)])


def statements_of(page: Path) -> tuple[list[str], list[str]]:
    """Return the views and the questions of the analysts' page."""
    code = re.findall(r"(?m)(?:^ {4,}\S.*\n?)+", page.read_text())
    sql = [part.strip() for block in code for part in block.split(";\n") if part.strip()]
    views = [each for each in sql if each.startswith("CREATE VIEW")]
    return views, [each for each in sql if each.startswith("SELECT")]


def test_notebook_runs(week_report: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCE_TABLES", str(week_report.tables))
    notebook = msgspec.json.decode(Path("docs/analysts.ipynb").read_bytes())
    found: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec("".join(cell["source"]), found)
    assert found["kinds"]["incidents"].sum() == len(week_report.rows("incidents"))
    assert found["weeks"]["incidents"].sum() == len(week_report.rows("incidents"))


def test_analysts_questions_have_the_same_answers_in_polars(
    week_report: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the rows of a day of `rollups` is another file; a reader of the folder finds it."""
    page = Path("docs/analysts.md")
    views, questions = statements_of(page)
    block = re.search(r"^ {4}import polars as pl\n(?: {4}.*\n|\n)+", page.read_text(), re.MULTILINE)
    assert block is not None
    monkeypatch.chdir(week_report.tables)
    found: dict[str, Any] = {}
    exec(dedent(block[0]), found)
    for view in views[-2:]:
        found["view"](view)
    own = {number: found.get(f"question_{number}") for number in range(1, 11)}

    with duckdb.connect() as engine:
        for view in views:
            engine.execute(view)
        for (number, given), question in zip(own.items(), questions, strict=True):
            answer = found["sql"].execute(question) if given is None else given
            ours = _in_order(answer.collect().rows())
            wanted = _in_order(engine.execute(question).fetchall())
            for one, other in zip(ours, wanted, strict=True):
                assert one == pytest.approx(other, abs=2e-3), number

    assert [number for number, given in own.items() if given is not None] == [5, 7, 10]


def test_text_of_clients_is_never_markup_nor_formula(week_report: Reports) -> None:
    tags = Tags(week_report.page)
    assert "script" not in tags.names
    assert not [name for name in tags.attributes if name.startswith("on")]
    assert not set("\x00\x1b\u202e") & set(week_report.page)
    assert "default-src 'none'" in week_report.page
    assert "'" + SHOWN in {row["group"] for row in week_report.rows("durations")}
    for path in week_report.output.glob("*.csv"):
        assert all(line.isprintable() for line in path.read_text().split("\n"))
    table = pq.read_table(week_report.output / "durations.parquet")
    assert EVIL in table["group"].to_pylist()


def test_instants_are_utc_wherever_the_machine_is(week_report: Reports) -> None:
    (row,) = [row for row in week_report.rows("triggers") if row["group"] == "'" + SHOWN]
    assert row["last_at"] == "2025-11-24T00:08:20.000000Z"
    table = pq.read_table(week_report.output / "triggers.parquet")
    ends = dict(zip(table["group"].to_pylist(), table["last_at"].to_pylist(), strict=True))
    assert ends[EVIL].timestamp() == START_AT + 500


def test_faults_of_the_data_are_told_by_agent(week_report: Reports) -> None:
    found = {row["agent"]: row for row in week_report.rows("quality")}
    assert (found["agent-1"]["gaps"], found["agent-1"]["ends_not_seen"]) == ("1", "0")


def test_period_application_and_the_days_before(reports: Reports, week: Fleet) -> None:
    day = date(2025, 11, 26)
    report = reports.write(ReportRequest(first=day, last=day, by="app", compared=True), "compared")
    on = Counter(row["day"] for row in _rebalances(week))
    totals = [(int(r["rebalances"]), int(r["rebalances_before"])) for r in report.rows("compare")]
    assert (sum(n for n, _ in totals), sum(n for _, n in totals)) == (on[26], on[25])
    assert {row["app"] for row in report.rows("groups")} <= {s.app for s in week.samples}
    assert f"The other period had {on[25]} rebalance" in report.page


def _rebalances(week: Fleet) -> list[dict[str, int]]:
    return [
        {"day": int(format_time(e.round.started_at)[8:10])}
        for e in explain_rebalances(week.samples)
    ]


def test_quiet_period_is_reported_as_such(reports: Reports) -> None:
    report = reports.write(ReportRequest(first=date(2025, 11, 30)), "quiet")
    assert "No incident on 30 November 2025; 1 group observed." in report.page
    assert "No rebalance began in this period." in report.page


def test_period_without_records_is_none(reports: Reports) -> None:
    with pytest.raises(SparkJobError, match="hold 2025-11-24 to 2025-11-30"):
        reports.write(ReportRequest(first=date(2026, 1, 1)), "none")


def test_lines_that_are_no_records_are_told_whenever_their_file_was_written(
    reports: Reports,
) -> None:
    bad = {"id": "x", "day": date(2026, 1, 1), "lines": 2}
    quarantine = reports.spark.createDataFrame([bad], QUARANTINE)
    rollups = RollupStore(reports.spark, reports.tables).rollups()
    found = {}
    for last in (None, date(2025, 11, 30)):
        facts = context_of(rollups, quarantine, ReportRequest(last=last))
        rows = facts.run(quality.SECTION).where("agent = '(quarantine)'")
        found[last] = [row.quarantined_lines for row in rows.collect()]
    assert found == {None: [2], date(2025, 11, 30): [0]}


def test_a_reader_sees_it_in_light_and_dark(week_report: Reports, tmp_path: Path) -> None:
    url = (week_report.output / "report.html").as_uri()
    document, light = shown(url, tmp_path)
    _, dark = shown(url, tmp_path, dark=True)
    assert document.count("<svg") == week_report.page.count("<svg")
    assert light != dark


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (390, True)])
def test_everyone_can_read_it(week_report: Reports, tmp_path: Path, width: int, dark: bool) -> None:
    with browser(tmp_path) as tab:
        tab.screen(width, dark=dark)
        tab.open((week_report.output / "report.html").as_uri())
        assert findings(tab) == []


@pytest.mark.parametrize("groups", [1, 2000])
def test_page_stays_within_bounds(reports: Reports, tmp_path: Path, groups: int) -> None:
    """The page shows the first rows of each table; the files have all rows."""
    rollups = RollupStore(reports.spark, reports.tables).rollups()
    named = rollups.where("group = 'orders' AND day = '2025-11-27'")
    numbered = F.concat("group", F.lit("-"), "number")
    many = named.crossJoin(reports.spark.range(groups).toDF("number")).withColumn("group", numbered)
    fleet_of = many.drop("number").unionByName(rollups.where("group IS NULL")).persist()
    quarantine = read_table(reports.spark, reports.tables, Table.QUARANTINE)
    facts = context_of(fleet_of, quarantine, ReportRequest(first=date(2025, 11, 27), compared=True))
    page = write_report(build_report(facts, lambda _: None), tmp_path).read_text()
    fleet_of.unpersist()
    with (tmp_path / "groups.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == groups
    assert len(page) < PAGE_MAX_CHARS
    assert page.count("<tr") <= (len(SECTIONS) + 2) * (ROWS_SHOWN + 1) + 20
    assert sideways(page, tmp_path) == []
    narrow = sideways(page, tmp_path, TELEPHONE_PX)
    assert not [each for each in narrow if each == "HTML" or each.startswith("figure:")]
