"""Kill -9 of ingests and agents at any moment: the report reads each written record once.

`make kill-spark` runs the long form: KILLS kills over spool and topic, Parquet, Delta and Iceberg.
The first kill of each combination is between the commits of two tables. The short form has only
this kill, and one of an agent.
"""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agent.lab.broker import Cluster
from aggregation.spark.tables.table_place import TableFormat
from tests.agent.hub.test_hub import NEW, Process, lines, running

_KILLS = int(os.environ.get("KILLS", "1"))
_SEED = int(os.environ.get("SEED", "1"))
_DEADLINE_S = 900.0
_LONGEST_S = 20.0
"""A killed ingest works so long at most; a batch takes some seconds."""
_BEGUN = "; Ctrl-C ends"

pytestmark = [
    pytest.mark.field,  # six minutes beside others; test_commands.py kills an ingest, too
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.jvm,
    pytest.mark.timeout(1800 + 180 * _KILLS),
]

TOPIC = "samples"
GARBAGE = (b'{"torn', b"\xff\xfe", b'{"id":"x"}', b"[]")


@dataclass(kw_only=True)
class World:
    """Two agents that write to spools and a topic, the damage there, and the true records."""

    folder: Path
    cluster: Cluster
    agents: list[Process]
    start: datetime
    rounds: int = 0
    damaged: dict[str, list[tuple[str, int]]] = field(
        default_factory=lambda: {"spool": [], "topic": []}
    )

    def go_on(self) -> None:
        """Let each agent read one more rebalance; copy, cut and damage their files."""
        self.rounds += 1
        at = self.start + timedelta(minutes=self.rounds)
        for number, agent in enumerate(self.agents):
            agent.say(lines(f"c{number}", self.rounds, at, NEW))
        self._spoil_topic()
        extra = self.folder / "extra" / f"r{self.rounds}.jsonl"
        copies = [p.read_bytes() for a in self.agents for p in sorted(spool(a).glob("*.jsonl"))[:3]]
        body = b"".join(copies)
        partial = extra.with_name(f".{extra.name}")
        partial.write_bytes(body + b"\n".join(GARBAGE) + b"\n")
        partial.rename(extra)
        offset = len(body)
        for text in GARBAGE:
            self.damaged["spool"].append((str(extra), offset))
            offset += len(text) + 1

    def _spoil_topic(self) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap})

        def written(error: KafkaError | None, message: Message) -> None:
            assert error is None
            place = f"{message.topic()}-{message.partition()}", message.offset() or 0
            self.damaged["topic"].append(place)

        for text in GARBAGE:
            producer.produce(TOPIC, text, on_delivery=written)
        assert producer.flush(_DEADLINE_S) == 0

    def settle(self) -> None:
        """Wait until the agents have written all that they were told, also to the topic."""
        until(lambda: all(len(agent.ids()) == 2 * self.rounds for agent in self.agents))
        until(lambda: all(buffered(agent) == 0 for agent in self.agents))

    def transitions(self) -> Counter[str]:
        return Counter(itertools.chain(*(agent.event_ids() for agent in self.agents)))


