"""One lab for all system tests; clients and an agent for each test."""

import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from agent.lab.lab import Lab, fetch_artifacts, open_lab
from agent.processes.errors import ProcessError
from tests.system.observer import Observer
from tests.system.stage import Stage

_WITHIN_S = 60.0
_numbers = count(1)


@pytest.fixture(scope="session")
def cache() -> Path:
    try:
        return fetch_artifacts()
    except ProcessError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no JVM artifacts: {error}")


_ELECTED_JUST_NOW = {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE}


@pytest.fixture(scope="session")
def lab(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(tmp_path_factory.mktemp("lab"), cache) as lab:
        _load_coordinators(lab.cluster.bootstrap)
        yield lab


def _load_coordinators(bootstrap: str) -> None:
    """Send a request to each coordinator: else a first member sees it load, RetryOnError (9)."""
    for number in range(3):  # these names fall on three internal partitions, and there are three
        asking = Consumer({"bootstrap.servers": bootstrap, "group.id": f"w{number}"})
        end_s = time.monotonic() + _WITHIN_S
        while not _answers(asking):
            assert time.monotonic() < end_s
            time.sleep(0.05)
        asking.close()


def _answers(asking: Consumer) -> bool:
    try:
        asking.committed([TopicPartition("none", 0)], timeout=_WITHIN_S)
    except KafkaException as error:
        if error.args[0].code() not in _ELECTED_JUST_NOW:
            raise
        return False
    return True


@pytest.fixture
def stage(lab: Lab, tmp_path: Path) -> Iterator[Stage]:
    number = next(_numbers)
    topic = f"topic-{number}"
    lab.admin.do(f"create-topic {topic} 4")
    logs = tmp_path / "clients"
    with Observer(logs, tmp_path / "agent") as agent, lab.clients(logs) as clients:
        agent.wait_ready()
        yield Stage(lab=lab, clients=clients, agent=agent, group=f"group-{number}", topic=topic)


@pytest.fixture
def wire(stage: Stage, tmp_path: Path) -> Iterator[Observer]:
    """Return an agent that captures the traffic of the test's clients and their broker."""
    stage.lab.admin.do(f"create-topic warm-{stage.topic} 1")  # not the first group of all: that
    warm = stage.clients.consumer("4.3.0", "warm", f"warm-{stage.group}", [f"warm-{stage.topic}"])
    warm.wait_for("assigned")  # one may see its coordinator load (9)
    warm.kill()
    port = stage.lab.cluster.brokers[0].node.port
    source = f"{{type: capture, interface: any, ports: [{port}]}}"
    with Observer(tmp_path / "none", tmp_path / "capture", source) as observer:
        observer.wait_ready()
        yield observer
