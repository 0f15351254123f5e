"""The agent as a process that a test breaks, seen by its pages, its exit code and its disk."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agent.processes.ports import free_port

DEADLINE_S = 60.0
AGENT = (sys.executable, "-P", "-m", "agent")

Row = dict[str, Any]


def until(fact: Callable[[], bool], wanted: str, within_s: float = DEADLINE_S) -> None:
    deadline_s = time.monotonic() + within_s
    while not fact():
        assert time.monotonic() < deadline_s, f"not in time: {wanted}"
        time.sleep(0.02)


def spooled(folder: Path) -> list[Row]:
    """Return the rows of a spool's complete files."""
    texts = [path.read_text() for path in sorted(folder.glob("*.jsonl"))]
    return [json.loads(line) for text in texts for line in text.splitlines()]


class AgentProcess:
    """Can be killed and started again at the same place."""

    def __init__(
        self,
        folder: Path,
        config: str,
        wrapper: Sequence[str] = (),
        program: Sequence[str] = AGENT,
    ) -> None:
        """Write the configuration; ``wrapper`` is a command that runs the agent's ``program``."""
        folder.mkdir()
        self.spool, self.log = folder / "state" / "spool", folder / "agent.log"
        self.config = folder / "agent.yaml"
        self.address = f"127.0.0.1:{free_port()}"
        self.config.write_text(
            f"host: {folder.name}\nstate_dir: {folder}/state\n"
            f"samples: {{spool: {{dir: {self.spool}, roll: 1s}}}}\n"
            f'web: {{listen: ["{self.address}"]}}\n{config}'
        )
        self._wrapper = wrapper
        self.upgrade(program)

    def upgrade(self, program: Sequence[str]) -> None:
        """Run another release from the next start on."""
        self._command = [*self._wrapper, *program, "run", "-c", str(self.config)]

    def upgrade_to_this(self) -> None:
        """Run the release under test from the next start on, on an ordinary disk."""
        self._wrapper = ()
        self.upgrade(AGENT)

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stderr=log)

    def start_ready(self) -> None:
        self.start()
        until(lambda: self.is_ready() or self.process.poll() is not None, "a ready agent")
        assert self.process.poll() is None, self.log.read_text()[-2000:]

    def is_ready(self) -> bool:
        return bool(self.get("/-/ready"))

    def kill(self) -> None:
        """SIGKILL; fine if it is gone."""
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def drain(self) -> int:
        """SIGTERM; return the exit code."""
        self.process.terminate()
        return self.process.wait(DEADLINE_S)

    def reload(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    def get(self, path: str) -> str:
        """Return a page; empty if there is none."""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=10.0) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the series that have these labels."""
        total = 0.0
        series = re.compile(rf"^{name}\{{(.*)\}} (\S+)$", re.MULTILINE)
        for found, value in series.findall(self.get("/metrics")):
            if all(f'{key}="{wanted}"' in found for key, wanted in labels.items()):
                total += float(value)
        return total

    def got(self, event: str) -> bool:
        """Whether its own log has an event."""
        return f"event={event}" in self.log.read_text()

    def on_disk(self, root: Path = Path("/")) -> list[Row]:
        """Return every whole line, published or not; ``root`` is the path of the agent's files."""
        folder = root / self.spool.relative_to("/")
        texts = []
        # in this order: what is published between the two is seen twice, and then looked for again
        for path in [*folder.glob(".*.part"), *folder.glob("*.jsonl")]:
            try:
                texts.append(path.read_text())
            except FileNotFoundError:  # it was published just now, and may be missed
                return self.on_disk(root)
        return [json.loads(line) for text in texts for line in text.split("\n")[:-1]]

    def published(self) -> list[Row]:
        return spooled(self.spool)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if hasattr(self, "process"):
            self.kill()


def transitions(rows: Sequence[Row]) -> list[str]:
    """Return the ids of transitions, each as often as it stands there."""
    return sorted(row["id"] for row in rows if row["kind"] == "transition")


def replayed(log: Path) -> list[str]:
    """Return the ids of the records of a whole log, read without faults."""
    command = [*AGENT, "replay", "--source", "logs", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    return transitions([json.loads(line) for line in done.stdout.splitlines()])
