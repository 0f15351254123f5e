"""The group protocol on a bench: real consumers with an assignor of their own, killed at each step.

The assignor waits while one file exists, and fails if another file exists. So a scene can stop the
group between two steps of the protocol. The agent's data are read once a second.
"""

import json
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Self

from prometheus_client.parser import text_string_to_metric_families

from agent.lab.broker import Broker, Cluster, NodePorts
from agent.lab.clients import Clients
from agent.processes.driver import Driver
from tests.system.inspected import Group, groups_of, ours, until
from tests.system.kafka_tools import KafkaTools
from tests.system.observer import Observer

VERSION = "4.3.0"
_STATES, _STATUS = "kafka_group_state", "kafka_consumer_rebalance_status"
_MEMBERS = "kafka_group_members"
_STALL_MS = 15_000
"""A consumer that does not poll, for longer than the steps before a kill take."""
_SOURCES = """\
{{type: logs, paths: ["{logs}/*.log"]}}
  - {{type: groups, interval: 1s, lag: true}}
cluster: {{bootstrap_servers: {bootstrap}}}
"""


class Step(StrEnum):
    """Steps of the classic protocol at which a scene kills a broker or a member."""

    JOINING = "before all have joined"
    ASSIGNING = "between join and sync"
    SYNCED = "after the leader's sync"
    HEARTBEATS = "during heartbeats"


class Look(NamedTuple):
    """The agent's data of a group at one second of a scene."""

    state: str | None
    """The coordinator's, at the last poll that reached it."""
    members: int | None
    status: tuple[tuple[str, int], ...]
    """By client id."""


