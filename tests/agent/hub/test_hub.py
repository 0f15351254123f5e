"""A hub and two agents as processes: whole groups, over a hub's kill -9 and an agent's absence."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent.processes.ports import free_port
from tests.agent.wiring.test_restart import until

pytestmark = pytest.mark.process

AGENT = (sys.executable, "-P", "-m", "agent")
DEADLINE_S = 90.0
INTERNALS = "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator"

# ConsumerCoordinator and AbstractCoordinator, 3.5 to 4.3
NEW = "Request joining group due to: need to re-join with the given member-id: {client}-7d"
TOLD = "Request joining group due to: group is already rebalancing"
SYNC = (
    "Successfully synced group in generation Generation{{generationId={generation},"
    " memberId='{client}-7d', protocol='range'}}"
)
ASSIGNED = "Adding newly assigned partitions: t-0"


@pytest.fixture
def start() -> datetime:
    """When the story begins: its two minutes are over by now, and not long ago."""
    return datetime.now().astimezone().replace(microsecond=0) - timedelta(minutes=2)


def lines(client: str, generation: int, at: datetime, cause: str) -> str:
    """Return one round of a consumer, as its log has it."""
    got = ((0.0, cause), (0.5, SYNC), (0.6, ASSIGNED))
    return "".join(
        f"[{(at + timedelta(seconds=after)):%Y-%m-%d %H:%M:%S},000] INFO"
        f" [Consumer clientId={client}, groupId=g]"
        f" {text.format(client=client, generation=generation)} ({INTERNALS})\n"
        for after, text in got
    )


class Process:
    """An agent or a hub, killed and started again at the same place."""

    def __init__(self, folder: Path, config: str, samples: str = "") -> None:
        folder.mkdir()
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        self.log = folder / "app.log"
        self.log.touch()
        (folder / "agent.yaml").write_text(
            f"host: {folder.name}\nstate_dir: {folder}/state\n"
            f"samples: {{spool: {{dir: {folder}/spool, roll: 1s}}{samples}}}\n"
            f'web: {{listen: ["{self.url.removeprefix("http://")}"]}}\n{config}'
        )
        self.start()

    def start(self) -> None:
        environment = os.environ | {"XDG_STATE_HOME": str(self.folder)}
        command = [*AGENT, "run", "-c", str(self.folder / "agent.yaml")]
        self.process = subprocess.Popen(command, env=environment)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def say(self, text: str) -> None:
        with self.log.open("a") as file:
            file.write(text)

    def get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(f"{self.url}/{path}", timeout=5.0) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def ids(self) -> list[str]:
        return sorted(row["id"] for row in self._rows() if row["kind"] == "transition")

    def event_ids(self) -> list[str]:
        """Return the ids of all that belongs into the table of transitions."""
        return sorted(row["id"] for row in self._rows() if row["kind"] != "sample")

    def _rows(self) -> list[dict[str, Any]]:
        texts = [path.read_text() for path in (self.folder / "spool").glob("*.jsonl")]
        return [json.loads(line) for text in texts for line in text.splitlines()]


@contextmanager
def running(*made: Process) -> Iterator[None]:
    try:
        yield
    finally:
        for each in made:
            each.kill()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("secret\n")
    return path


def test_hub_explains_what_no_agent_sees_alone_and_survives_its_kill(
    tmp_path: Path, token: Path, start: datetime
) -> None:
    hub = Process(tmp_path / "hub", f"role: hub\nhub: {{token_file: {token}}}\n")
    config = (
        "sources: [{{type: logs, paths: [{log}]}}]\n"
        "hub: {{push_to: [{url}], token_file: {token}, interval: 200ms}}\n"
    )
    agents = [
        Process(
            tmp_path / name,
            config.format(log=tmp_path / name / "app.log", url=hub.url, token=token),
        )
        for name in ("one", "two")
    ]
    one, two = agents
    later = start + timedelta(minutes=1)
    with running(hub, *agents):
        one.say(lines("c1", 1, start, NEW))
        until(lambda: '"status":"NewMember"' in hub.get("api/v1/explain?group=g"))
        hub.kill()
        two.say(lines("c2", 2, later, NEW))
        one.say(lines("c1", 2, later + timedelta(seconds=1), TOLD))
        until(lambda: len(one.ids()) == 4 and len(two.ids()) == 2)
        hub.start()
        until(lambda: '"members":2' in hub.get("api/v1/explain?group=g&last=1"))

        (got,) = json.loads(hub.get("api/v1/explain?group=g&last=1"))
        until(lambda: len(hub.ids()) == 6)
        page = hub.get("metrics")
        members = json.loads(hub.get("api/v1/members?group=g"))

    assert got["happened"][0]["client_id"] == "c2"
    assert got["happened"][0]["host"] == "two"
    assert got["happened"][0]["certainty"] == "seen"
    assert hub.ids() == sorted(one.ids() + two.ids())
    assert {row["client_id"] for row in members} == {"c1", "c2"}
    group = 'group="g",group_type="classic",kafka_cluster=""'
    assert f"kafka_group_rebalance_status{{{group}}} 0.0" in page
    assert "kafka_consumer_rebalance_status" not in page


def test_hub_counts_whole_groups(tmp_path: Path, start: datetime) -> None:
    hub = Process(tmp_path / "hub", "role: hub\n")
    one = Process(
        tmp_path / "one",
        f"sources: [{{type: logs, paths: [{tmp_path}/one/app.log]}}]\n"
        f"hub: {{push_to: [{hub.url}], interval: 200ms}}\n",
    )
    with running(hub, one):
        one.say(lines("c1", 1, start - timedelta(minutes=10), NEW))
        counted = 'kafka_group_rebalances_total{group="g",kafka_cluster="",status="NewMember"} 1.0'
        until_slow(lambda: counted in hub.get("metrics"))
        final = 'kafka_group_incidents_total{group="g",kafka_cluster="",kind="member_joined"} 1.0'
        until_slow(lambda: final in hub.get("metrics"))
        assert 'kafka_group_last_rebalance_timestamp_seconds{group="g"' in hub.get("metrics")


def until_slow(fact: Any) -> None:
    """Wait for a fact that is counted half a minute after its end."""
    for _ in range(3):
        try:
            until(fact)
        except AssertionError:
            continue
        return
    until(fact)
