"""A soak: real consumers with random faults, one agent on their logs and on the wire.

At the end each consumer's transitions are compared with its oracle, which is its own DEBUG log.
Prints precision and recall, and how the agent's memory grew; the exit code is 1 where either is
not 1.0, or, in ten minutes or more, the memory goes on growing.
"""

import json
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from difflib import SequenceMatcher
from pathlib import Path
from statistics import linear_regression
from threading import Event

import click
import psutil

from agent.lab.artifacts import clients as client_artifacts
from agent.lab.artifacts import fetch
from agent.lab.broker import HOST, free_port
from agent.lab.clients import Clients
from agent.lab.drivers import java_command
from agent.lab.errors import LabError
from agent.lab.lab import fetch_artifacts, open_lab
from agent.lab.process import Driver
from tests.faults.agent_process import AgentProcess
from tests.soak.oracle import codes

_HERE = Path(__file__).parent
_VERSIONS = ("3.9.1", "4.3.0")
_GROUP_SIZE = 5
_SETTLE_S = 30.0
_SLOPE_MAX_MIB_PER_H = 20.0
_SLOPE_MINUTES = 10.0
"""In less the agent still warms up."""
_WARM_UP = 0.3
"""Of the soak's length; memory is looked at behind it."""
_POLL_MS = 8000


class _Fleet(Clients):
    """Consumers that print every request and answer into a second log."""

    def _java(self, main: str, version: str, client_id: str) -> list[str | Path]:
        flags = [
            "-Xmx96m",
            f"-Dlog4j.configuration={(_HERE / 'log4j.properties').as_uri()}",
            f"-Ddriver.log={self._log(client_id)}",
        ]
        return java_command(main, fetch(client_artifacts(version), self._cache), self._cache, flags)


class _Member:
    """One consumer, through its lives."""

    def __init__(self, fleet: _Fleet, number: int) -> None:
        self.client_id, self._group = f"c{number}", f"soak-{number // _GROUP_SIZE}"
        self._version = _VERSIONS[number % len(_VERSIONS)]
        self._fleet = fleet
        self.driver = self._start()

    def suffer(self, chance: random.Random) -> None:
        """Do or bear something; it is over when this returns."""
        what = chance.choice(("enforce", "enforce", "close", "stall", "kill", "pause"))
        click.echo(f"{what} {self.client_id}", err=True)
        match what:
            case "enforce":
                self.driver.do("enforce a new configuration")
            case "close":
                self.driver.close()
                self.driver = self._start()
            case "kill":
                self.driver.kill()
                self.driver = self._start()
            case "stall":
                self.driver.do(f"stall {_POLL_MS + 2000}")
            case _:
                self.driver.pause()
                Event().wait(8.0)  # longer than its session
                self.driver.resume()

    def _start(self) -> Driver:
        settings = {"max.poll.interval.ms": str(_POLL_MS)}
        driver = self._fleet.consumer(
            self._version, self.client_id, self._group, [self._group], settings
        )
        driver.wait_for("assigned", 120.0)
        return driver


@click.command(help=__doc__)
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--consumers", default=50, show_default=True)
@click.option("--seed", default=12472, show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="Keep logs and records there.")
def main(minutes: float, consumers: int, seed: int, keep: Path | None) -> None:
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = _soak(folder, minutes, consumers, random.Random(seed))
    click.echo(json.dumps(found, indent=1))
    is_right = found["precision"] == found["recall"] == 1.0
    is_flat = minutes < _SLOPE_MINUTES or found["rss_mib_per_h"] <= _SLOPE_MAX_MIB_PER_H
    sys.exit(0 if is_right and is_flat else 1)


def _soak(folder: Path, minutes: float, consumers: int, chance: random.Random) -> dict[str, float]:
    cache, logs = fetch_artifacts(), folder / "clients"
    logs.mkdir(parents=True)
    with ExitStack() as stack:
        lab = stack.enter_context(open_lab(folder / "lab", cache))
        for number in range(-(-consumers // _GROUP_SIZE)):
            lab.admin.do(f"create-topic soak-{number} {_GROUP_SIZE}")
        port = free_port()
        upstream = json.dumps(lab.cluster.bootstrap.split(","))
        agent = stack.enter_context(
            AgentProcess(
                folder / "agent",
                f"sources:\n  - {{type: logs, paths: ['{logs}/*.log']}}\n"
                f"  - {{type: proxy, listen: '{HOST}:{port}', upstream: {upstream}}}\n",
            )
        )
        agent.start_ready()
        fleet = stack.enter_context(_Fleet(f"{HOST}:{port}", logs, cache))
        members = [_Member(fleet, number) for number in range(consumers)]
        memory, faults = _live(members, agent, minutes, chance)
        Event().wait(_SETTLE_S)
        agent.drain()
        for member in members:
            member.driver.kill()
    rows = [row for row in agent.published() if row["kind"] == "transition"]
    return _compared(members, logs, rows) | {"faults": faults, "rss_mib_per_h": _slope(memory)}


def _live(
    members: list[_Member], agent: AgentProcess, minutes: float, chance: random.Random
) -> tuple[list[tuple[float, float]], int]:
    process, begun_s = psutil.Process(agent.process.pid), time.monotonic()
    memory, faults = list[tuple[float, float]](), 0
    while (at_s := time.monotonic() - begun_s) < minutes * 60:
        memory.append((at_s / 3600, process.memory_info().rss / (1 << 20)))
        chance.choice(members).suffer(chance)
        faults += 1
        Event().wait(chance.uniform(0.0, 3.0))
    return memory, faults


def _compared(
    members: list[_Member], logs: Path, rows: list[dict[str, object]]
) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for member in members:
        wanted = codes(logs / f"{member.client_id}.log.debug")
        found = [row["to"] for row in rows if row["client_id"] == member.client_id]
        blocks = SequenceMatcher(None, wanted, found, autojunk=False).get_matching_blocks()
        counts["right"] += sum(block.size for block in blocks)
        counts["wanted"] += len(wanted)
        counts["found"] += len(found)
        if wanted != found:
            click.echo(f"{member.client_id}: wanted {wanted}\n    found {found}", err=True)
    return {
        "wanted": counts["wanted"],
        "found": counts["found"],
        "precision": counts["right"] / max(1, counts["found"]),
        "recall": counts["right"] / max(1, counts["wanted"]),
    }


def _slope(memory: list[tuple[float, float]]) -> float:
    """Return MiB an hour behind the warm-up; 0 where there are too few looks."""
    behind = memory[int(len(memory) * _WARM_UP) :]
    if len(behind) < 3:
        return 0.0
    return round(linear_regression(*zip(*behind, strict=True)).slope, 2)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"Error: {error}")
