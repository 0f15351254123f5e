"""Clients' logs and their broker's, read by one agent: the clients' own words decide."""

import json
import socket
import time
import urllib.request
from collections.abc import Iterator

import pytest

from agent.lab.clients import Clients
from agent.lab.lab import Lab
from agent.processes.driver import Driver
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(600)]

_COOPERATIVE = {
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
}
_NEW_PROTOCOL = {"group.protocol": "consumer"}
_WITHIN_S = 30.0


class Scene:
    """One agent reads the clients' logs and the broker's, another the clients' alone."""

    def __init__(self, lab: Lab, clients: Clients, both: Observer, logs: Observer) -> None:
        self.admin, self.clients = lab.admin, clients
        self.both, self.logs = both, logs

    def join(self, client_id: str, group: str, properties: dict[str, str]) -> Driver:
        """Start a member and wait until it has its first partitions."""
        client = self.clients.consumer("4.3.0", client_id, group, [f"{group}-in"], properties)
        client.wait_for(f"assigned {group}-in")
        return client

    def codes(self, client_id: str, least: int) -> list[int]:
        """Return the codes by the client's log alone; both logs together must give the same."""
        codes = self.logs.settled(client_id, least)
        assert self.both.codes(client_id, codes) == codes
        return codes

    def assert_members(self, group: str, wanted: list[str]) -> None:
        """The agent that reads both shows each member once, by its own name."""
        end_s, seen = time.monotonic() + _WITHIN_S, list[str]()
        while seen != wanted and time.monotonic() < end_s:
            time.sleep(0.1)
            url = f"{self.both.url}/api/v1/members?group={group}"
            with urllib.request.urlopen(url, timeout=_WITHIN_S) as answer:
                seen = sorted(row["client_id"] for row in json.load(answer))
        assert seen == wanted

    def assert_names(self, group: str, wanted: set[str]) -> None:
        """No record tells of a member by another name."""
        assert {row["client_id"] for row in self.both._rows() if row["group"] == group} == wanted


@pytest.fixture(scope="module")
def scene(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("client_and_broker")
    logs = folder / "clients"
    sources = [
        f'{{type: logs, paths: ["{logs}/*.log"]}}',
        f"{{type: broker_log, paths: [{str(lab.cluster.brokers[0].log)!r}]}}",
    ]
    both = Observer(logs, folder / "both", "\n  - ".join(sources))
    alone = Observer(logs, folder / "alone")
    with both, alone, lab.clients(logs) as clients:
        for agent in (both, alone):
            agent.wait_ready()
        scene = Scene(lab, clients, both, alone)
        lab.admin.do("create-topic early-in 1")
        scene.join("early", "early", {})  # it sees the coordinator load
        own = {"client_id": "early", "host": socket.gethostname()}
        assert both.gauge("kafka_consumer_rebalance_status", 0.0, **own) == 0.0
        yield scene


def test_cooperative_members_one_of_them_static(scene: Scene) -> None:
    scene.admin.do("create-topic coop-in 4")
    first = scene.join("k1", "coop", _COOPERATIVE | {"group.instance.id": "i1"})
    second = scene.join("k2", "coop", _COOPERATIVE)
    scene.assert_members("coop", ["k1", "k2"])
    second.close()
    first.wait_for("assigned")

    assert scene.codes("k1", 5) == [1, 10, 0, 1, 0]
    assert scene.codes("k2", 4)[-2:] == [6, 0]  # whether it syncs between is a race
    scene.assert_names("coop", {"k1", "k2"})


def test_members_of_the_new_protocol(scene: Scene) -> None:
    scene.admin.do("create-topic epochs-in 4")
    first = scene.join("n1", "epochs", _NEW_PROTOCOL)
    scene.join("n2", "epochs", _NEW_PROTOCOL | {"group.instance.id": "i2"})
    first.wait_for("assigned")

    assert scene.codes("n1", 5) == [2, 0, 1, 10, 0]
    assert scene.codes("n2", 4)[:2] == [2, 0]
    scene.assert_members("epochs", ["n1", "n2"])
    scene.assert_names("epochs", {"n1", "n2"})
