"""The members of a soak and their faults: consumers and instances of Streams applications."""

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import ClassVar, NamedTuple, Protocol

from agent.lab.artifacts import clients as client_artifacts
from agent.lab.artifacts import fetch
from agent.lab.clients import Clients
from agent.lab.drivers import java_command
from agent.lab.lab import Lab
from agent.processes.driver import Driver
from tests.soak.debug_log import BEGINNING

GROUP_SIZE, APPLICATION_SIZE = 5, 3
PARTITIONS = 5
_RECORDS = 200
VERSIONS = ("3.9.1", "4.3.0")
_POLL_MS = 8000
_START_S = 240.0
_DONE_S = 120.0
"""A thread that is removed waits for a rebalance; a busy machine adds to that."""
_FROZEN_S = 8.0
"""Longer than a session."""
_COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
_CONSUMER = {"max.poll.interval.ms": str(_POLL_MS), "fetch.max.wait.ms": "5000"}
_APPLICATIONS: tuple[Mapping[str, str], ...] = (
    {"num.stream.threads": "2"},
    {"acceptable.recovery.lag": "0", "probing.rebalance.interval.ms": "60000"},
    {"num.standby.replicas": "1"},
)


class Population(NamedTuple):
    """Numbers of consumers and of instances of Streams applications, and their versions."""

    consumers: int
    instances: int
    versions: Sequence[str]


class Fleet(Clients):
    """Clients that print every request and answer into a second log."""

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        cache: Path,
        past: str = "",
        versions: Sequence[str] = VERSIONS,
    ) -> None:
        """Start nothing yet; every log begins with ``past``, clients take the versions in turn."""
        super().__init__(bootstrap, folder, cache)
        self._past, self._versions, self._lock = past, versions, Lock()

    def version(self, number: int) -> str:
        return self._versions[number % len(self._versions)]

    def debug_log(self, client_id: str) -> Path:
        return self._log(client_id).with_suffix(".log.debug")

    def _java(self, main: str, version: str, client_id: str) -> list[str | Path]:
        if not self._log(client_id).exists():
            self._log(client_id).write_text(self._past)
        with self.debug_log(client_id).open("a") as log:
            log.write(f"{BEGINNING}\n")
        flags = [
            "-Xmx96m",
            f"-Dlog4j.configuration={(Path(__file__).with_name('log4j.properties')).as_uri()}",
            f"-Ddriver.log={self._log(client_id)}",
            self._scratch_flag(client_id),
        ]
        with self._lock:
            jars = fetch(client_artifacts(version), self._cache)
            return java_command(main, jars, self._cache, flags)


class Member(Protocol):
    """A client that may be stopped and started again."""

    client_id: str
    driver: Driver
    BEARS: ClassVar[tuple[str, ...]]

    def suffer(self, what: str, chance: random.Random) -> None:
        """Suffer a fault or act; the fault is over when this returns."""


class Consumer:
    """One consumer of a group; every second group is cooperative, the others are eager."""

    BEARS = ("enforce", "enforce", "close", "stall", "kill", "freeze", "subscribe")

    def __init__(self, fleet: Fleet, number: int) -> None:
        group = number // GROUP_SIZE
        self.client_id, self._group = f"c{number}", f"soak-{group}"
        self._version = fleet.version(number)
        assignor = {"partition.assignment.strategy": _COOPERATIVE} if group % 2 else {}
        self._settings, self._fleet = _CONSUMER | assignor, fleet
        self._has_more = False
        self.driver = self._start()

    def suffer(self, what: str, _chance: random.Random) -> None:
        match what:
            case "enforce":
                self.driver.do("enforce a new configuration", _DONE_S)
            case "close":
                self.driver.close(_DONE_S)
                self.driver = self._start()
            case "kill":
                self.driver.kill()
                self.driver = self._start()
            case "stall":
                self.driver.do(f"stall {_POLL_MS + 2000}", _DONE_S)
            case "subscribe":
                self._has_more = not self._has_more
                self.driver.do(f"subscribe {self._group}" + " soak-more" * self._has_more, _DONE_S)
            case _:
                _freeze(self.driver)

    def _start(self) -> Driver:
        self._has_more = False
        driver = self._fleet.consumer(
            self._version, self.client_id, self._group, [self._group], self._settings
        )
        driver.wait_for("assigned", _START_S)
        return driver


class Instance:
    """One instance of a Streams application; its faults include an added and removed thread."""

    BEARS = ("close", "kill", "freeze", "away", "thread")

    def __init__(self, fleet: Fleet, number: int) -> None:
        application = number // APPLICATION_SIZE
        self.client_id, self._group = f"s{number}", f"streams-{application}"
        self._version = fleet.version(application)
        self._settings = _APPLICATIONS[application % len(_APPLICATIONS)]
        self._fleet = fleet
        self.driver = self._start()

    def suffer(self, what: str, chance: random.Random) -> None:
        match what:
            case "close":
                self.driver.close(_DONE_S)
                self.driver = self._start()
            case "kill":
                self.driver.kill()
                self.driver = self._start()
            case "away":
                self.driver.close(_DONE_S)
                Event().wait(chance.uniform(5.0, 20.0))
                self.driver = self._start()
            case "thread":
                self.driver.do("add-thread", _DONE_S)
                Event().wait(chance.uniform(0.0, 10.0))
                self.driver.do("remove-thread", _DONE_S)
            case _:
                _freeze(self.driver)

    def _start(self) -> Driver:
        driver = self._fleet.streams(
            self._version, self.client_id, self._group, self._group, self._settings
        )
        driver.wait_for("state RUNNING", _START_S)
        return driver


def _freeze(driver: Driver) -> None:
    driver.pause()
    Event().wait(_FROZEN_S)
    driver.resume()


def make_topics(lab: Lab, population: Population) -> None:
    for number in range(-(-population.consumers // GROUP_SIZE)):
        lab.admin.do(f"create-topic soak-{number} {PARTITIONS}")
    lab.admin.do("create-topic soak-more 2")
    for number in range(-(-population.instances // APPLICATION_SIZE)):
        lab.admin.do(f"create-topic streams-{number} {PARTITIONS}")
        lab.admin.do(f"produce streams-{number} {_RECORDS}")


def begin(fleet: Fleet, population: Population) -> list[Member]:
    """Start all, two at a time."""
    makers: list[Callable[[], Member]] = []
    makers += [lambda n=n: Consumer(fleet, n) for n in range(population.consumers)]  # type: ignore[misc]
    makers += [lambda n=n: Instance(fleet, n) for n in range(population.instances)]  # type: ignore[misc]
    with ThreadPoolExecutor(2) as starters:
        return list(starters.map(lambda make: make(), makers))
