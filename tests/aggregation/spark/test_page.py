"""The page, Markdown, JSON, mail and index of a report: without Spark."""

import os
import re
import resource
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.report import SECTIONS
from aggregation.spark.report.headline import Direction
from aggregation.spark.report.history import dated_folder, write_index
from aggregation.spark.report.news import News
from aggregation.spark.report.page import NO_NEWS, format_number, html_page, visible_columns
from aggregation.spark.report.plot import format_seconds
from aggregation.spark.report.proposals import CHANGES, CurvePoint, Proposal, change_rows
from aggregation.spark.report.render import MAIL, Format, check_output, write_report
from aggregation.spark.report.report import Report, in_zone
from aggregation.spark.report.texts import describe_objective, json_text, mail, markdown
from aggregation.spark.tables.period import Period
from tests.browser import DESK_PX, TELEPHONE_PX
from tests.devtools import browser

EVIL = "=1+1</td><script>alert(1)</script>\x1b[31m\u202e| *x* {{ 7 * 7 }}\x9b31m\r\n\x7f\u2028"
GROUP: dict[str, Any] = {
    "cluster": "eu",
    "group": "payments",
    "incidents": 9,
    "unplanned": 4,
    "unread_s": 5400.0,
    "unread_at_least": False,
    "unplanned_unread_s": 5000.0,
    "unplanned_unread_at_least": False,
    "rebalances": 20,
    "rebalancing_s": 100.0,
    "lost_s": 600.0,
    "unplanned_lost_s": 500.0,
    "share_of_lost": 0.6,
    "out_of_group_s": 0.0,
    "partitions_moved": None,
}
KINDS: list[dict[str, Any]] = [
    {"kind": "poll_timeout", "plan": "unplanned", "incidents": 4},
    {"kind": "rollout", "plan": "planned", "incidents": 5},
]
KINDS = [row | {"unread_s": 1.0, "unread_at_least": False, "lost_s": 5.0} for row in KINDS]
QUALITY: dict[str, Any] = {
    "gaps": 0,
    "starts_not_seen": 0,
    "ends_not_seen": 0,
    "dropped_as_stale": 0,
    "outage_h": 0,
    "quarantined_lines": 0,
    "causes_not_seen": 0,
    "clock_offset_s": None,
}
LATE_AND_OUT = (
    "The data has 4 late lines and 1 future line and 2 quarantined lines, "
    "and agent a was silent for 1 h; see Data quality."
)
WORSE = News(
    what="rose",
    cluster="eu",
    name="payments",
    kind="poll_timeout",
    plan="unplanned",
    since=date(2026, 3, 12),
    before=0.3,
    after=2.0,
    then=("max.poll.interval.ms 300000 → 60000",),
)


def report(*, empty: bool = False, **fields: Any) -> Report:
    tables: dict[str, list[dict[str, Any]]] = {section.name: [] for section in SECTIONS}
    tables |= {"news": [], "slo": [], "changes": []}
    if not empty:
        incident = {
            "cluster": "eu",
            "group": "payments",
            "id": "ab12",
            "kind": "poll_timeout",
            "plan": "unplanned",
            "started_at": datetime(2026, 3, 12, 10, tzinfo=UTC),
            "is_ongoing": False,
            "reason": EVIL,
        }
        tables |= {
            "groups": [GROUP, GROUP | {"group": EVIL, "unread_s": None}],
            "kinds": [row | {"share_of_lost": 0.5} for row in KINDS],
            "quality": [QUALITY | {"agent": "a"}],
            "incidents": [incident],
        }
    given: dict[str, Any] = {
        "period": Period(date(2026, 3, 1), date(2026, 3, 31)),
        "by": "group",
        "zone": "UTC",
        "sections": SECTIONS,
        "tables": tables,
        "schemas": {"news": pa.schema([]), "slo": pa.schema([]), "changes": CHANGES},
        "queries": {section.name: "SELECT 1 < 2\n  AS less" for section in SECTIONS},
        "news": [],
        "proposals": [],
    }
    return Report(**(given | fields))


def test_verdict_is_first_and_names_group_kind_and_date() -> None:
    found = report(news=[WORSE])
    assert found.verdict is Direction.WORSE
    assert found.title == ("Worse since 12 March in eu/payments: 2 poll_timeout a day, 0.3 before.")
    assert "Changed at that time: max.poll.interval.ms 300000 → 60000." in found.sentences
    page = html_page(found)
    assert page.index("Worse since") < page.index('id="worst"') < page.index('id="timeline"')


