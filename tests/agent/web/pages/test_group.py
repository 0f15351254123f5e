import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from starlette.datastructures import QueryParams

from agent.hub.recent_records import RecentRecords
from agent.web.pages.environment import detail
from agent.web.pages.pages import HtmlPage, Pages, Seen
from aggregation.incidents.incidents import analyze
from aggregation.rebalances.identities import unify_identities
from metrics.exporters.exposition import AgentStats
from metrics.model.sample import Sample
from metrics.model.signals import Member, Signal
from metrics.model.snapshot import Snapshot
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.agent.web.pages.scene import BUSY, STUCK, WAITING, scene
from tests.aggregation.incidents.test_incidents import lags
from tests.aggregation.live.test_live import INSPECTED
from tests.aggregation.rebalances.test_rebalances import (
    NEW,
    START,
    A,
    B,
    C,
    left,
    records,
    round_of,
)
from tests.browser import shown
from tests.metrics.given import raised, run

HAPPENED = records(*START, left(100.0, A, "closed"), *round_of(2, 101.0, B, C), raised(7, 200.0, B))
EVIL = "<script>document.title='owned'</script>\x1b[31m"
STATS = AgentStats(version="0.1.0", python_version="3.11.0")


def ask(path: str, history: RecentRecords, snapshot: Snapshot, **given: str) -> HtmlPage:
    pages = Pages(history)
    seen = Seen(snapshot=snapshot, stats=STATS, telemetry_path="/metrics")
    return getattr(pages, path)(seen, QueryParams(given))  # type: ignore[no-any-return]


def page(happened: list[Sample], now: float = 210.0, group: str = "g", minutes: int = 5) -> str:
    history = RecentRecords(happened)
    return ask("group", history, Snapshot(at=now), group=group, minutes=str(minutes)).html


def at_scene(path: str, **given: str) -> str:
    shown = scene()
    return ask(path, shown.history, shown.look(), **given).html


def incident_id(text: str) -> str:
    (found, *_) = re.findall(r'href="incident\?[^"]*id=(\w+)"', text)
    return str(found)


def test_an_ongoing_incident_is_first_with_who_is_waited_for() -> None:
    text = at_scene("group", group=WAITING)

    card = text.partition('class="card going"')[2].partition("</article>")[0]
    assert "Waiting for <strong>m1</strong>" in card
    assert "m3 joined" in card
    assert "coordinator: <b>PreparingRebalance</b>" in text


def test_incidents_are_listed_the_latest_first_with_what_to_change() -> None:
    text = at_scene("group", group=BUSY)

    listed = re.findall(r'<span class="what"><a[^>]*>(.*?)</a>', text)
    assert listed[0].startswith("m5, m7 left")
    assert listed[-1].startswith("m1 joined")
    assert 'id="advice"' in text


def test_an_incident_of_thousands_of_members_is_a_light_page() -> None:
    members = [replace(A, client_id=f"m{n}", origin=f"{n}") for n in range(2_000)]
    got = [raised(1, 101.0 + n / 1000, each) for n, each in enumerate(members[1:])]
    happened = run(Tracker(StatusConfig()), raised(5, 100.0, members[0]), *got)
    history = RecentRecords(happened)
    listed = ask("group", history, Snapshot(at=110.0), group="g", minutes="5").html

    given = {"group": "g", "cluster": "k", "id": incident_id(listed)}
    text = ask("incident", history, Snapshot(at=110.0), **given).html

    assert len(text) < 200_000
    (named,) = re.findall(r"<h3>The group waits for</h3>\s*<ul.*?</ul>(.*?)</p>", text, re.DOTALL)
    assert "1,949 more" in named


def test_an_analysis_serves_all_who_look_until_records_or_time_change_it() -> None:
    history = RecentRecords(HAPPENED)
    first = history.groups.read("g", None, 210.0)

    assert history.groups.read("g", None, 210.2) is first
    assert history.groups.read("g", None, 209.0) is not first
    later = history.groups.read("g", None, 900.0)
    assert (later.analysis.incidents[0].is_final, first.analysis.incidents[0].is_final) == (
        True,
        False,
    )
    assert later is not first
    history.add(records(*START, raised(7, 1_000.0, C))[-1:], 1_000.0)
    assert len(history.groups.read("g", None, 900.0).records) == len(later.records) + 1


def test_an_incident_shows_how_the_lag_grew() -> None:
    happened = [*HAPPENED, *lags((101.0, 40, 900), (131.0, 5400, 30))]
    listed = re.findall(r'href="incident\?[^"]*id=(\w+)"', page(happened))
    history = RecentRecords(happened)
    texts = [
        ask("incident", history, Snapshot(at=210.0), group="g", cluster="k", id=each).html
        for each in dict.fromkeys(listed)
    ]

    (found,) = (text for text in texts if "<dt>Behind</dt>" in text)
    tile = found.partition("<dt>Behind</dt>")[2].partition("</dd>")[0]
    assert tile.startswith("<dd>5,400 <small>records, 40 before; caught up ")


def test_an_incident_names_its_cost_its_member_and_its_evidence() -> None:
    id_ = incident_id(at_scene("group", group=STUCK))

    text = at_scene("incident", group=STUCK, id=id_)

    assert "<h1>m1 exceeded its poll interval" in text
    assert re.search(r"<dt>Unread</dt><dd>[\d.]+ <small>partition-seconds", text)
    assert "max.poll." in text.partition('id="advice"')[2].partition("</section>")[0]
    evidence = text.partition('id="evidence"')[2]
    assert "0 None → 5 DroppedGroup" in evidence
    assert "<td>logs</td>" in evidence
    assert re.search(
        r'<td><time datetime="[^"]+" title="[\d-]+ [\d:.]+ UTC" data-form="instant">', evidence
    )


