"""The pages in a real Chromium: wide and narrow, light and dark, with and without a script."""

import html
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from agent.hub.recent_records import RecentRecords
from agent.web.server import MAX_CONNECTIONS
from metrics.model.snapshot import Snapshot
from tests.agent.web.pages.axe import findings
from tests.agent.web.pages.scene import (
    BUSY,
    GOLDEN,
    QUIET,
    STUCK,
    WAITING,
    Scene,
    records,
    scene,
    served,
    snapshot,
)
from tests.agent.wiring.test_restart import AGENT, Running, until
from tests.devtools import Tab, browser

WIDTHS = (1400, 390)
STAMP, IN_LOG = "%Y-%m-%d %H:%M:%S,%f", re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}")
PAGE_BYTES = 300 << 10
pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(scene(time.time(), more=60)) as url:
        yield url


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("chromium")) as made:
        yield made


def read(url: str) -> str:
    with urlopen(url) as answer:
        text: str = answer.read().decode()
    return text


def incident_of(address: str, group: str) -> str:
    links = map(html.unescape, re.findall(r'href="(incident\?[^"]+)"', read(f"{address}/")))
    return next(link for link in links if f"group={group}&" in link)


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (1400, False),
        (390, True),
        pytest.param(1400, True, marks=pytest.mark.field),
        pytest.param(390, False, marks=pytest.mark.field),
    ],
)
def test_everyone_can_read_them(tab: Tab, address: str, width: int, dark: bool) -> None:
    tab.screen(width, dark=dark)
    paths = ["", "?q=nothing-like-it", "group?group=nobody", f"group?group={QUIET}"]
    paths += [f"group?group={BUSY}", f"group?group={STUCK}", incident_of(address, STUCK)]
    found = {}
    for path in paths:
        tab.open(f"{address}/{path}")
        found[path] = findings(tab)
        sideways = tab.run("document.documentElement.scrollWidth - innerWidth")
        assert sideways <= 0, path

    assert [each for path in paths for each in found[path]] == []