@pytest.mark.parametrize(
    ("rebalances", "sentence"),
    [
        (1, "The longest rebalance took 10 s, in eu/g."),
        (4, "The longest rebalance took 10 s, in eu/g."),
        (20, "The longest rebalance took 10 s, in eu/g; half of its 20 took about 2 s or less."),
    ],
)
def test_half_of_few_rebalances_is_no_figure(rebalances: int, sentence: str) -> None:
    own = {"cluster": "eu", "group": "g", "rebalances": rebalances}
    given = report()
    tables = {**given.tables, "durations": [own | {"p50_s": 2.0, "max_s": 10.004}]}
    assert sentence in replace(given, tables=tables).sentences


def test_half_that_took_as_long_as_the_longest_is_no_news() -> None:
    own, given = {"cluster": "eu", "group": "g", "rebalances": 20}, report()
    tables = {**given.tables, "durations": [own | {"p50_s": 10.0, "max_s": 10.004}]}
    assert "The longest rebalance took 10 s, in eu/g." in replace(given, tables=tables).sentences


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.9994, "999 ms"), (0.9996, "1 s"), (119.96, "120 s"), (7200, "2 h")]
)
def test_length_is_three_digits_of_the_unit_that_fits(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_largest_storm_is_in_the_summary() -> None:
    given = report()
    own = {"cluster": "eu", "lost_s": 1.0}
    since = datetime(2026, 3, 12, 14, 5, 30, tzinfo=UTC)
    storms = [
        own | {"group": "b", "since": since, "until": since, "rebalances": 5},
        own
        | {"group": "a", "since": since, "until": since + timedelta(seconds=490), "rebalances": 8},
    ]
    found = replace(given, tables={**given.tables, "storms": storms}).sentences
    assert "2 storms, the largest in eu/a: 8 rebalances began within 8.17 min on 12 March." in found
    found = replace(given, tables={**given.tables, "storms": storms[1:]}).sentences
    assert "1 storm, in eu/a: 8 rebalances began within 8.17 min on 12 March." in found


def test_agents_without_a_fault_are_one_line() -> None:
    given = report()
    fault = QUALITY | {"agent": "clock", "clock_offset_s": -3.5}
    quiet = html_page(replace(given, tables={**given.tables, "quality": [QUALITY]}))
    loud = html_page(replace(given, tables={**given.tables, "quality": [QUALITY, fault]}))
    assert "No fault was found in the records of any agent. All rows: <a" in quiet
    assert "1 of 2 rows; all of them: " in loud


COMPARED: dict[str, Any] = {
    "cluster": "eu",
    "app": "payments",
    "days": 15,
    "days_before": 22,
    "rebalances": 9,
    "rebalances_before": 0,
    "unplanned": 1,
    "unplanned_before": 67,
    "is_significant": None,
}


@pytest.mark.parametrize(
    ("level", "target", "words"),
    [
        (0.99, 0.999, "99 % not rebalancing of 99.9 %"),
        (0.999959, 0.9999, "99.9959 % not rebalancing of 99.99 %"),
        (0.9999992, 0.99999, "99.99992 % not rebalancing of 99.999 %"),
        (0.99899, 0.999, "99.899 % not rebalancing of 99.9 %"),
        (0.998999, 0.999, "99.8999 % not rebalancing of 99.9 %"),
        (1.0, 0.99999, "100 % not rebalancing of 99.999 %"),
        (1.0, 1.0, "100 % not rebalancing of 100 %"),
        (None, 0.99, "time rebalancing not known, target 99 %"),
    ],
)
def test_level_of_an_objective_is_not_rounded_to_its_target(
    level: float | None, target: float, words: str
) -> None:
    row = {"cluster": "eu", "group": "g", "level": level, "target": target, "met": None}
    unknown = {"budget_s": None, "unread_s": None, "unread_at_least": False}
    assert describe_objective(row | unknown) == f"eu/g: not known, {words}"


@pytest.mark.parametrize(
    ("unread_s", "words"),
    [
        (None, "unread time not known, budget 56 min"),
        (3361.0, "3,361 s unread of 3,360 s"),
        (3360.0, "56 min unread of 56 min"),
        (3000.0, "50 min unread of 56 min"),
    ],
)
def test_budget_that_is_missed_by_a_second_is_in_seconds(
    unread_s: float | None, words: str
) -> None:
    row = {"cluster": "eu", "group": "g", "level": None, "target": None, "met": None}
    known = {"budget_s": 3360.0, "unread_s": unread_s, "unread_at_least": False}
    assert describe_objective(row | known) == f"eu/g: not known, {words}"


def test_comparison_without_records_is_none() -> None:
    given = report()
    rows = [COMPARED | {"days_before": 0}]
    found = replace(given, tables={**given.tables, "compare": rows}).sentences
    assert "The other period, or this one, has no records: there is nothing to compare." in found


def test_comparison_of_groups_that_are_all_new_has_the_counts() -> None:
    given = report()
    found = replace(given, tables={**given.tables, "compare": [COMPARED]}).sentences
    assert (
        "The other period had 0 rebalances in 22 days (0 a day), this one 9 in 15 (0.6 a day)."
        in found
    )


def test_comparison_names_what_differs_by_more_than_noise() -> None:
    given = report()
    rows = [COMPARED | {"is_significant": True}, COMPARED | {"is_significant": False}]
    found = replace(given, tables={**given.tables, "compare": rows}).sentences
    assert (
        "The other period had 0 rebalances in 22 days (0 a day), this one 18 in 15 (1.2 a day); "
        "1 app differs by more than noise: eu/payments had 67 unplanned incidents, now 1." in found
    )


def test_comparison_without_a_difference_has_a_verdict() -> None:
    given = report()
    rows = [COMPARED | {"days_before": 15, "rebalances_before": 40, "is_significant": False}]
    found = replace(given, tables={**given.tables, "compare": rows}).sentences
    text = "The other period had 40 rebalances in 15 days, this one 9 in 15; "
    assert f"{text}no app differs by more than noise." in found


def test_share_that_is_not_known_is_no_figure() -> None:
    labels = [figure.label for figure in report().figures]
    assert "most time rebalancing" not in labels


def test_queries_keep_their_lines() -> None:
    page = html_page(report())
    assert "<pre>SELECT 1 &lt; 2\n  AS less\n</pre>" in page
    assert "\N{REPLACEMENT CHARACTER}" not in page.partition('id="queries"')[2]


def test_single_figures_have_a_single_noun() -> None:
    labels = [figure.label for figure in report().figures]
    assert labels[:2] == ["unplanned incidents", "planned ones"]
    one = [row | {"incidents": 1} for row in KINDS[:1]]
    given = report()
    labels = [f.label for f in replace(given, tables={**given.tables, "kinds": one}).figures]
    assert labels[0] == "unplanned incident"


@pytest.mark.parametrize(
    ("rows", "sentence", "number"),
    [
        ([], None, 0),
        ([{"agent": "a", "gaps": 1}], "The data has 1 gap; see Data quality.", 1),
        (
            [{"agent": "(cause not seen)", "causes_not_seen": 3}],
            "No agent saw the cause of 3 rebalances; see Data quality.",
            0,
        ),
        ([{"agent": "a", "outage_h": 6}], "Agent a was silent for 6 h; see Data quality.", 1),
        (
            [{"agent": "a", "outage_h": 2}, {"agent": "c", "outage_h": 1_200}],
            "2 agents were silent for 1,202 h in all (1,200 h of c); see Data quality.",
            2,
        ),
        (
            [
                {"agent": "(late)", "quarantined_lines": 4},
                {"agent": "(future)", "quarantined_lines": 1},
                {"agent": "(quarantine)", "quarantined_lines": 2},
                {"agent": "a", "outage_h": 1},
            ],
            LATE_AND_OUT,
            8,
        ),
    ],
)
def test_faults_in_the_summary_are_those_that_there_are(
    rows: list[dict[str, Any]], sentence: str | None, number: int
) -> None:
    given = report()
    tables = {**given.tables, "quality": [QUALITY | {"agent": "b"}, *(QUALITY | r for r in rows)]}
    found = replace(given, tables=tables)
    told = [each for each in found.sentences if "Data quality" in each]
    assert told == ([sentence] if sentence else [])
    assert html_page(found).count('<a href="#quality">Data quality</a>.</li>') == len(told)
    assert found.figure_values()["faults"] == number


def test_each_sentence_of_the_summary_has_a_link_to_its_rows() -> None:
    found = report(days_without=3, news=[WORSE])
    page = html_page(found)
    results = page[page.index('<ul class="lead">') : page.index('<ul class="figures">')]
    places = re.findall(r'<a href="#(\w+)">', results)
    assert places == [result.section for result in found.results]
    assert len(places) > 3
    assert all(f'id="{place}"' in page for place in places)


def test_days_without_records_are_named() -> None:
    assert not [each for each in report().sentences if "No agent" in each]
    sentence = "No agent has a record of 3 of the 31 days."
    assert sentence in report(days_without=3).sentences


def test_planned_change_is_no_verdict() -> None:
    found = report(news=[replace(WORSE, plan="planned", kind="rollout")])
    assert found.verdict is Direction.SAME
    assert found.title.startswith("4 unplanned incidents and 5 planned in 2 groups from 1 to 31")


def test_costliest_groups_link_to_their_rows() -> None:
    page = html_page(report())
    place = page.split('href="#of-')[1].split('"')[0]
    assert f'<tr id="of-{place}">' in page
    assert "90 min unread, 4 unplanned and 5 planned incidents" in page
    given = report()
    first, *others = given.tables["groups"]
    one = [first | {"incidents": first["unplanned"] + 1}, *others]
    page = html_page(replace(given, tables={**given.tables, "groups": one}))
    assert "4 unplanned and 1 planned incident<" in page


def test_numbers_link_to_their_rows() -> None:
    given = report()
    quality = [QUALITY | {"agent": "a", "gaps": 77}]
    page = html_page(replace(given, tables={**given.tables, "quality": quality}))
    to_incident = '<a href="#incident-ab12">'

    assert 'id="incident-ab12"' in page
    assert f"{to_incident}20</a>" in page  # rebalances of a group with an incident on the page
    assert '<a href="incidents.csv">20</a>' in page  # of another one
    assert page.count(f"{to_incident}4</a>") == 2  # of the group, and of the kind
    assert '<a href="#query-quality">77</a>' in page
    assert 'id="query-quality"' in page


def test_sections_without_rows_are_one_line() -> None:
    page = html_page(report(empty=True))
    assert "No incident from 1 to 31 March 2026" in page
    shown = [section for section in SECTIONS if section.rows_shown]
    assert page.count('class="short"') == len(shown) + 1
    parts = markdown(report(empty=True)).split("\n## ")
    assert parts[-len(shown) - 1 :] == [
        f"{title}\n\n{text}\n"
        for title, text in [("What changed", NO_NEWS), *((s.title, s.empty) for s in shown)]
    ]


def test_every_link_of_the_page_has_its_place() -> None:
    """The 20th group is in files alone: its incident links there."""
    found = report()
    groups = [GROUP | {"group": f"g{number}"} for number in range(20)]
    incidents = [row | {"group": "g19"} for row in found.tables["incidents"]]
    page = html_page(
        replace(found, tables={**found.tables, "groups": groups, "incidents": incidents})
    )
    places = set(re.findall(r' id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= places
    assert '<a href="groups.csv">eu/g19</a>' in page


def test_markdown_leaves_out_agents_without_a_fault_and_names_the_rows_that_it_lacks() -> None:
    found = report()
    groups = [GROUP | {"group": f"g{number}"} for number in range(20)]
    tables = {**found.tables, "groups": groups, "quality": [QUALITY | {"agent": "a"}]}
    text = markdown(replace(found, tables=tables))
    assert "| 15 of 20 rows |" not in text
    assert "\n\n15 of 20 rows\n\n" in text
    assert "No fault was found in the records of any agent." in text


def test_times_are_of_the_reports_zone_and_those_of_data_of_utc(tmp_path: Path) -> None:
    """A minute before midnight UTC is another day in Berlin, as in the report's days."""
    found = report(zone="Europe/Berlin")
    at = datetime(2026, 3, 12, 23, 59, tzinfo=UTC)
    row = in_zone(found.tables["incidents"][0] | {"started_at": at}, ZoneInfo("Europe/Berlin"))
    local = replace(found, tables={**found.tables, "incidents": [row]})
    assert "2026-03-13 00:59:00" in html_page(local)
    assert "Days and times are of Europe/Berlin; the files have UTC." in html_page(local)
    assert "2026-03-13 00:59:00" in markdown(local)
    assert "2026-03-12T23:59:00.000000Z" in json_text(local)
    schema = pa.schema([("started_at", pa.timestamp("us", tz="UTC"))])
    write_report(replace(local, schemas={**local.schemas, "incidents": schema}), tmp_path)
    assert (tmp_path / "incidents.csv").read_text().split() == [
        "started_at",
        "2026-03-12T23:59:00.000000Z",
    ]
    assert pq.read_table(tmp_path / "incidents.parquet").to_pylist() == [{"started_at": at}]


def test_days_of_a_comparison_are_those_of_the_group() -> None:
    row = {"days": 22, "days_before": 9, "observed_days": 7, "observed_days_before": 1}
    assert visible_columns(row) == {"days": 7, "days_before": 1}


def test_text_of_clients_is_never_markup(tmp_path: Path) -> None:
    page = html_page(report())
    assert "<script" not in page
    assert not set("\x1b\u202e") & set(page)
    assert "{{ 7 * 7 }}" in page
    text = markdown(report())
    assert r"\<script\>" in text
    assert r"\| \*x\*" in text
    write_report(report(), tmp_path, Format.HTML)
    message = message_from_bytes((tmp_path / MAIL).read_bytes(), policy=default)
    body = message.get_body(("html",))
    assert body is not None
    assert "<script" not in body.get_content()


@pytest.mark.parametrize("kind", Format)
def test_no_file_has_an_invisible_character(tmp_path: Path, kind: Format) -> None:
    write_report(report(), tmp_path, kind)

    for path in tmp_path.iterdir():
        if path.suffix == ".parquet":
            continue
        texts = [path.read_bytes().decode()]
        if path.name == MAIL:
            message = message_from_bytes(path.read_bytes(), policy=default)
            texts = [str(message["Subject"])]
            texts += [str(p.get_content()) for p in message.walk() if not p.is_multipart()]
        for text in texts:
            lines = text.replace("\r\n", "\n")
            found = {each for each in lines if not each.isprintable()} - {"\n"}
            assert (path.name, found) == (path.name, set())


def a_proposal(**fields: Any) -> Proposal:
    given: dict[str, Any] = {
        "cluster": "eu",
        "group": "g",
        "setting": "session.timeout.ms",
        "now": None,
        "proposed": "60000",
        "because": "pauses",
        "price": "none",
        "rebalances_avoided": 1,
        "unread_avoided_s": None,
        "confidence": "low",
        "text": "it would have avoided rebalances",
        "incidents": ("i1", "i2"),
        "lines": (("Java", "session.timeout.ms=60000"),),
    }
    return Proposal(**(given | fields))


def plain_mail(found: Report) -> str:
    body = message_from_bytes(mail(found), policy=default).get_body(("plain",))
    assert body is not None
    return str(body.get_content())


def test_proposals_have_their_place_in_each_format() -> None:
    proposal = Proposal(
        cluster="eu",
        group="payments",
        setting="max.poll.interval.ms",
        now="60000",
        proposed="300000",
        because="4 polls took 61 to 70 s",
        price="a stuck member is noticed 4 min later",
        rebalances_avoided=8,
        unread_avoided_s=2400.0,
        confidence="high",
        text="max.poll.interval.ms=300000 would have avoided 8 of 9 rebalances in 7 days",
        incidents=("i1", "i2", "i3", "i4"),
        members=(EVIL, "worker-1"),
        lines=(("Java", "# first\nmax.poll.interval.ms=300000"), ("broker", "# ```\x1b none")),
        curve=(
            CurvePoint(timeout_s=110.0, rebalances_avoided=6, unread_avoided_s=None, later_s=50.0),
            CurvePoint(
                timeout_s=300.0, rebalances_avoided=8, unread_avoided_s=2400.0, later_s=240.0
            ),
        ),
    )
    found = report(proposals=[proposal])
    for text in (html_page(found), markdown(found).replace("\\", ""), mail(found).decode()):
        assert "max.poll.interval.ms" in text
        line = text.replace("=\r\n", "").replace("=3D", "=")
        assert "would have avoided 8 of 9 rebalances in 7 days" in line
        assert "Confidence: high." in text.replace("=\r\n", "")
        assert "max.poll.interval.ms=300000" in text.replace("=3D", "=")
        assert "# Java" in text
        assert "\x1b" not in text
    assert markdown(found).count("```") == 2
    assert "   | 110 s | 6 | not known | 50 s |\n   | 5 min | 8 | 40 min | 4 min |" in markdown(
        found
    )
    assert "<td>5 min</td><td>8</td><td>40 min</td><td>4 min</td>" in html_page(found)
    page = html_page(found)
    assert "# Java\n# first\nmax.poll.interval.ms=300000\n# broker\n" in page
    assert "Incidents: i1, i2, i3 and 1 more; members: " in page
    assert "worker-1." in page
    assert "<script" not in page
    assert msgspec.json.decode(json_text(found))["proposals"][0]["rebalances_avoided"] == 8


@pytest.mark.parametrize(
    ("setting", "now", "words"),
    [
        ("session.timeout.ms", "45000", "session.timeout.ms is 45000 now."),
        ("session.timeout.ms", None, "session.timeout.ms is not known now."),
        ("group.instance.id", None, "No member has a group.instance.id now."),
        ("rollout in fewer steps", None, ""),
    ],
)
def test_value_now_is_of_a_setting_that_has_one(setting: str, now: str | None, words: str) -> None:
    found = report(proposals=[a_proposal(setting=setting, now=now)])
    for text in (markdown(found).replace("\\", ""), plain_mail(found), html_page(found)):
        shown = re.sub("</?code>", "", text)
        about = [line for line in shown.splitlines() if "The price: none." in line]
        assert words in about[0]
        assert " now" in about[0] if words else " now" not in about[0]


def test_tables_of_markdown_have_names_and_units_of_the_page() -> None:
    text, page = markdown(report()), html_page(report())
    heads = [line for line in text.splitlines() if line.startswith("| group | incidents |")]
    assert heads
    for name in heads[0].strip("| ").split(" | "):
        assert f">{name}</th>" in page
    assert "rebalancing (s)" in heads[0]
    rows = [line for line in text.splitlines() if line.startswith("| eu/payments |")]
    assert " 60 % |" in rows[0]


def test_causes_of_markdown_are_those_of_the_page() -> None:
    row = {"since": date(2026, 3, 12), "days": 1, "rebalances": 2, "lost_s": 1.0}
    rows = [
        row | {"cause": None, "cause_name": None},
        row | {"cause": 2, "cause_name": "NewMember"},
    ]
    given = report()
    found = replace(given, tables={**given.tables, "causes": rows})
    text, page = markdown(found), html_page(found)
    for name in ("cause not seen", "2 NewMember"):
        assert f"</i>{name}</td>" in page
        assert f"| {name} |" in text


@pytest.mark.parametrize("section", ["groups", "kinds"])
def test_bars_of_lost_time_are_named_beside_a_table_in_the_order_of_unread_time(
    section: str,
) -> None:
    page = html_page(report())
    part = page.partition(f'<section id="{section}"')[2].partition("</section>")[0]
    assert ">time lost by members<" in part.partition("<table")[0]


def test_of_a_curve_the_points_are_shown_at_which_the_outcome_changes() -> None:
    curve = tuple(
        CurvePoint(timeout_s=t, rebalances_avoided=n, unread_avoided_s=None, later_s=0.0)
        for t, n in ((45.0, 4), (46.0, 4), (50.0, 6), (51.0, 6))
    )
    found = report(proposals=[a_proposal(curve=curve)])
    for text in (markdown(found), html_page(found)):
        assert ("45 s" in text, "46 s" in text, "50 s" in text, "51 s" in text) == (
            (True, False) * 2
        )
    alone = report(proposals=[a_proposal(curve=curve[:2])])
    for text in (markdown(alone), html_page(alone)):
        assert "rebalances avoided" not in text


def test_the_first_screen_links_each_change_to_its_details() -> None:
    page = html_page(report(proposals=[a_proposal(), a_proposal(group="h")]))
    first, details = page.split('<section id="first-changes">')
    for number in (1, 2):
        assert f'href="#change-{number}"' in first
        assert f'id="change-{number}"' in details
    assert "The price" not in first
    assert "The price" in details


def test_lines_of_a_mail_are_lines_in_html() -> None:
    """Each was a paragraph, a comment too."""
    lines = (("Java", "a=1\nb=<2>"), ("broker", "c=3"))
    found = report(proposals=[a_proposal(lines=lines)])
    body = message_from_bytes(mail(found), policy=default).get_body(("html",))
    assert body is not None
    assert "<pre># Java\na=1\nb=&lt;2&gt;\n# broker\nc=3</pre>" in body.get_content().replace(
        "\r", ""
    )


def test_unread_time_that_no_source_shows_is_no_zero() -> None:
    given = report()
    groups = [row | {"unread_s": None, "unplanned_unread_s": None} for row in [GROUP]]
    values = replace(given, tables={**given.tables, "groups": groups}).figure_values()
    assert (values["unread_s"], values["unplanned_unread_s"]) == (None, None)
    assert report().figure_values()["unread_s"] is not None


def test_all_proposals_are_in_the_files_and_the_first_three_on_the_page(tmp_path: Path) -> None:
    made = [a_proposal(group=f"g{number}", rebalances_avoided=number) for number in range(5)]
    found = report(proposals=made)
    tables = {**found.tables, "changes": change_rows(made)}
    found = replace(found, tables=tables)
    for text in (html_page(found), markdown(found)):
        assert "eu/g2" in text
        assert "eu/g3" not in text
    assert len(msgspec.json.decode(json_text(found))["proposals"]) == 5
    write_report(found, tmp_path)
    rows = pq.read_table(tmp_path / "changes.parquet").to_pylist()
    assert [row["group"] for row in rows] == [f"g{number}" for number in range(5)]
    assert rows[0]["incidents"] == "i1, i2"
    assert rows[0]["lines"] == "# Java\nsession.timeout.ms=60000"


def test_objective_that_is_missed_is_on_the_first_screen() -> None:
    row = {"cluster": "eu", "group": "payments", "target": 0.999, "level": 0.99, "budget_s": 60.0}
    given = report()
    row |= {"unread_s": 90.0, "unread_at_least": False, "budget_used": 1.5, "met": False}
    tables = {**given.tables, "slo": [row]}
    page = html_page(replace(given, tables=tables))
    assert '<span class="missed">missed</span>, 99 % not rebalancing of 99.9 %' in page
    assert "90 s unread of 60 s" in page
    found = replace(given, tables=tables)
    assert found.figure_values()["slo_missed"] == 1
    line = "eu/payments: missed, 99 % not rebalancing of 99.9 %, 90 s unread of 60 s"
    assert f"- {line}" in markdown(found)
    body = message_from_bytes(mail(found), policy=default).get_body(("plain",))
    assert body is not None
    assert f"\n\nObjectives\n{line}\n" in body.get_content().replace("\r", "")


def test_json_has_every_section_and_figure() -> None:
    found = msgspec.json.decode(json_text(report(news=[WORSE])))
    assert set(found["sections"]) == {section.name for section in SECTIONS}
    assert (found["verdict"], found["figures"]["poll_timeout"]) == ("worse", 4)
    assert found["sections"]["incidents"][0]["started_at"] == "2026-03-12T10:00:00.000000Z"


def test_mail_is_complete_but_for_its_people() -> None:
    message = message_from_bytes(mail(report(news=[WORSE])), policy=default)
    assert message["Subject"].startswith("Worse since 12 March")
    assert [part.get_content_type() for part in message.walk()] == [
        "multipart/alternative",
        "text/plain",
        "text/html",
    ]


def test_lower_bound_of_unread_time_is_named_in_each_format() -> None:
    bound = {"unread_at_least": True, "unplanned_unread_at_least": True}
    slo = {"cluster": "eu", "group": "payments", "target": None, "level": 0.9, "budget_s": 9000.0}
    slo |= {"unread_s": 5400.0, "unread_at_least": True, "budget_used": 0.6, "met": None}
    tables = {
        **report().tables,
        "groups": [GROUP | bound],
        "kinds": [KINDS[0] | {"unread_s": 5400.0, "unread_at_least": True}],
        "slo": [slo],
    }
    found = report(tables=tables)
    texts = {
        "page": html_page(found),
        "markdown": markdown(found).replace("\\", ""),
        "mail": plain_mail(found),
    }
    figures = {figure.label: figure.value for figure in found.figures}
    assert figures["partitions unread, at least"] == "90 min"
    for name, text in texts.items():
        assert "at least 90 min unread, 10 min lost by members" in text, name
        assert "at least 90 min unread of 2.5 h" in text, name
    for name in ("page", "markdown"):
        assert "at least 5,400" in texts[name]
        assert "at least 5,000" in texts[name]
        assert "unread at least" not in texts[name]
    assert msgspec.json.decode(json_text(found))["unread_at_least"] is True


def test_cause_whose_unread_time_is_not_known_is_not_hidden() -> None:
    hidden = {"kind": "session_expired", "unread_s": None, "unread_at_least": True}
    rows = [KINDS[0], KINDS[0] | hidden | {"lost_s": 9000.0}]
    found = report(tables={**report().tables, "kinds": rows})
    assert any(
        sentence == "The costliest unplanned cause was poll_timeout: 4 of 8 unplanned incidents, "
        "1 s unread; session_expired cost members more, 2.5 h in 4 incidents, and its unread "
        "time is not known."
        for sentence in found.sentences
    ), found.sentences


def test_first_screen_has_verdict_groups_changes_and_objectives(tmp_path: Path) -> None:
    """Of a desk; on a telephone's the page is as wide as its window, and tables scroll."""
    long = {"group": f"{'payments-settlement-' * 4}in", "cluster": "eu-central-1"}
    slo = {"target": 0.999, "level": 0.99, "budget_s": 60.0, "unread_s": 90.0, "met": False}
    slo |= {"unread_at_least": True, "budget_used": 1.5}
    tables = {**report().tables, "groups": [GROUP | long] * 3, "slo": [slo | long] * 3}
    found = report(tables=tables, news=[WORSE], proposals=[a_proposal()] * 3)
    path = tmp_path / "report.html"
    path.write_text(html_page(found))
    tops = "['h1', '#worst li', '#proposals li', '#slo li'].map("
    tops += "name => document.querySelector(name).getBoundingClientRect().top)"
    with browser(tmp_path) as tab:
        tab.screen(1200, height=900)
        tab.open(path.as_uri())
        assert all(0 < top < 900 for top in tab.run(tops))
        tab.screen(TELEPHONE_PX)
        tab.open(path.as_uri())
        assert tab.run("[innerWidth, document.documentElement.scrollWidth]") == [TELEPHONE_PX] * 2


@pytest.mark.parametrize(("rebalances", "is_shown"), [(0, True), (1, False)])
def test_longest_rebalance_is_no_figure_where_no_end_is_known(
    rebalances: int, is_shown: bool
) -> None:
    groups = [GROUP | {"rebalances": rebalances}]
    durations = [{"cluster": "eu", "group": "payments", "rebalances": rebalances, "max_s": None}]
    found = report(tables={**report().tables, "groups": groups, "durations": durations})
    assert ("longest rebalance" in {figure.label for figure in found.figures}) == is_shown


def test_cost_of_nothing_is_no_time() -> None:
    groups = [GROUP | {"rebalances": 1, "lost_s": 0.0, "unplanned_lost_s": 0.0}]
    kinds = [KINDS[0] | {"incidents": 1, "lost_s": 0.0}]
    found = report(tables={**report().tables, "groups": groups, "kinds": kinds})
    assert "1 rebalance from 1 to 31 March 2026 cost members no time." in found.sentences


@pytest.mark.parametrize("value", ["57.7 min", "<0.01 %", "123,456", "123,456 h"])
def test_figures_fit_their_boxes(value: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html_page(report()))
    wider = f"""(() => [...document.querySelectorAll(".figures b")].filter(one => {{
      one.textContent = {value!r};
      return one.scrollWidth > one.clientWidth;
    }}).length)()"""
    with browser(tmp_path) as tab:
        for width_px in (1280, DESK_PX, 1024, 500, TELEPHONE_PX):
            tab.screen(width_px)
            tab.open(path.as_uri())
            assert tab.run(wider) == 0, width_px


TOUCHING = """(() => {
  const boxes = [...document.querySelectorAll(".axis span, .marked span, .scale span")]
    .map(one => [one.parentNode, one.textContent, one.getBoundingClientRect()])
    .filter(([, , box]) => box.width);
  return boxes.flatMap(([place, text, box], n) => boxes.slice(n + 1)
    .filter(([other, , next]) => other === place && box.left < next.right && next.left < box.right
      && box.top < next.bottom && next.top < box.bottom)
    .map(([, next]) => `${text} / ${next}`));
})()"""
"""Texts of one axis that lie upon each other."""


@pytest.mark.process
def test_no_text_of_an_axis_hides_another(tmp_path: Path) -> None:
    """Long names leave little room for bars, and eight changes may fall on one week."""
    waited = [
        {"cluster": "prod-eu", "group": f"shipping-{n}", "client_id": f"consumer-shipping-{n}"}
        | {"host": "h", "held_up": 15, "waited_s": seconds, "mean_wait_s": 1.0}
        for n, seconds in enumerate((290.0, 16.1, 4.45))
    ]
    days = [
        {"since": date(2026, 3, day), "days": 1, "plan": plan, "incidents": 20 * day}
        | {"rebalances": 3, "unread_s": None, "unread_at_least": False, "lost_s": 5.0}
        for day in range(31, 0, -1)
        for plan in ("planned", "unplanned")
    ]
    news = [
        replace(WORSE, name=f"g{n}", since=date(2026, 3, day))
        for n, day in enumerate((1, 5, 12, 12, 12, 13, 15, 31))
    ]
    tables = {**report().tables, "stragglers": waited, "timeline": days}
    path = tmp_path / "report.html"
    path.write_text(html_page(report(tables=tables, news=news)), encoding="utf-8")
    with browser(tmp_path) as tab:
        for width_px in (1400, DESK_PX, 600, TELEPHONE_PX, 320):
            tab.screen(width_px)
            tab.open(path.as_uri())
            assert tab.run(TOUCHING) == [], width_px


def test_a_report_that_a_full_disk_takes_a_part_of_leaves_the_last_one_whole(
    tmp_path: Path, file_size_limit: Callable[[int], None]
) -> None:
    write_report(report(), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    file_size_limit(len(before["report.html"]) // 2)
    with pytest.raises(SparkJobError, match=r"cannot write the report to .*File too large"):
        write_report(replace(report(), by="app"), tmp_path)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_output_that_can_be_no_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").touch()
    check_output(tmp_path / "new" / "newer")
    for name in ("link", "link/below", "file/below", "x" * 300):
        with pytest.raises(SparkSetupError, match="is no folder that can be written to"):
            check_output(tmp_path / name)
    closed, user = tmp_path / "closed", os.geteuid()
    closed.mkdir(mode=0)
    os.seteuid(user or 65534)
    try:
        with pytest.raises(SparkSetupError, match="is no folder that can be written to"):
            check_output(closed / "below")
    finally:
        os.seteuid(user)


@pytest.fixture
def file_size_limit() -> Iterator[Callable[[int], None]]:
    """A disk of so many bytes a file, for this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_index_lists_reports_the_latest_first(tmp_path: Path) -> None:
    march = report(news=[WORSE])
    april = replace(report(), period=Period(date(2026, 4, 1), date(2026, 4, 1)))
    for each in (april, march, march):
        page = write_report(each, dated_folder(tmp_path, each))
        index = write_index(tmp_path, each, page)
    text = index.read_text()
    assert text.index("2026-04-01/report.html") < text.index("2026-03-01_2026-03-31/report.html")
    assert text.count("<a ") == 2
    (tmp_path / "2026-04-01" / "summary.json").write_text("{")
    assert "2026-04-01/report.html" not in write_index(tmp_path, march, page).read_text()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234, "0.0123"), (12.345, "12.3"), (999.0, "999"), (12345.6, "12,346")],
)
def test_numbers_have_three_significant_digits(value: float, text: str) -> None:
    assert format_number(value) == text
