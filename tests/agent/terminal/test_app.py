"""The terminal's screens: golden files of three widths, keys, and a lost agent."""

import asyncio
import io
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from textual.pilot import Pilot

from agent.cli.top import explain_one
from agent.errors import RecordsError
from agent.runtime.replay import replay
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.parsing.ordering import order_by_time
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from agent.terminal.app import Banner, GroupScreen, GroupsScreen, TopApp
from agent.terminal.rows import group_rows, sort_rows, source_notes
from aggregation.explain.explanation import explanations
from aggregation.incidents.answers import answer_of
from aggregation.incidents.incidents import Analysis, analyze
from metrics.model.sample import format_time, parse_time
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

GOLDEN = Path(__file__).parents[2] / "golden"
LOG = GOLDEN / "dialects" / "java-consumer-3.0-4.3" / "input.log"
WITHIN = 200


@cache
def analysis() -> tuple[Analysis, float]:
    """Return the incidents of real clients, and half a minute after their last record."""
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="input.log"), "UTC")
    signals = order_by_time(parser, [(LOG.read_bytes(), 1_900_000_000.0)])
    records = list(replay([signals], Tracker(StatusConfig())))
    return analyze(records), max(parse_time(record.ts) for record in records) + 30.0


def answer(what: str, answer_type: Any = Any, **query: Any) -> Any:
    """Answer as the API does."""
    found, _ = analysis()
    group_names = sorted({incident.ref.group for incident in found.incidents})
    own = query.get("group")
    match what:
        case "groups":
            body: Any = [group(name) for name in group_names]
        case "members":
            body = [member(name) for name in group_names if own in {None, name}]
        case "incidents":
            mine = [each for each in found.incidents if own in {None, each.ref.group}]
            body = [answer_of(each) for each in reversed(mine)]
        case _:
            mine = [i for i in found.incidents if i.ref.group == query["group"]]
            theirs = [r for r in found.rebalances if r.round.ref.group == query["group"]]
            body = explanations(theirs, query["last"], None, mine)
    return msgspec.json.decode(msgspec.json.encode(body), type=answer_type)


def group(name: str) -> dict[str, Any]:
    return {
        "cluster": "",
        "group": name,
        "group_type": "classic",
        "status": 0,
        "name": "None",
        "state": "Stable",
        "members": 2,
    }


def member(name: str) -> dict[str, Any]:
    return {
        "group": name,
        "client_id": f"{name}-1",
        "member_id": None,
        "host": "h",
        "status": 5,
        "name": "DroppedGroup",
        "peak": 5,
        "peak_name": "DroppedGroup",
        "since": "2029-11-24T00:00:00.000000Z",
        "reason": None,
    }


def screen(app: TopApp) -> str:
    """Return the text on a terminal, without colours."""
    width, height = app.size
    console = Console(width=width, height=height, file=io.StringIO(), record=True)
    console.print(app.screen._compositor.render_update(full=True))
    return "\n".join(line.rstrip() for line in console.export_text().splitlines()) + "\n"


def on_screen(
    test: Callable[[TopApp, Pilot[None]], Any],
    *,
    size: tuple[int, int] = (120, 24),
    request: Callable[..., Any] = answer,
) -> None:
    async def run() -> None:
        app = TopApp(request, partial(explain_one, request), 0.1, now=lambda: analysis()[1])
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: bool(app.answers.at or app.answers.fault))
            await test(app, pilot)

    asyncio.run(run())


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    for _ in range(WITHIN):
        await pilot.pause(0.05)
        if condition():
            return
    raise AssertionError(screen(pilot.app))  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_screens_are_drawn_as_in_the_golden_files(
    width: int, request: pytest.FixtureRequest
) -> None:
    async def compare(app: TopApp, pilot: Pilot[None], name: str, mark: str) -> None:
        golden = GOLDEN / "terminal" / f"{name}-{width}.txt"
        await until(pilot, lambda: mark in screen(app))
        if request.config.getoption("--update-golden"):
            golden.write_text(screen(app))
        # what a worker still asks for comes with a later frame
        await until(pilot, lambda: screen(app) == golden.read_text())

    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await compare(app, pilot, "groups", "STATUS")
        await pilot.press("enter")
        await compare(app, pilot, "group", "g-classic-4.3.0-1")
        await pilot.press(*["down"] * 4, "enter")
        await compare(app, pilot, "incident", "Incidents (UTC)")

    on_screen(test, size=(width, 24))


def test_enter_opens_a_group_then_an_incident_and_escape_returns() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "g-classic-4.3.0" in screen(app))
        await pilot.press("slash", *"g-classic-4.3.0", "enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, GroupScreen))
        await until(pilot, lambda: "g-classic-4.3.0-1" in screen(app))
        assert "5 DroppedGroup" in screen(app)
        await pilot.press("enter")
        await until(pilot, lambda: "Incidents (UTC)" in screen(app))
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, GroupsScreen))

    on_screen(test)