@dataclass(frozen=True, kw_only=True)
class Combination:
    """One way from the agents to tables."""

    source: str
    kind: TableFormat
    world: World

    @property
    def tables(self) -> Path:
        return self.world.folder / f"{self.source}-{self.kind}"

    def arguments(self) -> list[str]:
        world = self.world
        places = (
            [f"kafka://{world.cluster.bootstrap}/{TOPIC}"]
            if self.source == "topic"
            else [str(world.folder / "extra"), *(str(spool(agent)) for agent in world.agents)]
        )
        sources = [word for place in places for word in ("--from", place)]
        return [*sources, "--tables", str(self.tables), "--table-format", self.kind]

    @contextmanager
    def job(self, module: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        log = self.world.folder / f"{self.source}-{self.kind}.log"
        command = [sys.executable, "-P", "-m", *module.split(), *self.arguments(), *more]
        with (
            log.open("ab") as said,
            subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def killed_between_tables(self) -> None:
        with self.job("tests.system.killed_ingest table", "--once") as process:
            assert process.wait(_DEADLINE_S) == -signal.SIGKILL, self.said()
        assert self.taken() == [], self.said()
        assert list(self.tables.glob("*/**/*.parquet")), self.said()

    def killed_somewhere(self, after_s: float, *, with_jvm: bool) -> None:
        begun = self.said().count(_BEGUN)
        with self.job("agent ingest") as process:
            until(lambda: self.said().count(_BEGUN) > begun or process.poll() is not None)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(after_s)
            (os.killpg if with_jvm else os.kill)(process.pid, signal.SIGKILL)

    def taken(self) -> list[Path]:
        """Return the files in the checkpoints for batches that are in the tables."""
        wanted = "commits/[0-9]*" if self.source == "topic" else "files"
        return list(self.tables.glob(f"_checkpoints/*/{wanted}"))

    def finished(self) -> dict[str, list[Any]]:
        """Run an ingest to its end; return the contents of the tables."""
        words = [str(self.kind), str(self.tables), *self.arguments()]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tests.system.finished_ingest", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=_DEADLINE_S,
        )
        assert done.returncode == 0, self.said() + done.stderr
        rows: dict[str, list[Any]] = json.loads(done.stdout)
        return rows

    def said(self) -> str:
        log = self.world.folder / f"{self.source}-{self.kind}.log"
        return log.read_text() if log.exists() else ""


def spool(agent: Process) -> Path:
    return agent.folder / "spool"


def until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def buffered(agent: Process) -> float:
    name = f'rebalance_agent_samples_buffered{{sink="kafka:{TOPIC}"}} '
    values = [line for line in agent.get("metrics").splitlines() if line.startswith(name)]
    return float(values[0].removeprefix(name)) if values else -1.0


@pytest.fixture
def world(cache: Path, tmp_path: Path) -> Iterator[World]:
    with Cluster(tmp_path / "lab", cache) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result()
        (tmp_path / "extra").mkdir()
        address = f"cluster: {{bootstrap_servers: [{cluster.bootstrap}]}}\n"
        agents = [
            Process(
                tmp_path / name,
                f"{address}sources: [{{type: logs, paths: [{tmp_path / name}/app.log]}}]\n",
                f", kafka: {{topic: {TOPIC}}}",
            )
            for name in ("one", "two")
        ]
        with running(*agents):
            start = datetime.now(UTC).astimezone().replace(microsecond=0) - timedelta(
                minutes=_KILLS + 2
            )
            yield World(folder=tmp_path, cluster=cluster, agents=agents, start=start)


def chosen(world: World) -> list[Combination]:
    if _KILLS == 1:
        return [Combination(source="topic", kind=TableFormat.DELTA, world=world)]
    ways = itertools.product(TableFormat, ("spool", "topic"))
    return [Combination(source=source, kind=kind, world=world) for kind, source in ways]


def test_each_id_is_there_once_and_all_that_is_broken_is_told(world: World) -> None:
    rng = random.Random(_SEED)
    combinations = chosen(world)
    for number in range(_KILLS):
        combination = combinations[number % len(combinations)]
        world.go_on()
        if number < len(combinations):
            world.settle()
            combination.killed_between_tables()
            continue
        victim = rng.choice(world.agents)
        victim.kill()
        combination.killed_somewhere(rng.uniform(0.0, _LONGEST_S), with_jvm=rng.random() < 0.5)
        victim.start()
    world.go_on()
    victim = rng.choice(world.agents)
    victim.kill()
    victim.start()
    world.settle()
    for agent in world.agents:
        agent.kill()
    for combination in combinations:
        check(combination)


def check(combination: Combination) -> None:
    rows, world = combination.finished(), combination.world
    assert Counter(rows["transitions"]) == world.transitions()
    assert set(Counter(rows["samples"]).values()) <= {1}
    assert sorted(map(tuple, rows["quarantine"])) == sorted(world.damaged[combination.source])
