"""A member that is seen by its log and on the wire at once is one member, told once."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.lab.clients import Clients
from agent.lab.lab import Lab
from agent.processes.ports import HOST, free_port
from tests.net_raw import needs_net_raw
from tests.system.observer import CONSUMER, STREAMS, Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(600), needs_net_raw]

TRANSITIONS = "kafka_consumer_rebalance_transitions_total"
INFO = "kafka_consumer_member_info"


class Scene:
    """Clients behind a proxy; one agent sees them by every means, another by their logs alone."""

    def __init__(self, lab: Lab, folder: Path, cache: Path, stack: ExitStack) -> None:
        self.admin = lab.admin
        broker = lab.cluster.brokers[0].node
        bootstrap, logs = f"{HOST}:{free_port()}", folder / "clients"
        upstream = json.dumps(lab.cluster.bootstrap.split(","))
        sources = [
            f'{{type: logs, paths: ["{logs}/*.log"]}}',
            f"{{type: proxy, listen: {bootstrap!r}, upstream: {upstream}}}",
            f"{{type: capture, interface: any, ports: [{broker.port}]}}",
        ]
        self.every = stack.enter_context(Observer(logs, folder / "every", "\n  - ".join(sources)))
        self.log = stack.enter_context(Observer(logs, folder / "log"))
        self.clients = stack.enter_context(Clients(bootstrap, logs, cache))
        for agent in (self.every, self.log):
            agent.wait_ready()

    def topic(self, name: str) -> str:
        self.admin.do(f"create-topic {name} 4")
        return name

    def assert_alike(self, client_id: str, codes: list[int], scope: str = CONSUMER) -> None:
        """Both agents have told exactly these codes."""
        for agent in (self.log, self.every):
            assert agent.codes(client_id, codes, scope) == codes

    def assert_counted_once(self, client_id: str, group: str) -> None:
        """Both pages count the same, under the labels that the log gives."""
        named = {"client_id": client_id, "group": group}
        labels = named | {"host": socket.gethostname(), "status": "NewMember"}
        assert self.every.gauge(TRANSITIONS, 1.0, **labels) == 1.0
        assert self.every.counter(TRANSITIONS, **named) == self.log.counter(TRANSITIONS, **named)
        assert self.every.counter(INFO, client_id=client_id) == 1


@pytest.fixture(scope="module")
def scene(lab: Lab, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    lab.admin.do("create-topic first-of-all 1")
    with lab.clients(tmp_path_factory.mktemp("first")) as clients:  # it sees a coordinator load
        clients.consumer("4.3.0", "first", "first", ["first-of-all"]).wait_for("assigned")
    with ExitStack() as stack:
        yield Scene(lab, tmp_path_factory.mktemp("two"), cache, stack)


def test_java_consumers(scene: Scene) -> None:
    topic = scene.topic("two-java")
    first = scene.clients.consumer("4.3.0", "t1", "two", [topic])
    first.wait_for("assigned")
    second = scene.clients.consumer("4.3.0", "t2", "two", [topic])
    first.wait_for("assigned")
    second.wait_for("assigned")
    first.do("enforce new configuration")
    first.wait_for("assigned")
    second.wait_for("assigned")
    second.close()
    first.wait_for("assigned")
    first.close()

    scene.assert_alike("t1", [2, 0, 1, 0, 6, 0, 1, 0, 6, 0])
    scene.assert_alike("t2", [2, 0, 1, 0, 6, 0])
    for client_id in ("t1", "t2"):
        scene.assert_counted_once(client_id, "two")


def test_each_source_adds_what_the_other_cannot_tell(scene: Scene) -> None:
    """Client 2.8 logs no 2; on the wire its leave has no reason and therefore counts as a 6."""
    slow = scene.clients.consumer(
        "2.8.2", "t3", "slow", [scene.topic("two-slow")], {"max.poll.interval.ms": "2000"}
    )
    slow.wait_for("assigned")
    here = {"client_id": "t3", "host": socket.gethostname()}
    for agent in (scene.log, scene.every):  # a new log is found within seconds; then it names t3
        assert agent.gauge("kafka_consumer_rebalance_status", 0.0, **here) == 0.0

    slow.do("stall 4000")

    slow.wait_for("assigned")
    assert scene.every.codes("t3", [2, 0, 5, 0]) == [2, 0, 5, 0]
    assert scene.log.codes("t3", [5, 0]) == [5, 0]
    assert scene.every.counter(INFO, client_id="t3") == 1
    slow.close()


def test_streams_application(scene: Scene) -> None:
    client = scene.clients.streams("4.3.0", "t5", "two-app", scene.topic("two-counted"))
    client.wait_for("state RUNNING")

    scene.assert_alike("t5-StreamThread-1-consumer", [2, 0])
    scene.assert_alike("t5", [2, 0], STREAMS)
    scene.assert_counted_once("t5-StreamThread-1-consumer", "two-app")
    assert scene.every.counter("kafka_streams_rebalance_status", client_id="t5") == 0
    client.close()
