"""A capture that is told one broker's port follows groups to the others'."""

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from agent.lab.broker import Cluster
from agent.lab.clients import Clients
from tests.net_raw import needs_net_raw
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(300), needs_net_raw]

_TOPIC = "elsewhere"
_GROUPS = 20
_WITHIN_S = 60.0


@pytest.fixture
def cluster(cache: Path, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "lab", cache, brokers=2) as cluster:
        yield cluster


def test_a_group_is_followed_to_a_coordinator_at_another_port(
    cluster: Cluster, cache: Path, tmp_path: Path
) -> None:
    bootstrap, other = cluster.brokers
    group = _group_at(other.node.port, bootstrap.address)
    source = f"{{type: capture, interface: any, ports: [{bootstrap.node.port}]}}"
    with ExitStack() as stack:
        capture = stack.enter_context(Observer(tmp_path / "none", tmp_path / "capture", source))
        capture.wait_ready()
        clients = stack.enter_context(Clients(bootstrap.address, tmp_path / "clients", cache))
        first = clients.consumer("4.3.0", "m1", group, [_TOPIC])
        first.wait_for("assigned")
        second = clients.consumer("3.9.1", "m2", group, [_TOPIC])
        second.wait_for("assigned")
        first.wait_for("assigned")
        first.close()
        second.wait_for("assigned")

        assert capture.closed("m1")[-4:] == [1, 0, 6, 0]  # whether its join was seen, or too early
        assert capture.codes("m2", [2, 0, 1, 0]) == [2, 0, 1, 0]


def _group_at(port: int, bootstrap: str) -> str:
    """Return the name of a group that the broker at a port coordinates, once it does."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline_s = time.monotonic() + _WITHIN_S
    for number in itertools.count():
        name = f"g{number % _GROUPS}"
        with suppress(KafkaException):  # the coordinators load
            if admin.describe_consumer_groups([name])[name].result().coordinator.port == port:
                return name
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    raise AssertionError
