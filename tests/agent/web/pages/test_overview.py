import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.hub.recent_incidents import RecentIncidents
from agent.hub.recent_records import RecentRecords
from agent.web.pages import environment
from agent.web.pages.overview import (
    DAY_S,
    PAGE_ROWS,
    RECENT_S,
    SHOWS,
    SORTS,
    Overview,
    OverviewQuery,
    find_lines,
    overview,
    unread_by_hour,
)
from aggregation.incidents.model import Incident, IncidentKind
from aggregation.incidents.planning import is_planned
from aggregation.live.group_views import group_views
from aggregation.live.live import live
from aggregation.rebalances.grouping import GroupRef
from metrics.model.sample import parse_time
from metrics.model.snapshot import Snapshot
from tests.agent.web.pages.scene import BUSY, GOLDEN, NOW, QUIET, STUCK, WAITING, recorded, scene
from tests.aggregation.live.test_live import INSPECTED


def incidents_of(kept: RecentIncidents, now: float = NOW) -> dict[GroupRef, list[Incident]]:
    return {ref: each.incidents for ref, each in kept.read(now).items()}


def look(now: float = NOW, more: int = 0, **query: str | int) -> Overview:
    shown = scene(NOW, more)
    snapshot = replace(shown.look(), at=now)
    incidents = incidents_of(shown.history.incidents, now)
    return overview(snapshot, incidents, OverviewQuery(**query))  # type: ignore[arg-type]


def names(found: Overview) -> Sequence[str]:
    return [line.group for line in found.lines]


def test_what_goes_on_is_first() -> None:
    found = look()

    assert {each.group for each in found.ongoing} == {WAITING, STUCK}
    assert found.ongoing[0].group == WAITING
    assert [each.client_id for each in found.ongoing[0].waiting_for] == ["m1"]
    assert set(names(found)[:2]) == {WAITING, STUCK}
    assert names(found)[-1] == QUIET


def test_what_ended_is_named_for_ten_minutes() -> None:
    assert {each.group for each in look().ended} >= {BUSY}
    assert BUSY not in {each.group for each in look(NOW + 601).ended}


def test_many_planned_incidents_do_not_hide_one_that_nobody_planned() -> None:
    model = scene()
    (ref, known) = next(
        (ref, found)
        for ref, found in incidents_of(model.history.incidents).items()
        if ref.group == BUSY
    )
    crash = next(each for each in known if not is_planned(each))
    joins = [
        replace(
            crash, id=f"join-{n}", kind=IncidentKind.MEMBER_JOINED,
            started_at=NOW - n - 2, ended_at=NOW - n - 1,
        )
        for n in range(40)
    ]  # fmt: skip
    crash = replace(crash, started_at=NOW - 500, ended_at=NOW - 400)

    found = overview(model.look(), {ref: [crash, *joins]}, OverviewQuery())

    shown = [each.id for each in (*found.ended, *found.also_ended)]
    assert [each.id for each in found.ended] == [*(f"join-{n}" for n in range(5)), crash.id]
    assert len(shown) == len(set(shown)) == 30
    assert found.left_out == 11


def test_of_quiet_groups_those_with_trouble_are_first() -> None:
    model = scene(more=3)
    incidents = incidents_of(model.history.incidents)
    busy = next(ref for ref in incidents if ref.group == BUSY)
    calm = busy._replace(group=f"service-{0:05}")
    (crash,) = [each for each in incidents[busy] if not is_planned(each)][:1]
    incidents[calm] = [
        replace(crash, kind=IncidentKind.MEMBER_JOINED, started_at=NOW - 2, ended_at=NOW - 1)
    ]

    found = names(overview(model.look(), incidents, OverviewQuery()))

    assert found.index(BUSY) < found.index(calm.group) < found.index(QUIET)


def test_counts_are_of_ten_minutes_and_of_a_day() -> None:
    (line,) = [line for line in look(text=BUSY).lines if line.group == BUSY]
    (later,) = [line for line in look(NOW + 3600, text=BUSY).lines if line.group == BUSY]

    assert line.recent == line.day == len(line.incidents)
    assert (later.recent, later.day) == (0, line.day)
    assert line.unread == pytest.approx(
        sum(i.cost.unread_partition_seconds or 0 for i in line.incidents)
    )


