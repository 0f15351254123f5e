"""Real clients, a proxy, three real brokers: as without it, and the wire tells what logs tell."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agent.lab.broker import HOST, Cluster, free_port
from agent.lab.clients import Clients
from tests.system.connect_worker import connect_worker, run_connector
from tests.system.kafka_tools import KafkaTools
from tests.system.observer import STREAMS, Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

BROKERS = 3
RECORDS = 2_000
WITHIN_S = 60.0
KAFKA_PYTHON = Path(__file__).parent / "kafka_python.py"
TOOLS = "org.apache.kafka.tools."
STREAMS_GROUPS = {
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "300",
}
GROUPS = f"{TOOLS}consumer.group.ConsumerGroupCommand"


class Scene:
    """One cluster behind one proxy; an agent reads the wire, another the clients' logs."""

    def __init__(self, folder: Path, cache: Path, stack: ExitStack) -> None:
        cluster = Cluster(folder / "lab", cache, brokers=BROKERS, extra=lambda _: STREAMS_GROUPS)
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
        """Create a topic, each partition on every broker, and wait until its leaders lead.

        Before they do, brokers throw away what is sent with acks=0.
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
    """Return what a consumer gets, once that is ``count`` records and no more come."""
    values: list[bytes] = []
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
        elif message is None and len(values) >= count:
            break
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


def test_wire_and_logs_tell_the_same_of_a_streams_group(scene: Scene) -> None:
    """KIP-1071."""
    topic = scene.topic("tasks")
    new = {"group.protocol": "streams"}
    first = scene.clients.streams("4.3.0", "k1", "tasks", topic, new)
    first.wait_for("state RUNNING")
    alone = scene.logs.settled("k1", 4, STREAMS)  # it joins, and is given its tasks
    second = scene.clients.streams("4.3.0", "k2", "tasks", topic, new)
    second.wait_for("state RUNNING")
    shared = scene.logs.settled("k1", len(alone) + 3, STREAMS)
    scene.logs.settled("k2", 4, STREAMS)  # it joins, and is given what the first has given up
    second.close()
    wanted = scene.logs.settled("k1", len(shared) + 2, STREAMS)

    assert wanted == [2, 0, 1, 0, 1, 10, 0, 1, 0]
    _assert_alike(scene, "tasks", "k1", wanted, STREAMS)
    _assert_alike(scene, "tasks", "k1-StreamThread-1-consumer", wanted, "consumer")
    _assert_alike(scene, "tasks", "k2", [2, 0, 1, 0, 6, 0], STREAMS)
    assert scene.wire.kinds("tasks") == {("streams", None)}
    first.close()


def test_connect_workers_are_members_of_a_classic_group(scene: Scene) -> None:
    where = (scene.bootstrap, scene.folder / "connect", scene.cache)
    with connect_worker("w1", "connect", *where):
        assert scene.wire.codes("w1", [2, 0]) == [2, 0]
        with connect_worker("w2", "connect", *where):
            assert scene.wire.codes("w1", [2, 0, 1, 0]) == [2, 0, 1, 0]

        assert scene.wire.codes("w1", [2, 0, 1, 0, 1, 0]) == [2, 0, 1, 0, 1, 0]
    assert scene.wire.codes("w2", [2, 0, 6, 0]) == [2, 0, 6, 0]
    assert scene.wire.kinds("connect") == {("classic", "connect")}


def test_a_connect_worker_gives_tasks_up_for_another(scene: Scene) -> None:
    """Connect's assignment says so; the worker gives them up and joins again."""
    where, port = (scene.bootstrap, scene.folder / "connect", scene.cache), free_port()
    with connect_worker("v1", "moving", *where, rest_port=port):
        assert scene.wire.codes("v1", [2, 0]) == [2, 0]
        run_connector(port, scene.topic("moved"), 2)
        with connect_worker("v2", "moving", *where):
            assert scene.wire.codes("v1", [2, 0, 1, 10, 0]) == [2, 0, 1, 10, 0]
            # a sync that was refused as the group rebalanced again is of the same round
            assert scene.wire.codes("v2", [2, 0, 1, 0]) in ([2, 0, 1, 0], [2, 0])


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_record_of_a_producer_arrives(scene: Scene, acks: str) -> None:
    topic = scene.topic(f"acks-{acks}")
    producer = scene.producer(acks)
    wanted = [b"%d" % number + b"." * 1000 for number in range(RECORDS)]
    for value in wanted:
        producer.produce(topic, value)
    assert producer.flush(30) == 0

    assert sorted(scene.read(topic, RECORDS)) == sorted(wanted)


