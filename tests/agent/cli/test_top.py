import os
import pty
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.cli.top import start_live_view
from agent.errors import ConfigError

DEADLINE_S = 90.0


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


@pytest.fixture
def url() -> Iterator[str]:
    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            is_groups = self.path.startswith("/api/v1/groups")
            self.wfile.write(msgspec.json.encode(GROUPS if is_groups else []))

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


@pytest.mark.parametrize(
    "given", [{"status": "ok"}, ["a"], [{}], [group("a", 0) | {"members": "many"}], None, 1]
)
def test_answers_of_another_program_are_an_error(
    given: object, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was a traceback."""
    monkeypatch.setattr("tests.agent.cli.test_top.GROUPS", given)

    done = CliRunner().invoke(main, ["top", "--once", "--from", url])

    assert isinstance(done.exception, SystemExit)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "wanted a running agent or hub" in done.stderr


def test_without_the_extra_it_names_the_way_to_get_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.cli.top.find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"pip install 'kafka-rebalance-agent\[top\]'"):
        start_live_view(url, "", 1.0)


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