def test_a_sparkline_has_each_unread_second_once() -> None:
    incidents = scene().history.analyze(scene().history.records(BUSY), NOW).incidents
    total = sum(each.cost.unread_partition_seconds or 0 for each in incidents)

    bars = unread_by_hour(incidents, NOW + 1800)

    assert sum(bars) == pytest.approx(total)
    assert sum(unread_by_hour(incidents, NOW + 2 * DAY_S)) == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("PAYM", [WAITING]),
        ("m4", [BUSY]),
        ("*stream", [STUCK]),
        ("preparing", [WAITING]),
        (f"{QUIET}-2", [QUIET]),
        ("no such thing", []),
    ],
)
def test_search_looks_at_names_states_members_and_hosts(text: str, found: list[str]) -> None:
    assert names(look(text=text)) == found


def test_filters_and_orders_are_what_they_say() -> None:
    assert set(names(look(show="unstable"))) == {WAITING, STUCK}
    assert names(look(show="quiet")) == [QUIET]
    assert names(look(sort="name")) == sorted([BUSY, QUIET, STUCK, WAITING])
    unread = [line.unread for line in look(sort="unread").lines]
    assert unread == sorted(unread, reverse=True)
    for show in SHOWS:
        for sort in SORTS:
            assert look(show=show, sort=sort).total == 4


def test_many_groups_are_pages() -> None:
    first, last = look(more=PAGE_ROWS, sort="name"), look(more=PAGE_ROWS, sort="name", page=99)

    assert (first.found, first.pages, len(first.lines)) == (PAGE_ROWS + 4, 2, PAGE_ROWS)
    assert (last.page, len(last.lines)) == (2, 4)


def test_lines_are_the_views_that_the_api_has() -> None:
    shown = scene(more=20).look()
    got = replace(INSPECTED, group="told", state="Assigning")
    shown = replace(shown, inspected=(*shown.inspected, got, replace(INSPECTED, group=STUCK)))

    lines = find_lines(shown, {})

    views = group_views(live(shown))
    assert {
        (each.cluster, each.group, each.group_type, each.status, each.state or None, each.members)
        for each in lines
    } == {
        (each.cluster, each.group, each.group_type, each.status, each.state, each.members)
        for each in views
    }
    assert {each.group for each in lines if each.is_unstable} == {
        each.group for each in views if not each.is_stable
    }


@pytest.mark.parametrize("folder", ["dropped-member-still-out", "kill-told-as-rollout"])
def test_each_look_names_an_incident_from_its_second_second_to_ten_minutes_after(
    folder: str,
) -> None:
    happened = [each for each in recorded(folder) if each.group]
    starts_at, ends_at = (parse_time(happened[n].ts) for n in (0, -1))
    history = RecentRecords()
    kept, now, number = history.incidents, starts_at, 0
    final = {
        each.id: (each.started_at, each.ended_at)
        for each in history.analyze(happened, ends_at).incidents
    }
    named: dict[str, set[float]] = {id_: set() for id_ in final}
    looks: list[float] = []
    while now <= ends_at:
        while number < len(happened) and parse_time(happened[number].ts) <= now:
            history.add([happened[number]], now)
            number += 1
        found = overview(Snapshot(at=now), incidents_of(kept, now), OverviewQuery())
        looks.append(now)
        for each in (*found.ongoing, *found.ended, *found.also_ended):
            named.setdefault(each.id, set()).add(now)
        now += 0.5

    for id_, (start_at, end_at) in final.items():
        until = (end_at or ends_at) + RECENT_S
        missed = [at for at in looks if start_at + 2 <= at <= until and at not in named[id_]]
        assert missed == [], id_


def test_commands_of_the_pages_run() -> None:
    given = {"FILE": str(GOLDEN / "dropped-member-still-out" / "m1-client.log")}
    folder = Path(environment.__file__).parent / "templates"
    texts = "".join(path.read_text() for path in folder.glob("*.html"))
    commands = re.findall(r"<code>rebalance-agent ([^<]*)</code>", texts)

    assert commands
    for command in commands:
        words = [given.get(word, word) for word in command.split()]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