def test_every_record_of_kafka_python_arrives(scene: Scene) -> None:
    settings = json.dumps({"bootstrap_servers": scene.bootstrap, "client_id": "p1"})
    arguments = [scene.topic("python"), str(RECORDS), settings]
    command = [sys.executable, str(KAFKA_PYTHON), *arguments]

    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)

    assert done.returncode == 0, done.stderr
    assert sorted(map(int, done.stdout.split())) == list(range(RECORDS))
    assert scene.wire.codes("p1", [2, 0, 6, 0]) == [2, 0, 6, 0]


def test_the_performance_tools_move_every_record(scene: Scene) -> None:
    topic, many = scene.topic("perf"), str(10 * RECORDS)
    produce = ("--record-size", "1000", "--throughput", "-1")
    consume = ("--group", "perf", "--timeout", str(int(WITHIN_S) * 1_000))

    named = ("--topic", topic, "--num-records", many)
    produced = scene.tools.run(f"{TOOLS}ProducerPerformance", *named, *produce)
    consumed = scene.tools.run(f"{TOOLS}ConsumerPerformance", *named, *consume)

    assert f"{many} records sent" in produced
    head, row = (line.split(", ") for line in consumed.splitlines())
    assert row[head.index("data.consumed.in.nMsg")] == many
    group = scene.tools.run(GROUPS, "--describe", "--group", "perf", "--offsets")
    offsets = [int(row.split()[3]) for row in group.splitlines() if row.startswith("perf ")]
    assert sum(offsets) == int(many)


def test_the_admin_tools_reach_every_broker(scene: Scene) -> None:
    run, own = scene.tools.run, {int(scene.bootstrap.rpartition(":")[2])}
    topic = scene.topic("administered")
    member = scene.consumer(topic, scene.bootstrap, "administered")
    drain(member, 0)
    named = ("--entity-type", "topics", "--entity-name", topic)

    run(f"{TOOLS}TopicCommand", "--create", "--topic", "created", "--partitions", "3")
    run("kafka.admin.ConfigCommand", "--alter", *named, "--add-config", "retention.ms=77777")
    topics = run(f"{TOOLS}TopicCommand", "--describe", "--topic", "created")
    configs = run("kafka.admin.ConfigCommand", "--describe", *named)
    groups = run(GROUPS, "--list")
    members = run(GROUPS, "--describe", "--group", "administered", "--members")
    folders = run(f"{TOOLS}LogDirsCommand", "--describe")
    brokers = run(f"{TOOLS}BrokerApiVersionsCommand")

    assert "PartitionCount: 3" in topics
    assert "retention.ms=77777" in configs
    assert "administered" in groups.split()
    assert "reader" in members.split()
    assert "from brokers 1,2,3" in folders
    ports = {int(port) for port in re.findall(r"^\S+:(\d+) \(id:", brokers, re.MULTILINE)}
    direct = {broker.node.port for broker in scene.cluster.brokers}
    assert len(ports) == BROKERS
    assert not ports & (direct | own)
    member.close()


def test_a_rolling_restart_loses_and_doubles_nothing(scene: Scene) -> None:
    """Nothing that a client beside the proxy would not lose or double."""
    topic = scene.topic("rolling")
    member = scene.clients.consumer("4.3.0", "r1", "rolling", [topic])
    member.wait_for("assigned")
    through = scene.consumer(topic, scene.bootstrap, "through")
    beside = scene.consumer(topic, scene.cluster.bootstrap, "beside")
    readers = [(each, drain(each, 0)) for each in (through, beside)]
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
    for consumer, before in readers:
        values = before + drain(consumer, sent - len(before))
        assert sorted(map(int, values)) == list(range(sent))
        consumer.close()
    member.close()