def test_filter_sort_help_and_explain_have_keys() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "g-classic-4.3.0" in screen(app))
        await pilot.press("slash", *"G-*4.3.0", "enter")
        await until(pilot, lambda: "1 with 'G-*4.3.0'" in screen(app))
        await pilot.press("slash", *"no such", "enter")
        await until(pilot, lambda: "0 with 'no such'" in screen(app))
        await pilot.press("escape")
        await until(pilot, lambda: "g-classic-4.3.0" in screen(app))
        await pilot.press("s", "r")
        await until(pilot, lambda: "by group, lowest first" in screen(app))
        await pilot.press("question_mark")
        await until(pilot, lambda: "Reverse" in screen(app))
        await pilot.press("question_mark", "e")
        await until(pilot, lambda: "Incidents (UTC)" in screen(app))

    on_screen(test)


def test_a_click_on_a_head_sorts_and_a_click_on_a_row_opens_it() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "g-classic-4.3.0" in screen(app))
        head = screen(app).splitlines()[1]
        await pilot.click(offset=(head.index("GROUP"), 1))
        await until(pilot, lambda: "by group, lowest first" in screen(app))
        await pilot.click(offset=(head.index("GROUP"), 1))
        await until(pilot, lambda: "by group, highest first" in screen(app))
        await pilot.click(offset=(head.index("INCIDENT"), 1))
        await until(pilot, lambda: "by when, highest first" in screen(app))
        row = next(n for n, line in enumerate(screen(app).splitlines()) if "g-stale" in line)
        await pilot.click(offset=(3, row))
        await pilot.pause(0.5)  # the rows are drawn again
        await pilot.click(offset=(head.index("INCIDENT"), row))
        await until(pilot, lambda: isinstance(app.screen, GroupScreen))
        await until(pilot, lambda: "g-stale-3.9.1:" in screen(app))

    on_screen(test)


def test_a_lost_agent_is_a_banner_over_the_last_data() -> None:
    lost = False

    def request(*args: Any, **query: Any) -> Any:
        if lost:
            raise RecordsError("http://h: connection refused")
        return answer(*args, **query)

    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        nonlocal lost
        await until(pilot, lambda: "g-classic-4.3.0" in screen(app))
        assert not app.screen.query_one(Banner).display
        lost = True
        await until(pilot, lambda: "no answer: http://h: connection refused" in screen(app))
        assert "g-classic-4.3.0" in screen(app)
        lost = False
        await until(pilot, lambda: "no answer" not in screen(app))

    on_screen(test, request=request)


def test_an_answer_after_the_user_has_quit_is_no_error() -> None:
    apps: list[TopApp] = []

    async def test(app: TopApp, _pilot: Pilot[None]) -> None:
        apps.append(app)

    on_screen(test)

    (app,) = apps
    app._draw()


def test_of_quiet_groups_those_with_trouble_are_first() -> None:
    found, now = analysis()
    answers = [answer_of(each) for each in found.incidents]
    crash = next(each for each in answers if each.kind == "poll_timeout")
    ended = format_time(now - 60)
    crash = replace(crash, group="a", ended_at=ended)
    join = replace(crash, group="b", kind="member_joined", started_at=ended)

    rows = group_rows([group("a"), group("b")], [crash, join], now)
    later = group_rows([group("a"), group("b")], [crash, join], now + 900)

    assert [row.group for row in sort_rows(rows, "status", backwards=True)] == ["a", "b"]
    assert [row.group for row in sort_rows(later, "status", backwards=True)] == ["b", "a"]


def test_an_agent_without_groups_says_what_to_expect() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "no group seen yet" in screen(app))

    on_screen(test, request=lambda *_args, **_query: [])


def test_source_without_a_file_is_named_while_there_is_no_group() -> None:
    def request(what: str, *_: Any, **__: Any) -> Any:
        return [{"name": "logs:/none/*.log", "up": True, "files": []}] if what == "sources" else []

    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "/none/*.log: nothing read yet" in screen(app))

    on_screen(test, request=request)


@pytest.mark.parametrize(
    ("source", "notes"),
    [
        ({"up": True, "files": []}, ["logs: nothing read yet: no file matches"]),
        ({"up": False, "files": []}, ["logs is down"]),
        ({"up": True, "files": [{"path": "a.log"}]}, []),
        ({"up": True}, []),
    ],
)
def test_notes_name_what_is_wrong_with_a_source(source: dict[str, Any], notes: list[str]) -> None:
    assert source_notes([{"name": "logs", **source}]) == notes
