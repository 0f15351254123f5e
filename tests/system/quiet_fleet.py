"""A fleet that has nothing to rebalance for: consumers, Streams, a producer, an operator.

Twenty consumers of four versions and protocols, three Streams instances of two threads, steady
production, an operator's calls, metadata refreshes every three seconds, and, when it is told to,
a rolling restart within every session. It takes three brokers: a client that finds no broker at all
starts from its bootstrap servers again, and its leader then rebalances, for changed metadata.
"""

import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread

from confluent_kafka import Producer

from agent.lab.broker import Cluster
from agent.lab.clients import Clients
from agent.processes.driver import Driver
from tests.system.corpus.programs import fleet_command

_OPERATOR = Path(__file__).parent / "operator_driver.py"
_PATIENCE_S = 120.0

_PATIENT = {"session.timeout.ms": "45000"}
_COOPERATIVE = {
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
}
_GROUPS = {  # five consumers each, of this version
    "old": ("2.8.2", _PATIENT),
    "cooperative": ("3.9.1", _PATIENT | _COOPERATIVE),
    "new": ("4.3.0", _PATIENT),
    "next": ("4.3.0", {"group.protocol": "consumer"}),
}
CONSUMERS = [f"{group}-{number}" for group in _GROUPS for number in range(1, 6)]
GROUPS = {*_GROUPS, "counts"}
INSTANCES = ["counts-1", "counts-2", "counts-3"]


class QuietFleet:
    """Lives as long as the stack that is given to it."""

    def __init__(self, folder: Path, cache: Path, stack: ExitStack) -> None:
        """Start the brokers; `start` starts the fleet."""
        self.logs = folder / "clients"
        # a failover takes the time that the next broker has; that of classic groups is their own
        patient = {"group.consumer.session.timeout.ms": "45000"}
        cluster = Cluster(folder / "cluster", cache, brokers=3, extra=lambda _: patient)
        self.cluster = stack.enter_context(cluster)
        self._clients = stack.enter_context(Clients(self.cluster.bootstrap, self.logs, cache))
        self._cache, self._stack, self._over = cache, stack, Event()

    def start(self) -> None:
        """Start all clients, the producer and the operator."""
        admin = self._clients.admin()
        for topic in [*_GROUPS, "clicks"]:
            admin.do(f"create-topic {topic} 10")
        for group, (version, settings) in _GROUPS.items():
            self._consumers(group, version, settings)
        settings = {"consumer.session.timeout.ms": "45000", "num.stream.threads": "2"}
        for instance in INSTANCES:
            streams = self._clients.streams("3.9.1", instance, "counts", "clicks", settings)
            streams.wait_for("state RUNNING", 90.0)
        command = [sys.executable, str(_OPERATOR), self.cluster.bootstrap, *_GROUPS, "counts"]
        operator = Driver("operator", command, self.logs.parent / "operator.log")
        self._operator = self._stack.enter_context(operator)
        self._operator.send("look")
        self._operator.wait_for("saw", _PATIENCE_S)
        for work in (self._produce, self._operate):
            thread = Thread(target=work, daemon=True)
            thread.start()
            self._stack.callback(thread.join)
        self._stack.callback(self._over.set)

    def restart_the_brokers(self) -> None:
        """Take one after another down in order, and up again."""
        for broker in self.cluster.brokers:
            broker.stop()
            broker.restart()
            self._over.wait(5.0)  # its replicas catch up

    def _consumers(self, group: str, version: str, settings: dict[str, str]) -> None:
        named = {
            "bootstrap.servers": self.cluster.bootstrap,
            "group.id": group,
            "client.id": group,
            "driver.topics": group,
            "driver.count": "5",
            "metadata.max.age.ms": "3000",
        }
        log = self.logs / f"{group}.log"
        command = fleet_command(version, log, self._cache)
        arguments = [f"{key}={value}" for key, value in (named | settings).items()]
        self._stack.enter_context(Driver(group, [*command, *arguments], log)).wait_for("started")

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap})
        number = 0
        while not self._over.wait(1.0):
            number += 1
            for topic in [*_GROUPS, "clicks"]:
                producer.produce(topic, b"value", key=b"key-%d" % (number % 50))
            producer.poll(0)

    def _operate(self) -> None:
        while not self._over.wait(5.0):
            self._operator.do("look", _PATIENCE_S)
