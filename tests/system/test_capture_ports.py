"""A capture that is told one broker's port follows groups to the others'."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from agent.lab.broker import Broker, Cluster
from agent.lab.clients import Clients
from tests.net_raw import needs_net_raw
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(300), needs_net_raw]

_TOPIC, _GROUP = "elsewhere", "here"


@pytest.fixture
def cluster(cache: Path, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "lab", cache, brokers=2) as cluster:
        yield cluster


def test_a_group_is_followed_to_a_coordinator_at_another_port(
    cluster: Cluster, cache: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        before = stack.enter_context(Clients(cluster.bootstrap, tmp_path / "before", cache))
        before.consumer("4.3.0", "m0", _GROUP, [_TOPIC]).wait_for("assigned")
        coordinator = _coordinator(cluster)
        bootstrap = next(each for each in cluster.brokers if each is not coordinator)
        source = f"{{type: capture, interface: any, ports: [{bootstrap.node.port}]}}"
        capture = stack.enter_context(Observer(tmp_path / "none", tmp_path / "capture", source))
        capture.wait_ready()
        clients = stack.enter_context(Clients(bootstrap.address, tmp_path / "clients", cache))
        first = clients.consumer("4.3.0", "m1", _GROUP, [_TOPIC])
        first.wait_for("assigned")
        second = clients.consumer("3.9.1", "m2", _GROUP, [_TOPIC])
        second.wait_for("assigned")
        first.wait_for("assigned")
        first.close()
        second.wait_for("assigned")

        assert capture.closed("m1")[-4:] == [1, 0, 6, 0]  # whether its join was seen, or too early
        assert capture.codes("m2", [2, 0, 1, 0]) == [2, 0, 1, 0]


def _coordinator(cluster: Cluster) -> Broker:
    """Return the broker that coordinates the group."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found = admin.describe_consumer_groups([_GROUP])[_GROUP].result().coordinator
    return next(each for each in cluster.brokers if each.node.port == found.port)
