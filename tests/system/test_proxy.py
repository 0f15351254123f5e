"""Real clients, a proxy, three real brokers: clients work as without it, wire and logs agree."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.processes.ports import free_port
from tests.system.connect_worker import connect_worker, has_stopped, run_connector
from tests.system.observer import STREAMS
from tests.system.proxy_scene import BROKERS, WITHIN_S, Scene, drain

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

RECORDS = 2_000
KAFKA_PYTHON = Path(__file__).parent / "kafka_python.py"
TOOLS = "org.apache.kafka.tools."
GROUPS = f"{TOOLS}consumer.group.ConsumerGroupCommand"


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
    rounds = [2, 0]
    with connect_worker("w1", "connect", *where):
        assert scene.wire.codes("w1", rounds) == rounds
        for name in ("w2", "w3", "w4"):
            with connect_worker(name, "connect", *where) as worker:
                rounds += [1, 0]
                assert scene.wire.codes("w1", rounds) == rounds
            rounds += [1, 0]
            assert scene.wire.codes("w1", rounds) == rounds
            left = [6, 0] if has_stopped(worker) else []
            assert scene.wire.codes(name, [2, 0, *left]) == [2, 0, *left]
            if left:
                break
    assert left
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