class Timeline:
    """Looks at an agent once a second, on a thread of its own."""

    def __init__(self, url: str, group: str) -> None:
        self._url, self._group = url, group
        self.looks: list[tuple[int, Look]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._began_s = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def changes(self) -> Iterator[tuple[int, Look]]:
        """Yield the seconds at which the agent's data changed, with the new data."""
        before = None
        for second, look in self.looks:
            if look != before:
                yield second, look
            before = look

    def render(self) -> str:
        return "".join(
            f"{second:4} s  {look.state or '-':19}  {shown(look.members)} members  "
            + "  ".join(f"{c.removeprefix(f'{self._group}-')} {code}" for c, code in look.status)
            + "\n"
            for second, look in self.changes()
        )

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            self.looks.append((round(time.monotonic() - self._began_s), self._look()))

    def _look(self) -> Look:
        with urllib.request.urlopen(f"{self._url}/metrics", timeout=30.0) as answer:
            lines = answer.read().decode().splitlines(keepends=True)
        wanted = (_STATES, _STATUS, _MEMBERS)
        page = "".join(line for line in lines if line.startswith(wanted))
        samples = [
            sample
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.labels.get("group") == self._group
        ]
        states = [s.labels["state"] for s in samples if s.name == _STATES and s.value]
        members = [int(s.value) for s in samples if s.name == _MEMBERS]
        status = {s.labels["client_id"]: int(s.value) for s in samples if s.name == _STATUS}
        return Look(
            states[0] if states else None,
            members[0] if members else None,
            tuple(sorted(status.items())),
        )


def shown(value: object) -> str:
    return "-" if value is None else str(value)


class Bench:
    """A cluster, an agent, and groups of three consumers with our assignor."""

    def __init__(self, folder: Path, cache: Path, stack: ExitStack, *, brokers: int = 3) -> None:
        self._folder, self._logs = folder, folder / "clients"
        self.cluster = stack.enter_context(
            Cluster(folder / "lab", cache, brokers=brokers, extra=_settings(brokers))
        )
        self.clients = stack.enter_context(Clients(self.cluster.bootstrap, self._logs, cache))
        self.admin = self.clients.admin()
        self.tools = KafkaTools(self.cluster.bootstrap, folder / "tools", cache)
        self.admin.do("create-topic orders 6", 60.0)
        bootstrap = json.dumps(self.cluster.bootstrap.split(","))
        source = _SOURCES.format(logs=self._logs, bootstrap=bootstrap).rstrip()
        self.agent = stack.enter_context(
            Observer(self._logs, folder / "agent", source, "standalone")
        )
        self.agent.wait_ready()

    @contextmanager
    def group(self, name: str) -> Iterator["Scene"]:
        """Run a stable group of three consumers; the exit closes those that still run."""
        scene = Scene(self, name, self._folder / name)
        try:
            scene.settle(3)
            scene.before = self.agent.codes_of_group(name)
            with scene.timeline:
                yield scene
        finally:
            for driver in scene.members.values():
                driver.kill()
            sys.stdout.write(f"\n{name}\n{scene.timeline.render()}")


class Scene:
    """One group, the files that control its assignors, and the agent's data of it."""

    def __init__(self, bench: Bench, group: str, folder: Path) -> None:
        self.bench, self.group = bench, group
        self.before: dict[str, list[int]] = {}
        """The codes of each member before the scene."""
        self._folder = folder
        folder.mkdir()
        self.timeline = Timeline(bench.agent.url, group)
        self.members = {
            name: self.start(name, ["orders"], self.assignor(name)) for name in ("a", "b", "c")
        }

    def start(self, name: str, topics: Sequence[str], properties: dict[str, str]) -> Driver:
        client_id = f"{self.group}-{name}"
        return self.bench.clients.consumer(VERSION, client_id, self.group, topics, properties)

    def assignor(self, name: str) -> dict[str, str]:
        """Return the properties of a consumer with our assignor."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return {"partition.assignment.strategy": "BenchAssignor", "bench.folder": str(folder)}

    def reach(self, step: Step) -> None:
        """Bring the group to a step of the protocol, and stop it there (except at heartbeats)."""
        if step is Step.HEARTBEATS:
            return
        leader = self.leader()
        if step is Step.JOINING:
            last = next(name for name in self.members if name != leader)
            self.members[last].send(f"stall {_STALL_MS}")  # its heartbeats go on
        else:
            self.hold()
        self.members[leader].send("enforce bench")
        wanted = "PreparingRebalance" if step is Step.JOINING else "CompletingRebalance"
        self.shown(lambda look: look.state == wanted)
        if step is Step.SYNCED:
            self.release()
            self.wait_for_state("Stable")

    def leader(self) -> str:
        """Return the member that made the last assignment, by the assignment's user data."""
        group = self._describe()
        assert group is not None
        data = {member["assignment_user_data"] for member in group["members"]}
        assert len(data) == 1, data
        return str(data.pop()).rpartition("-")[2]

    def coordinator(self) -> Broker:
        group = self._describe()
        assert group is not None
        node_id = group["coordinator"]["node_id"]
        return next(b for b in self.bench.cluster.brokers if b.node.node_id == node_id)

    def hold(self, *names: str) -> None:
        """Let the assignors of these members wait."""
        for name in names or self.members:
            (self._folder / name / "hold").touch()

    def release(self) -> None:
        for name in self.members:
            (self._folder / name / "hold").unlink(missing_ok=True)

    def fail(self, name: str) -> None:
        """Let the assignor of this member fail once."""
        (self._folder / name / "fail").touch()

    def settle(self, members: int) -> None:
        """Wait until the coordinator reports a stable group with so many members."""

        def look() -> tuple[str, int]:
            group = self._describe()
            return (group["state"], len(group["members"])) if group else ("", 0)

        assert until(look, ("Stable", members)) == ("Stable", members)

    def wait_for_state(self, state: str) -> None:
        """Wait until the coordinator reports a state."""

        def look() -> str:
            group = self._describe()
            return str(group["state"]) if group else ""

        assert until(look, state) == state

    def settled(self, members: Sequence[str]) -> Look:
        """Wait until the agent shows a stable group of these members, all at status 0."""
        wanted = {f"{self.group}-{name}" for name in members}

        def is_settled(look: Look) -> bool:
            status = dict(look.status)
            quiet = all(status.get(client_id) == 0 for client_id in wanted)
            return (look.state, look.members) == ("Stable", len(members)) and quiet

        return self.shown(is_settled)

    def _describe(self) -> Group | None:
        """Return the group as its coordinator describes it; None while it has none."""
        done = ours(self.bench.cluster.bootstrap, "describe", self.group, "--output", "json")
        return groups_of(done).get(self.group) if done.stdout else None

    def shown(self, is_wanted: Callable[[Look], bool]) -> Look:
        """Wait until the agent's data are as wanted, and return them."""
        timeline, seen = self.timeline, len(self.timeline.looks)

        def look() -> bool:
            return any(is_wanted(each) for _, each in timeline.looks[seen:])

        assert until(look, wanted=True), timeline.render()
        return next(each for _, each in timeline.looks[seen:] if is_wanted(each))


def _settings(brokers: int) -> Callable[[NodePorts], dict[str, str]]:
    """Return settings that let a group survive the loss of its coordinator."""
    settings = {
        "offsets.topic.replication.factor": str(brokers),
        "min.insync.replicas": "1",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }
    return lambda _: settings
