"""One cluster of three brokers behind one proxy, and operations through the proxy."""

import json
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agent.lab.broker import Cluster
from agent.lab.clients import Clients
from agent.processes.ports import HOST, free_port
from tests.system.kafka_tools import KafkaTools
from tests.system.observer import Observer

BROKERS = 3
WITHIN_S = 60.0
_STREAMS_GROUPS = {
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "300",
}


class Scene:
    """One cluster behind one proxy; an agent reads the wire, another the clients' logs."""

    def __init__(self, folder: Path, cache: Path, stack: ExitStack) -> None:
        cluster = Cluster(folder / "lab", cache, brokers=BROKERS, extra=lambda _: _STREAMS_GROUPS)
        self.cluster = stack.enter_context(cluster)
        self.bootstrap = f"{HOST}:{free_port()}"
        upstream = json.dumps(self.cluster.bootstrap.split(","))
        source = f"{{type: proxy, listen: {self.bootstrap!r}, upstream: {upstream}}}"
        logs = folder / "clients"
        self.wire = stack.enter_context(Observer(folder / "none", folder / "wire", source))
        self.logs = stack.enter_context(Observer(logs, folder / "logs"))
        self.clients = stack.enter_context(Clients(self.bootstrap, logs, cache))
        self.folder, self.cache = folder, cache
        self.tools = KafkaTools(self.bootstrap, folder / "tools", cache)
        for agent in (self.wire, self.logs):
            agent.wait_ready()

    def topic(self, name: str, partitions: int = 4) -> str:
        """Create a topic, each partition on every broker, and wait until its leaders are ready.

        Until then, brokers drop records that are sent with acks=0.
        """
        direct: dict[str, str | int | float | bool] = {"bootstrap.servers": self.cluster.bootstrap}
        admin = AdminClient(direct)
        admin.create_topics([NewTopic(name, partitions, BROKERS)])[name].result()
        asking = Consumer(direct | {"group.id": "none"})
        waiting = [TopicPartition(name, number) for number in range(partitions)]
        deadline_s = time.monotonic() + WITHIN_S
        while waiting and time.monotonic() < deadline_s:
            with suppress(KafkaException):
                asking.get_watermark_offsets(waiting[-1], timeout=5.0)
                waiting.pop()
        asking.close()
        assert not waiting
        return name

    def producer(self, acks: str, **more: object) -> Producer:
        named = {"bootstrap.servers": self.bootstrap, "acks": acks, "linger.ms": 5}
        return Producer(named | {key.replace("_", "."): value for key, value in more.items()})

    def read(self, topic: str, count: int, group: str | None = None) -> list[bytes]:
        """Return all records of a topic, as a consumer sees them through the proxy."""
        consumer = self.consumer(topic, self.bootstrap, group or f"read-{topic}")
        values = drain(consumer, count)
        consumer.close()
        return values

    def consumer(self, topic: str, bootstrap: str, group: str) -> Consumer:
        named = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
        consumer = Consumer(named | {"group.id": group, "client.id": "reader"})
        consumer.subscribe([topic])
        return consumer


def drain(consumer: Consumer, count: int) -> list[bytes]:
    """Return a consumer's values, when it has ``count`` records or more and no more arrive."""
    values: list[bytes] = []
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
        elif message is None and len(values) >= count:
            break
    return values
