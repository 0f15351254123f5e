"""A capture on a link that loses, repeats and reorders packets gives the same codes as others."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agent.lab.broker import Cluster, NodePorts
from agent.lab.clients import Clients
from agent.processes.ports import HOST, free_port
from tests.net_raw import needs_net_raw
from tests.system.bad_link import BadLink
from tests.system.observer import CONSUMER, STREAMS, Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900), needs_net_raw]

PARTITIONS = 4
_SEED = 12472


class Scene:
    """A broker here, clients and agents at the other end of the link."""

    def __init__(self, folder: Path, cache: Path, link: BadLink, stack: ExitStack) -> None:
        self.link, self.port = link, free_port()
        cluster = stack.enter_context(Cluster(folder / "lab", cache, extra=self._listener))
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        self.bootstrap = f"{self.link.near}:{self.port}"
        warm = consumer(cluster.bootstrap, "warm", self.topic("warm"))
        share(warm)  # the first group of all can see its coordinator load (9)
        warm.close()

    def topic(self, name: str) -> str:
        self._admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result()
        return name

    def _listener(self, node: NodePorts) -> dict[str, str]:
        plain, link = f"PLAINTEXT://{HOST}:{node.port}", f"LINK://{self.link.near}:{self.port}"
        return {
            "listeners": f"{plain},{link},CONTROLLER://{HOST}:{node.controller_port}",
            "advertised.listeners": f"{plain},{link}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LINK:PLAINTEXT"
            ),
            "group.streams.heartbeat.interval.ms": "1000",
            "group.streams.min.heartbeat.interval.ms": "1000",
        }


def consumer(bootstrap: str, client_id: str, topic: str) -> Consumer:
    """Return a librdkafka consumer; the topic names its group."""
    named = {"bootstrap.servers": bootstrap, "client.id": client_id, "group.id": topic}
    consumer = Consumer(named | {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 1_000})
    consumer.subscribe([topic])
    return consumer


def share(*consumers: Consumer) -> None:
    """Poll until the partitions of the topic are shared by all."""
    while True:
        for each in consumers:
            each.poll(0.05)
        shares = [len(each.assignment()) for each in consumers]
        if sum(shares) == PARTITIONS and all(shares):
            return


@pytest.fixture(scope="module")
def link() -> Iterator[BadLink]:
    try:
        link = BadLink(_SEED)
    except OSError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"CAP_NET_ADMIN or CAP_SYS_ADMIN is missing: {error}")
    with link:
        yield link


@pytest.fixture(scope="module")
def scene(cache: Path, link: BadLink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(tmp_path_factory.mktemp("link"), cache, link, stack)


@pytest.fixture
def away(scene: Scene) -> Iterator[Scene]:
    """Be at the far end of the link."""
    with scene.link.inside():
        yield scene


@pytest.fixture
def capture(away: Scene, tmp_path: Path) -> Iterator[Observer]:
    source = f"{{type: capture, interface: any, ports: [{away.port}]}}"
    with Observer(tmp_path / "none", tmp_path / "capture", source) as observer:
        observer.wait_ready()
        yield observer


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Observer]:
    with Observer(tmp_path / "clients", tmp_path / "logs") as observer:
        observer.wait_ready()
        yield observer


@pytest.fixture
def clients(away: Scene, cache: Path, tmp_path: Path) -> Iterator[Clients]:
    with Clients(away.bootstrap, tmp_path / "clients", cache) as clients:
        yield clients


def _settled(
    one: Observer, other: Observer, client_id: str, scope: str, least: int
) -> list[list[int]]:
    """Return the codes of both agents, when they are the same, end with 0, and are enough."""
    return one.poll(
        lambda: [agent._codes(client_id, scope) for agent in (one, other)],
        lambda both: both[0] == both[1] and len(both[0]) >= least and both[0][-1] == 0,
    )


def _assert_alike(scene: Scene, one: Observer, other: Observer, least: dict[str, int]) -> None:
    """Both told the same, at least so many codes, through faults of the link."""
    scope = STREAMS if "s1" in least else CONSUMER
    for client_id, count in least.items():
        mine, others = _settled(one, other, client_id, scope, count)
        assert mine == others
        assert len(mine) >= count
    one.stop()
    other.stop()
    for client_id in least:  # a link may have added rounds meanwhile
        assert one._codes(client_id, scope) == other._codes(client_id, scope)
    assert scene.link.faults.total() > 0


def test_kip_848_consumers_join_and_leave(
    away: Scene, capture: Observer, logs: Observer, clients: Clients
) -> None:
    topic = away.topic("kip848")
    new = {"group.protocol": "consumer"}
    first = clients.consumer("4.3.0", "m1", "kip848", [topic], new)
    first.wait_for("assigned kip848")
    second = clients.consumer("4.3.0", "m2", "kip848", [topic], new)
    second.wait_for("assigned kip848")
    for agent in (logs, capture):
        agent.settled("m2", 4)  # one that leaves before it is answered has settled for its log only
    second.close()
    first.wait_for("assigned kip848")

    _assert_alike(away, logs, capture, {"m1": 7, "m2": 4})


_LEAST = [("classic", (5, 2)), ("streams", (7, 4))]
"""The second one's first sync may cross what the first one gives up: then one round has it all."""


@pytest.mark.parametrize(("protocol", "least"), _LEAST)
def test_a_streams_application_moves_its_tasks(
    away: Scene,
    capture: Observer,
    logs: Observer,
    clients: Clients,
    protocol: str,
    least: tuple[int, int],
) -> None:
    app = away.topic(f"app-{protocol}")
    for client_id in ("s1", "s2"):
        instance = clients.streams("4.3.0", client_id, app, app, {"group.protocol": protocol})
        instance.wait_for("state RUNNING")

    _assert_alike(away, logs, capture, {"s1": least[0], "s2": least[1]})


def test_librdkafka_is_seen_as_by_the_proxy(away: Scene, capture: Observer, tmp_path: Path) -> None:
    topic, address = away.topic("rdkafka"), f"{HOST}:{free_port()}"
    source = f"{{type: proxy, listen: {address!r}, upstream: [{away.bootstrap!r}]}}"
    with Observer(tmp_path / "none", tmp_path / "proxy", source) as proxy:
        proxy.wait_ready()
        first = consumer(address, "c1", topic)
        share(first)
        second = consumer(address, "c2", topic)
        share(first, second)
        second.close()
        share(first)
        first.close()

        _assert_alike(away, proxy, capture, {"c1": 8, "c2": 4})