def test_the_engine_finds_what_is_wrong(tab: Tab, address: str) -> None:
    tab.open(f"{address}/")
    tab.run("document.querySelector('main').append(document.createElement('button'))")

    assert [each.partition(":")[0] for each in findings(tab)] == ["button-name"]


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a real agent beside the logs of a group with a stuck consumer."""
    folder = tmp_path_factory.mktemp("standalone")
    _copy_until_now(GOLDEN / "dropped-member-still-out", folder)
    config = {
        "role": "standalone",
        "state_dir": str(folder / "state"),
        "timezone": "UTC",
        "web": {"listen": ["127.0.0.1:0"]},
        "sources": [{"type": "logs", "paths": [f"{folder}/*.log"]}],
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(config))
    command = [*AGENT, "run", "-c", str(folder / "agent.yaml")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = Running(process).url.removesuffix("/metrics")
            until(lambda: "exceeded its poll interval" in read(f"{url}/"))
            yield url
        finally:
            process.terminate()
            process.communicate()


def _copy_until_now(source: Path, folder: Path) -> None:
    """Copy logs with their times moved, so that the last line is a few seconds old."""
    logs = {path.name: path.read_text() for path in source.glob("*.log")}
    last = max(_parse(each) for text in logs.values() for each in IN_LOG.findall(text))
    by = datetime.now(UTC) - last - timedelta(seconds=5)
    for name, text in logs.items():
        moved = IN_LOG.sub(lambda found: f"{_parse(found[0]) + by:{STAMP}}"[:-3], text)
        (folder / name).write_text(moved)


def _parse(stamp: str) -> datetime:
    return datetime.strptime(stamp, STAMP).replace(tzinfo=UTC)


@pytest.mark.parametrize("width", WIDTHS)
def test_from_the_first_page_to_the_cost_of_a_stuck_consumer(
    tab: Tab, standalone: str, width: int
) -> None:
    tab.screen(width)
    tab.open(f"{standalone}/")
    link = "#now .going h3 a"
    words = tab.run(f"document.querySelector('{link}').textContent")
    assert words.startswith("m1 exceeded its poll interval")

    tab.click(link)  # the only click

    text = tab.run("document.querySelector('main').innerText")
    assert "5 DroppedGroup" in text
    assert re.search(r"Unread\s+[\d.]+\s+partition-seconds", text)
    assert "max.poll." in tab.run("document.querySelector('#advice').innerText")
    tab.click("nav.crumbs a[href^='group']")
    assert tab.run("document.querySelectorAll('#timeline .lane').length") >= 3


def test_nothing_leaves_the_agent_and_pages_are_light(tab: Tab, address: str) -> None:
    for path in ("", f"group?group={BUSY}", incident_of(address, BUSY)):
        tab.open(f"{address}/{path}")
        seen = tab.run(
            "performance.getEntries().filter(e => e.name.startsWith('http'))"
            ".map(e => [e.name, e.decodedBodySize || 0])"
        )
        assert {name for name, _ in seen if not name.startswith(address)} == set()
        assert 0 < sum(size for _, size in seen) <= PAGE_BYTES


def test_times_are_the_readers_own(tab: Tab, address: str) -> None:
    tab.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    try:
        tab.open(f"{address}/group?group={BUSY}")
        shown, utc = tab.run(
            "(() => { const t = document.querySelector('time[data-form=date]');"
            " return [t.textContent, t.title]; })()"
        )
        zone = tab.run("document.querySelector('[data-zone]').textContent")
    finally:
        tab.call("Emulation.setTimezoneOverride", timezoneId="UTC")
    assert zone == "Asia/Tokyo"
    assert int(shown[11:13]) == (int(utc[11:13]) + 9) % 24
    assert utc.endswith(" UTC")


def test_the_timeline_zooms_by_key_and_keeps_its_end(tab: Tab, address: str) -> None:
    tab.screen(390)
    tab.open(f"{address}/group?group={BUSY}")
    tab.run("document.getElementById('plot').focus()")
    before = tab.run("document.getElementById('plot').scrollWidth")

    tab.press("+")
    tab.press("+")
    tab.press("End")

    after, at_end = tab.run(
        "(() => { const p = document.getElementById('plot');"
        " return [p.scrollWidth, p.scrollLeft + p.clientWidth >= p.scrollWidth - 2]; })()"
    )
    assert after > 3 * before
    assert at_end


_PLOT = "document.getElementById('plot')"


def test_a_drag_moves_the_timeline_and_opens_nothing(tab: Tab, address: str) -> None:
    tab.screen(1400)
    tab.open(f"{address}/group?group={BUSY}")
    tab.run(f"{_PLOT}.focus()")
    tab.press("+")
    tab.press("+")
    x, y = tab.run(
        "(() => { const e = document.querySelector('.brackets a rect');"
        " e.scrollIntoView({block: 'center', inline: 'center'});"
        " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
    )
    before = tab.run(f"{_PLOT}.scrollLeft")

    for kind, to in (("Pressed", x), ("Moved", x - 40), ("Moved", x - 90), ("Released", x - 90)):
        tab.call(
            "Input.dispatchMouseEvent",
            type=f"mouse{kind}", x=to, y=y, button="left", buttons=1, clickCount=1,
        )  # fmt: skip

    assert tab.run(f"{_PLOT}.scrollLeft") == pytest.approx(before + 90, abs=2)
    assert tab.run("location.pathname") == "/group"
    tab.click(".brackets a rect")
    assert tab.run("location.pathname") == "/incident"


def test_two_fingers_and_the_wheel_zoom_at_their_place(tab: Tab, address: str) -> None:
    tab.screen(390)
    tab.open(f"{address}/group?group={BUSY}")
    left, top = tab.run(
        f"(() => {{ {_PLOT}.scrollIntoView({{block: 'center'}});"
        f" const r = {_PLOT}.getBoundingClientRect(); return [r.x, r.y + 40]; }})()"
    )
    wide = tab.run(f"{_PLOT}.scrollWidth")

    for kind, apart in (("Start", 60), ("Move", 90), ("Move", 180), ("End", 0)):
        points = [{"x": left + 150 - apart / 2, "y": top}, {"x": left + 150 + apart / 2, "y": top}]
        tab.call(
            "Input.dispatchTouchEvent", type=f"touch{kind}", touchPoints=points if apart else []
        )
    pinched = tab.run(f"{_PLOT}.scrollWidth")
    place = f"({_PLOT}.scrollLeft + 150) / {_PLOT}.scrollWidth"
    before = tab.run(place)
    tab.call(
        "Input.dispatchMouseEvent",
        type="mouseWheel", x=left + 150, y=top, deltaX=0, deltaY=-140, modifiers=2,
    )  # fmt: skip
    tab.wait(f"{_PLOT}.scrollWidth > {pinched * 1.5}")

    assert pinched > 1.8 * wide
    assert tab.run(place) == pytest.approx(before, abs=0.02)


def test_the_page_follows_and_what_did_not_change_stays(tab: Tab) -> None:
    now = time.time()
    history, shown = RecentRecords(), [Snapshot(at=now)]
    with served(Scene(history, lambda: shown[0])) as url:
        tab.screen(1400)
        tab.open(f"{url}/")
        assert "No consumer group was seen yet" in tab.run("document.body.innerText")
        tab.run("window.isTheSame = true; document.querySelector('.brand').focus()")

        shown[0] = snapshot(now)
        history.add(records(now), now)
        tab.wait(f"document.querySelector('#now')?.innerText.includes('{WAITING}')")

        assert tab.run("window.isTheSame && document.activeElement.className") == "brand"
        tab.open("about:blank")


def test_it_works_without_a_script(tab: Tab, address: str) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.call("Page.navigate", url=f"{address}/?q=m1&show=day")
        tab.wait(f"document.readyState === 'complete' && location.href.startsWith('{address}')")
        text = tab.run("document.querySelector('#groups').innerText")
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)
    assert STUCK in text
    assert QUIET not in text
    assert "UTC" in tab.run("document.querySelector('time[data-form=clock]').textContent")


def test_live_pages_do_not_take_all_connections() -> None:
    from agent.web.pages.live_events import MAX_READERS  # noqa: PLC0415

    assert MAX_READERS < MAX_CONNECTIONS / 2


def test_a_label_ends_within_the_timeline(tab: Tab, address: str) -> None:
    tab.screen(390)
    tab.open(f"{address}/group?group={STUCK}&minutes=5")
    edges = (
        "(() => { const end = document.querySelector('#plot').getBoundingClientRect().right;"
        " return [...document.querySelectorAll('.brackets div')].map(e =>"
        " e.getBoundingClientRect().right - end); })()"
    )

    labels = tab.run(edges)

    assert labels
    assert max(labels) <= 0
