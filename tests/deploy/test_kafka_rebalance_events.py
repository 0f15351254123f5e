"""The helper for users' own processes, held to an agent's intake and to real client libraries."""

import json
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from agent.demo.mock_cluster import MockCluster
from agent.sources.http_events.events import read_events

_FOLDER = Path(__file__).parents[2] / "deploy" / "kafka_rebalance_events"
_MODULE = _FOLDER / "kafka_rebalance_events.py"
_WITHIN_S = 30.0
Row = dict[str, Any]


def load() -> ModuleType:
    spec = util.spec_from_file_location("kafka_rebalance_events", _MODULE)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Inbox:
    """A receiver in place of an agent; it records posts and sends a given response."""

    def __init__(self) -> None:
        self.events: list[Row] = []
        self.tokens: list[str | None] = []
        self.status = 202
        self.go = threading.Event()
        self.go.set()
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                inbox.go.wait(_WITHIN_S)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                inbox.tokens.append(self.headers.get("Authorization"))
                if inbox.status == 202:
                    read_events(body, time.time())
                    inbox.events += map(json.loads, body.splitlines())
                self.send_response(inbox.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def kinds(self, client_id: str = "m1") -> list[str]:
        return [row["event"] for row in self.events if row["client_id"] == client_id]

    def close(self) -> None:
        self.go.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    inbox = Inbox()
    yield inbox
    inbox.close()


@pytest.fixture
def events() -> ModuleType:
    return load()


def until(enough: Callable[[], bool]) -> bool:
    end_s = time.monotonic() + _WITHIN_S
    while not enough() and time.monotonic() < end_s:
        time.sleep(0.01)
    return enough()


def _event(number: int = 0) -> Row:
    return {"event": "assigned", "group": "g", "client_id": "m1", "generation": number}


def test_events_arrive_in_order_with_their_token(events: ModuleType, inbox: Inbox) -> None:
    reporter = events.Reporter(inbox.url, token="secret")

    for number in range(500):
        reporter.report(_event(number))

    assert reporter.flush(_WITHIN_S)
    assert [row["generation"] for row in inbox.events] == list(range(500))
    assert set(inbox.tokens) == {"Bearer secret"}
    assert (reporter.sent, reporter.dropped, reporter.refused) == (500, 0, 0)


def test_a_slow_agent_costs_events_and_never_time(events: ModuleType, inbox: Inbox) -> None:
    inbox.go.clear()
    reporter = events.Reporter(inbox.url)

    for number in range(3 * events.QUEUE_EVENTS):
        reporter.report(_event(number))

    assert reporter.dropped >= 2 * events.QUEUE_EVENTS - events.BATCH_EVENTS
    inbox.go.set()
    assert reporter.flush(_WITHIN_S)
    assert reporter.sent + reporter.dropped == 3 * events.QUEUE_EVENTS


def test_no_agent_is_no_error(events: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_RETRIES_S", ())
    reporter = events.Reporter("http://127.0.0.1:9")

    reporter.report(_event())

    assert until(lambda: reporter.dropped == 1)
    assert "no agent at" in reporter.last_error


def test_what_is_refused_is_not_sent_again(events: ModuleType, inbox: Inbox) -> None:
    inbox.status = 401
    reporter = events.Reporter(inbox.url)

    reporter.report(_event())

    assert until(lambda: reporter.refused == 1)
    assert len(inbox.tokens) == 1
    assert reporter.last_error.startswith("HTTP 401")


def test_what_cannot_be_written_as_json_is_dropped(events: ModuleType, inbox: Inbox) -> None:
    reporter = events.Reporter(inbox.url)
    loop: Row = {}
    loop["self"] = loop

    reporter.report(loop)
    reporter.report(_event())

    assert reporter.flush(_WITHIN_S)
    assert (reporter.dropped, inbox.kinds()) == (1, ["assigned"])


def test_living_consumers_say_so(
    events: ModuleType, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "ALIVE_S", 0.01)
    reporter = events.Reporter(inbox.url)
    reporter.watch(lambda: {"group": "g", "client_id": "m1"})

    reporter.report(_event())

    assert until(lambda: "alive" in inbox.kinds())


def test_a_forked_child_reports_by_its_own_thread(tmp_path: Path, inbox: Inbox) -> None:
    program = f"""
import os, sys
sys.path.insert(0, {str(_FOLDER)!r})
import kafka_rebalance_events as events
reporter = events.Reporter({inbox.url!r})
def say(name):
    reporter.report({{"event": "assigned", "group": "g", "client_id": name}})
    assert reporter.flush({_WITHIN_S})
say("parent")
child = os.fork()
say("child" if child == 0 else "parent again")
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, timeout=60)

    assert {row["client_id"] for row in inbox.events} == {"parent", "child", "parent again"}


def test_a_process_that_ends_flushes_its_last_events(tmp_path: Path, inbox: Inbox) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(_FOLDER)!r})
import kafka_rebalance_events as events
events.reporter({inbox.url!r}).report({{"event": "closed", "group": "g", "client_id": "m1"}})
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, timeout=60)

    assert inbox.kinds() == ["closed"]


def test_it_imports_nothing_but_the_standard_library() -> None:
    code = f"import sys; sys.path.insert(0, {str(_FOLDER)!r}); import kafka_rebalance_events"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False, timeout=60)

    assert done.returncode == 0


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster() as cluster:
        cluster.create_topic("t", 2)
        yield cluster


class TestConfluent:
    def _consumer(self, cluster: MockCluster, **more: object) -> Consumer:
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "g",
            "client.id": "m1",
            "session.timeout.ms": 1_000,
        }
        return Consumer(settings | more)

    def test_a_consumer_is_reported_from_its_first_assignment_to_its_close(
        self, events: ModuleType, inbox: Inbox, cluster: MockCluster
    ) -> None:
        seen: list[str] = []
        consumer = events.confluent(
            self._consumer(cluster), group="g", client_id="m1", url=inbox.url
        )
        consumer.subscribe(
            ["t"],
            on_assign=lambda _, parts: seen.append(f"assigned {len(parts)}"),
            on_revoke=lambda _, parts: seen.append(f"revoked {len(parts)}"),
        )
        end_s = time.monotonic() + _WITHIN_S
        while not seen and time.monotonic() < end_s:
            consumer.poll(0.1)
        member_id = consumer.memberid()
        assert consumer.assignment() == [TopicPartition("t", 0), TopicPartition("t", 1)]
        consumer.close()

        assert events.reporter(inbox.url).flush(_WITHIN_S)
        assert seen == ["assigned 2", "revoked 2"]
        assert inbox.kinds() == ["assigned", "revoked", "closed"]
        first = inbox.events[0]
        assert (first["group"], first["member_id"]) == ("g", member_id)
        assert sorted(first["partitions"]) == ["t-0", "t-1"]
        assert {row["member_id"] for row in inbox.events} == {member_id}
        assert len({row["process"] for row in inbox.events}) == 1

    def test_a_broken_agent_leaves_the_consumer_alone(
        self, events: ModuleType, cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(events.Reporter, "_post", lambda *_: 1 / 0)
        url = "http://127.0.0.1:9"
        consumer = events.confluent(self._consumer(cluster), group="g", url=url)
        consumer.subscribe(["t"])

        end_s = time.monotonic() + _WITHIN_S
        while not consumer.assignment() and time.monotonic() < end_s:
            consumer.poll(0.1)

        assert len(consumer.assignment()) == 2
        consumer.close()
        assert until(lambda: events.reporter(url).dropped >= 2)

    def test_an_error_is_reported_by_kafkas_name_for_it(
        self, events: ModuleType, inbox: Inbox, cluster: MockCluster
    ) -> None:
        consumer = events.confluent(
            self._consumer(cluster, **{"max.poll.interval.ms": 1_000}),
            group="g",
            client_id="m1",
            url=inbox.url,
        )
        consumer.subscribe(["t"])
        end_s = time.monotonic() + _WITHIN_S
        while not consumer.assignment() and time.monotonic() < end_s:
            consumer.poll(0.1)
        time.sleep(3)  # the fault itself: it does not poll; librdkafka looks every 0.5 s

        while "error" not in inbox.kinds() and time.monotonic() < end_s:
            consumer.poll(0.1)
        consumer.close()

        (error,) = [row for row in inbox.events if row["event"] == "error"]
        assert error["code"] == "_MAX_POLL_EXCEEDED"


def test_the_wheel_holds_one_module_and_installs_alone(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", tmp_path, _FOLDER],
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("*.whl")
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    python = str(home / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True, timeout=120)

    code = "import kafka_rebalance_events as e; print(e.__version__)"
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == "0.1.0\n"
