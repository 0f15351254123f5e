import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from agent.hub.recent_records import RecentRecords
from agent.web.group_page import MAX_LANES, Window, group_page, lanes, timeline
from metrics.model.palette import ON_LIGHT
from metrics.model.sample import Sample
from metrics.model.signals import Member
from metrics.model.snapshot import Snapshot
from metrics.model.status import RebalanceStatus as Status
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.aggregation.live.test_live import INSPECTED
from tests.aggregation.rebalances.test_rebalances import START, A, B, C, left, records, round_of
from tests.browser import shown
from tests.metrics.given import raised, run

TOLD = records(*START, left(100.0, A, "closed"), *round_of(2, 101.0, B, C), raised(7, 200.0, B))
EVIL = "<script>document.title='owned'</script>\x1b[31m"


def page(told: list[Sample], now: float = 210.0, group: str = "g", minutes: int = 5) -> str:
    return group_page(group, RecentRecords(told), Snapshot(at=now), minutes)


class TestLanes:
    def test_bar_is_the_time_in_a_status(self) -> None:
        bars = lanes(TOLD, Window(end_at=210.0, minutes=5))["b h-b"]

        assert [(bar.status, bar.start_at, bar.end_at) for bar in bars] == [
            (Status.NEW_MEMBER, 0.0, 0.5),
            (Status.COORDINATOR_REQUESTED, 101.1, 101.5),
            (Status.METADATA_CHANGED, 200.0, 210.0),
        ]

    def test_bar_that_began_before_the_window_is_drawn_from_its_edge(self) -> None:
        w = Window(end_at=1_000.0, minutes=5)

        (bar,) = lanes(TOLD, w)["b h-b"]

        assert (bar.start_at, bar.end_at) == (200.0, 1_000.0)
        assert w.x(bar.start_at) == w.x(w.start_at)

    def test_quiet_members_have_a_lane_too(self) -> None:
        assert set(lanes(TOLD, Window(end_at=1_000.0, minutes=5))) == {"a h-a", "b h-b", "c h-c"}

    def test_lanes_are_bounded(self) -> None:
        many = [Member(group="g", client_id=f"c{n}", origin=str(n)) for n in range(MAX_LANES + 5)]
        told = run(Tracker(StatusConfig()), *(raised(1, 1.0, each) for each in many))
        w = Window(end_at=10.0, minutes=5)

        drawn = timeline(lanes(told, w), w)

        assert drawn.count("<rect") == MAX_LANES
        assert "5 quieter members are not drawn" in drawn


class TestPage:
    def test_tells_the_answer_the_timeline_and_what_to_do(self) -> None:
        text = page(TOLD)

        assert "g rebalanced 3 times in " in text
        assert "<title>7 MetadataChanged, 10.0 s</title>" in text
        assert ON_LIGHT[Status.METADATA_CHANGED] in text
        assert "<h2>What to do</h2>" in text

    def test_latest_rebalance_is_first_and_says_that_it_goes_on(self) -> None:
        rows = re.findall(r"<tr>(<td.*?)</tr>", page(TOLD))

        assert "MetadataChanged" in rows[0]
        assert "so far" in rows[0]
        assert "a: left" in rows[1]

    def test_unknown_group_is_a_page_too(self) -> None:
        assert "nothing did not rebalance, as far as was seen." in page([], group="nothing")

    def test_names_from_outside_are_escaped(self) -> None:
        evil = Member(group=EVIL, client_id=EVIL, origin="s", host=EVIL)
        text = page(run(Tracker(StatusConfig()), raised(7, 1.0, evil, reason=EVIL)), 2.0, EVIL)

        assert "<script" not in text
        assert "\x1b" not in text


@pytest.fixture
def served() -> Iterator[Callable[[str], str]]:
    """Return what serves a text over HTTP and gives its address."""
    texts: dict[str, str] = {}

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(texts.get(self.path, "").encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()

    def serve(text: str) -> str:
        path = f"/{len(texts)}"
        texts[path] = text.replace('http-equiv="refresh"', "")  # a still page has an end
        return f"http://127.0.0.1:{server.server_port}{path}"

    yield serve
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.process
class TestInChromium:
    def test_it_is_drawn_in_light_and_dark(
        self, served: Callable[[str], str], tmp_path: Path
    ) -> None:
        url = served(page(TOLD))

        dom, light = shown(url, tmp_path)
        _, dark = shown(url, tmp_path, dark=True)

        assert dom.count("<rect") == 7
        assert light[:4] == dark[:4] == b"\x89PNG"
        assert light != dark

    def test_hostile_names_run_nothing(self, served: Callable[[str], str], tmp_path: Path) -> None:
        evil = Member(group=EVIL, client_id=EVIL, origin="s", host=EVIL)
        told = run(Tracker(StatusConfig()), raised(7, 1.0, evil, reason=EVIL))

        dom, _ = shown(served(page(told, 2.0, EVIL)), tmp_path)

        assert re.findall("<title>(.*?)</title>", dom)[0].startswith("&lt;script&gt;")
        assert "<script" not in dom


def test_page_of_a_group_that_only_its_coordinator_tells_of_says_so() -> None:
    snapshot = Snapshot(at=210.0, inspected=(INSPECTED,))

    assert "no agent sees a member of g, " in group_page("g", RecentRecords(), snapshot, 5)
