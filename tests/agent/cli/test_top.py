import curses
import os
import pty
import re
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import reduce
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.cli.top import TopView, press_key, screen

DEADLINE_S = 30.0


def group(name: str, status: int, **columns: Any) -> dict[str, Any]:
    given = {
        "cluster": "k",
        "group": name,
        "group_type": "classic",
        "status": status,
        "name": "NewMember",
        "peak": status,
        "peak_name": "NewMember",
        "state": "Stable",
        "members": 2,
        "client_id": "c1",
        "reason": "why",
        "since": "1970-01-01T00:00:10.000000Z",
    }
    return given | columns


GROUPS = [group("a", 0), group("b", 6), group("c", 2)]


def names(view: TopView) -> list[str]:
    return [line.split()[0] for line in screen(GROUPS, view, now=100.0, width=200)[1:]]


def after(keys: str | list[int], view: TopView | None = None) -> TopView:
    codes = [ord(key) for key in keys] if isinstance(keys, str) else keys
    return reduce(press_key, codes, view or TopView())


class TestView:
    def test_highest_status_is_first(self) -> None:
        assert names(TopView()) == ["b", "c", "a"]

    def test_r_turns_the_order_round(self) -> None:
        assert names(after("r")) == ["a", "c", "b"]

    def test_s_takes_every_column_in_turn(self) -> None:
        assert names(after("s" * 7)) == ["c", "b", "a"]  # by name
        assert after("s" * 9) == TopView()

    def test_filter_is_typed_and_cleared(self) -> None:
        assert names(after("/bx\x7f\n")) == ["b"]
        assert names(after("/b\x1b")) == ["b", "c", "a"]

    def test_letters_of_a_filter_are_no_commands(self) -> None:
        assert after("/sr").pattern == "sr"

    def test_scrolling_stops_at_the_top(self) -> None:
        assert after([curses.KEY_DOWN, curses.KEY_NPAGE]).top == 11
        assert after([curses.KEY_UP]).top == 0


def test_line_shows_who_since_when_and_why() -> None:
    line = screen([group("payments", 6)], TopView(), now=100.0, width=200)[1]

    assert re.split(r"  +", line.strip()) == [
        "payments",
        "classic",
        "6 NewMember",
        "Stable",
        "2",
        "c1",
        "90s",
        "6 NewMember",
        "why",
    ]


def test_group_that_only_its_coordinator_tells_of_is_last_and_has_no_status() -> None:
    of_members = ("status", "name", "peak", "peak_name", "client_id", "since", "reason")
    told = [group("x", 0) | dict.fromkeys(of_members), *GROUPS]
    found = screen(told, TopView(), now=100.0, width=200)

    assert found[-1].split() == ["x", "classic", "Stable", "2"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    (_, line) = screen([group("g", 6, client_id="\x1b[31mred")], TopView(), now=0.0, width=200)

    assert "\x1b" not in line


@pytest.fixture
def url() -> Iterator[str]:
    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(msgspec.json.encode(GROUPS))

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Agent)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_once_prints_a_table(url: str) -> None:
    found = CliRunner().invoke(main, ["top", "--once", "--from", url, "--filter", "c"])

    assert [line.split()[0] for line in found.stdout.splitlines()] == ["GROUP", "c"]


@pytest.mark.parametrize("place", ["http://127.0.0.1:9", "localhost:12472"])
def test_wrong_address_is_told(place: str) -> None:
    found = CliRunner().invoke(main, ["top", "--from", place])

    assert found.exit_code == 1
    assert f"Error: {place}: " in found.stderr


def test_in_a_real_terminal_it_draws_and_q_ends_it(url: str) -> None:
    parent, child = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "LINES": "20", "COLUMNS": "120"}
    command = [sys.executable, "-m", "agent", "top", "--from", url]
    with subprocess.Popen(
        command, stdin=child, stdout=child, stderr=child, env=environment
    ) as running:
        os.close(child)
        drawn = b""
        while b"6 NewMember" not in drawn:
            assert select.select([parent], [], [], DEADLINE_S)[0], drawn
            drawn += os.read(parent, 65536)
        os.write(parent, b"q")
        try:
            while os.read(parent, 65536):
                pass
        except OSError:  # the terminal's other end is closed
            pass
        assert running.wait(DEADLINE_S) == 0
    os.close(parent)
