"""Real clients, a proxy, three real brokers: as without it, and the wire tells what logs tell."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agent.lab.broker import HOST, Cluster, free_port
from agent.lab.clients import Clients
from tests.system.observer import STREAMS, Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

BROKERS = 3
RECORDS = 2_000
WITHIN_S = 60.0


class Scene:
    """One cluster behind one proxy; an agent reads the wire, another the clients' logs."""

    def __init__(self, folder: Path, cache: Path, stack: ExitStack) -> None:
        self.cluster = stack.enter_context(Cluster(folder / "lab", cache, brokers=BROKERS))
        self.bootstrap = f"{HOST}:{free_port()}"
        upstream = json.dumps(self.cluster.bootstrap.split(","))
        source = f"{{type: proxy, listen: {self.bootstrap!r}, upstream: {upstream}}}"
        logs = folder / "clients"
        self.wire = stack.enter_context(Observer(folder / "none", folder / "wire", source))
        self.logs = stack.enter_context(Observer(logs, folder / "logs"))
        self.clients = stack.enter_context(Clients(self.bootstrap, logs, cache))
        for agent in (self.wire, self.logs):
            agent.wait_ready()

    def topic(self, name: str, partitions: int = 4) -> str:
        """Create a topic, each partition on every broker."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        admin.create_topics([NewTopic(name, partitions, BROKERS)])[name].result()
        return name

    def producer(self, acks: str, **more: object) -> Producer:
        named = {"bootstrap.servers": self.bootstrap, "acks": acks, "linger.ms": 5}
        return Producer(named | {key.replace("_", "."): value for key, value in more.items()})

    def read(self, topic: str, count: int, group: str | None = None) -> list[bytes]:
        """Return all records of a topic, as a consumer sees them through the proxy."""
        named = {"bootstrap.servers": self.bootstrap, "auto.offset.reset": "earliest"}
        consumer = Consumer(named | {"group.id": group or f"read-{topic}", "client.id": "reader"})
        consumer.subscribe([topic])
        values: list[bytes] = []
        deadline_s = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline_s:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.append(message.value() or b"")
            elif message is None and len(values) >= count:
                break
        consumer.close()
        return values


@pytest.fixture(scope="module")
def scene(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with ExitStack() as stack:
        scene = Scene(tmp_path_factory.mktemp("proxy"), cache, stack)
        scene.read(scene.topic("warm"), 0)  # the first group of all sees its coordinator load (9)
        yield scene


def _assert_alike(scene: Scene, group: str, client_id: str, codes: list[int], scope: str) -> None:
    """Wire and logs tell the same codes, in their spools and on their pages."""
    for agent in (scene.wire, scene.logs):
        assert agent.codes(client_id, codes, scope) == codes
    name = "kafka_consumer_rebalance_transitions_total"
    pages = [
        agent.counter(name, group=group, client_id=client_id) for agent in (scene.wire, scene.logs)
    ]
    assert pages[0] == pages[1]


def test_wire_and_logs_tell_the_same_of_java_consumers(scene: Scene) -> None:
    topic = scene.topic("java")
    first = scene.clients.consumer("4.3.0", "m1", "java", [topic])
    first.wait_for("assigned")
    second = scene.clients.consumer("2.8.2", "m2", "java", [topic])
    first.wait_for("assigned")
    second.wait_for("assigned")
    first.do("enforce new configuration")
    first.wait_for("assigned")
    second.wait_for("assigned")
    second.close()
    first.wait_for("assigned")

    _assert_alike(scene, "java", "m1", [2, 0, 1, 0, 6, 0, 1, 0], "consumer")
    assert scene.wire.codes("m2", [2, 0, 1, 0, 6, 0]) == [2, 0, 1, 0, 6, 0]
    first.close()


def test_wire_and_logs_tell_the_same_of_a_streams_application(scene: Scene) -> None:
    topic = scene.topic("counted")
    client = scene.clients.streams("4.3.0", "s1", "app", topic)
    client.wait_for("state RUNNING")

    thread = "s1-StreamThread-1-consumer"
    _assert_alike(scene, "app", thread, [2, 0], "consumer")
    _assert_alike(scene, "app", "s1", [2, 0], STREAMS)
    client.close()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_record_of_a_producer_arrives(scene: Scene, acks: str) -> None:
    topic = scene.topic(f"acks-{acks}")
    producer = scene.producer(acks)
    wanted = [b"%d" % number + b"." * 1000 for number in range(RECORDS)]
    for value in wanted:
        producer.produce(topic, value)
    assert producer.flush(30) == 0

    assert sorted(scene.read(topic, RECORDS)) == sorted(wanted)


def test_a_rolling_restart_loses_and_doubles_nothing(scene: Scene) -> None:
    topic = scene.topic("rolling")
    member = scene.clients.consumer("4.3.0", "r1", "rolling", [topic])
    member.wait_for("assigned")
    producer = scene.producer("all", enable_idempotence=True)
    failed: list[object] = []
    sent = 0

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    def produce(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            producer.produce(topic, b"%d" % sent, on_delivery=delivered)
            sent += 1
            producer.poll(0)

    produce(100)
    for broker in scene.cluster.brokers:
        broker.stop()
        produce(500)
        producer.poll(0.5)
        broker.restart()
        produce(500)
    assert producer.flush(60) == 0

    assert failed == []
    values = scene.read(topic, sent)
    assert sorted(map(int, values)) == list(range(sent))
    member.close()
