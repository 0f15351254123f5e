"""One run of a framework's program: its log in one agent, the same run's packets in another."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from agent.lab.lab import Lab
from tests.system.frameworks.episodes import Episodes, episodes
from tests.system.frameworks.fleet import Fleet
from tests.system.frameworks.program import Program
from tests.system.observer import Observer

_PARTITIONS = 4
_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The group is the run's own; both agents read from its start to its end."""

    program: Program
    group: str
    fleet: Fleet
    logs: Observer
    wire: Observer
    folder: Path
    """Where the program's log files are."""

    def assert_equal(self, *wanted: int) -> None:
        """Compare both agents' members and codes so far; wait until they have all of it.

        ``wanted`` are codes that the wire has: without them, two empty views would be equal.
        Those that the log never shows are left out.
        """
        starts = self.fleet.starts
        assert self.wire.poll(self._joins, lambda seen: seen == starts) == starts
        least = set(wanted) - self.program.hidden
        shown, logged = self.logs.poll(
            lambda: (self.on_wire(), self.in_logs()),
            lambda seen: seen[0] == seen[1] and _have_ended(seen[0]) and least <= _codes(seen[0]),
        )
        assert logged == shown
        assert least <= _codes(shown)

    def _joins(self) -> int:
        """Count the processes that are new members and have their first assignment, on the wire."""
        found = episodes(self.wire.transitions_of_group(self.group))
        return sum(2 in each and each[-1] == 0 for seen in found.values() for each in seen)

    def on_wire(self) -> Episodes:
        """Return the wire's episodes, without the codes that the log cannot show."""
        return episodes(self.wire.transitions_of_group(self.group), self.program.hidden)

    def in_logs(self) -> Episodes:
        """Return the log's episodes."""
        return episodes(self.logs.transitions_of_group(self.group))


def _codes(found: Episodes) -> set[int]:
    return {code for each in found.values() for episode in each for code in episode}


def _have_ended(found: Episodes) -> bool:
    return all(each[-1] == 0 for seen in found.values() for each in seen)


@contextmanager
def side_by_side(
    program: Program, lab: Lab, folder: Path, sources: str | None = None
) -> Iterator[Run]:
    """Start both agents, and give the run; ``sources`` configure the one that reads the log."""
    command = program.command(lab.cache)
    number = next(_numbers)
    group, topic = f"{program.folder}-{number}", f"orders-{number}"
    lab.admin.do(f"create-topic {topic} {_PARTITIONS}")
    logs = folder / "app"
    source = f"{{type: capture, interface: any, ports: [{lab.cluster.brokers[0].node.port}]}}"
    with (
        Observer(logs, folder / "logs", sources) as reader,
        Observer(folder / "none", folder / "wire", source) as capture,
        Fleet(program, command, logs, lab.cluster.bootstrap, group, topic) as fleet,
    ):
        for agent in (reader, capture):
            agent.wait_ready()
        yield Run(program=program, group=group, fleet=fleet, logs=reader, wire=capture, folder=logs)


def replay_hints(folder: Path) -> str:
    """Return the hints that ``replay`` prints to stderr for the program's log files."""
    command = [sys.executable, "-P", "-m", "agent", "replay", "--source", "logs"]
    done = subprocess.run(
        [*command, *sorted(folder.glob("*.log"))], capture_output=True, text=True, check=True
    )
    return done.stderr