def test_what_ends_an_ongoing_incident_is_the_first_advice() -> None:
    text = at_scene("group", group=STUCK)

    advice = text.partition('id="advice"')[2].partition("</section>")[0]
    first, *others = re.findall(r"<li>(.*?)</li>", advice, re.DOTALL)
    assert first.startswith("max.poll.")
    assert others


def test_a_crash_loop_of_a_killed_process_is_nobodys_request() -> None:
    """Nor is the step of the protocol that each new process prints its reason."""
    history = list[Signal]()
    for number in (1, 2, 3):
        again = replace(C, member_id=f"c-{number}")
        at = 100.0 * number
        history += round_of(2 * number, at, A, B)
        history += round_of(2 * number + 1, at + 10.0, A, B, again, causes={"c": NEW})

    text = page(records(*START, *history), now=900.0, minutes=15)

    assert "c crash loop" in text
    (row,) = re.findall(
        r"<li>\s*<span class=\"when\">(?:(?!</li>).)*crash loop.*?</li>", text, re.DOTALL
    )
    assert "3 UnknownMember" in row
    assert NEW[1] not in row


def test_details_are_written_for_people() -> None:
    found = {
        "at": "2026-11-25T23:28:27.012000Z",
        "topics": ["a<b", "c"],
        "errors": {"NOT_COORDINATOR": 2},
        "is_static": True,
        "lag": None,
        "nothing": [],
    }
    shown = {name: str(detail(value)) for name, value in found.items()}
    assert shown.pop("at").endswith('data-form="date">2026-11-25 23:28:27 UTC</time>')
    assert shown == {
        "topics": "a&lt;b, c",
        "errors": "NOT_COORDINATOR 2",
        "is_static": "yes",
        "lag": "none",
        "nothing": "none",
    }


def test_the_figures_are_those_of_explain() -> None:
    shown = scene()
    records_of = shown.history.records(BUSY)
    incidents = shown.history.analyze(records_of, shown.look().at).incidents
    costs = [each.cost.unread_partition_seconds or 0.0 for each in reversed(incidents)]

    text = at_scene("group", group=BUSY)

    listed = re.findall(r'<span class="cost">(?:([\d,.]+) partition-seconds|nothing) unread', text)
    assert [float(each or 0) for each in listed] == pytest.approx(costs, abs=0.06)


def test_a_member_that_is_looked_for_has_its_lane_alone() -> None:
    text = at_scene("group", group=BUSY, member="m7", minutes="15")

    assert re.findall(r'class="name" title="(\w+)', text) == ["m7"]


def test_a_group_that_its_coordinator_alone_knows_says_what_to_do() -> None:
    snapshot = Snapshot(at=210.0, inspected=(INSPECTED,))

    text = ask("group", RecentRecords(), snapshot, group="g").html

    assert "no agent sees a member of g, " in text
    assert "No source sees a member of this group." in text


def test_a_group_that_nobody_knows_is_not_found() -> None:
    answer = ask("group", RecentRecords(), Snapshot(at=1.0), group=EVIL)

    assert answer.status_code == 404
    assert "&lt;script&gt;" in answer.html


def test_link_of_an_alert_leads_to_the_latest_incident_of_its_kind() -> None:
    shown = scene()
    history, look = shown.history, shown.look()
    (last, *_) = reversed(analyze(records_in(history, STUCK), now=look.at).incidents)

    found = ask("incident", history, look, group=STUCK, kind=last.kind.value)
    any_kind = ask("incident", history, look, group=STUCK)
    nothing = ask("incident", history, look, group="quiet", cluster="k")

    assert found.status_code == 303
    assert f"id={last.id}" in found.location
    assert found.location.startswith("incident?group=")
    assert any_kind.status_code == 303
    assert (nothing.status_code, nothing.location) == (303, "group?group=quiet&cluster=k")


def records_in(history: RecentRecords, group: str) -> list[Sample]:
    return unify_identities(history.records(group))


def test_an_incident_that_is_not_in_memory_is_not_found() -> None:
    shown = scene()

    assert ask("incident", shown.history, shown.look(), group=BUSY, id="0").status_code == 404


def test_names_from_outside_are_escaped() -> None:
    evil = Member(group=EVIL, client_id=EVIL, origin="s", host=EVIL)
    happened = run(Tracker(StatusConfig()), raised(7, 1.0, evil, reason=EVIL))
    text = page(happened, 2.0, EVIL)
    detail = ask(
        "incident", RecentRecords(happened), Snapshot(at=2.0), group=EVIL, id=incident_id(text)
    ).html

    for each in (text, detail):
        assert each.count("<script") == each.count('<script src="static/') == 1
        assert "\x1b" not in each
        assert "&lt;script&gt;" in each


@pytest.mark.parametrize("given", [{"minutes": "x"}, {"end": "nan"}, {"page": "-1"}, {"end": "5"}])
def test_a_query_that_makes_no_sense_is_a_page_too(given: dict[str, str]) -> None:
    history = RecentRecords(HAPPENED)

    answer = ask("group", history, Snapshot(at=210.0), **{"group": "g", **given})

    assert answer.status_code == 200


@pytest.mark.process
def test_hostile_names_run_nothing(tmp_path: Path) -> None:
    evil = Member(group=EVIL, client_id=EVIL, origin="s", host=EVIL)
    happened = run(Tracker(StatusConfig()), raised(7, 1.0, evil, reason=EVIL))
    file = tmp_path / "page.html"
    file.write_text(page(happened, 2.0, EVIL))

    dom, _ = shown(file.as_uri(), tmp_path)

    assert re.findall("<title>(.*?)</title>", dom)[0].startswith("&lt;script&gt;")
    assert dom.count("<script") == 1
