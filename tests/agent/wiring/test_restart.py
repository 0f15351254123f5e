"""Kill -9 at any moment: in the end the spool has each record of a replay of the log, once."""

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

AGENT = (sys.executable, "-P", "-m", "agent")
DEADLINE_S = 90.0

# ConsumerCoordinator and AbstractCoordinator, 3.5 to 4.3
JOIN = "Request joining group due to: need to re-join with the given member-id: c1-7d"
SYNC = (
    "Successfully synced group in generation Generation{generationId=%d, memberId='c1-7d', "
    "protocol='range'}"
)
TRANSITIONS = "kafka_consumer_rebalance_transitions_total"
REBALANCES = "kafka_consumer_rebalances_total"
ASSIGNED = "Adding newly assigned partitions: t-0"


def line(at: datetime, text: str) -> str:
    stamp = at.strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    internals = "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator"
    return f"[{stamp}] INFO [Consumer clientId=c1, groupId=g] {text} ({internals})\n"


def until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Running:
    """An agent in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.process = process
        match = None
        while match is None:  # a line about a part file that was recovered may come first
            match = re.search(r"event=listening address=(\S+)", process.stderr.readline())
        self.url = f"http://{match[1]}/metrics"

    def shows(self, number: str, value: int) -> bool:
        """Whether a series of the consumer, by name and status, has a value."""
        name, _, status = number.partition(" ")
        with urllib.request.urlopen(self.url) as answer:
            page = answer.read().decode()
        found = re.findall(rf'{name}{{.*status="{status}"}} (\S+)', page)
        return found == [f"{value}.0"]


@contextmanager
def running(config: Path) -> Iterator[Running]:
    command = [*AGENT, "run", "-c", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(
        f"sources: [{{type: logs, paths: [{tmp_path}/app.log]}}]\n"
        f'state_dir: {tmp_path}/state\nweb: {{listen: ["127.0.0.1:0"]}}\n'
    )
    return path


def spooled(folder: Path) -> list[str]:
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    samples = [json.loads(line) for line in lines]
    return sorted(sample["id"] for sample in samples if sample["kind"] == "transition")


def replayed(log: Path) -> list[str]:
    command = [*AGENT, "replay", "--source", "logs", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return sorted(json.loads(sample)["id"] for sample in done.stdout.splitlines())


@pytest.mark.process
@pytest.mark.parametrize("commits", [False, True])
def test_a_killed_agent_neither_loses_nor_doubles(
    config: Path, tmp_path: Path, *, commits: bool
) -> None:
    log, checkpoint = tmp_path / "app.log", tmp_path / "state" / "checkpoint.json"
    # Of this test's own time, not of the module's: a raise half an hour old would go stale at once.
    start = datetime.now().astimezone()
    step = timedelta(milliseconds=100)
    with log.open("a") as file:
        for number in range(3):
            at = start + 3 * number * step
            joined, synced = line(at, JOIN), line(at + step, SYNC % (number + 1))
            with running(config) as agent:
                file.write(joined + synced[:70])
                file.flush()
                raised = partial(agent.shows, f"{TRANSITIONS} NewMember", number + 1)
                until(raised)
                if commits:
                    until(lambda: checkpoint.exists() and b'"status":2' in checkpoint.read_bytes())
            file.write(synced[70:] + line(at + 2 * step, ASSIGNED))
            file.flush()
    with running(config) as agent:
        until(lambda: agent.shows(f"{REBALANCES} NewMember", 3))
        agent.process.terminate()
        agent.process.wait(DEADLINE_S)

    found = spooled(tmp_path / "state" / "spool")

    assert len(found) == 6
    assert found == replayed(log)
