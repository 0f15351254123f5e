"""Clients' logs and their broker's, read by one agent: the clients' own words decide."""

import json
import time
import urllib.request
from collections.abc import Iterator

import pytest

from agent.lab.clients import Clients
from agent.lab.lab import Lab
from agent.lab.process import Driver
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

    def assert_alike(self, client_id: str, codes: list[int]) -> None:
        """Both agents have told exactly these codes."""
        for agent in (self.logs, self.both):
            assert agent.codes(client_id, codes) == codes

    def assert_members(self, group: str, wanted: list[str]) -> None:
        """The agent that reads both shows each member once, by its own name."""
        end_s, seen = time.monotonic() + _WITHIN_S, list[str]()
        while seen != wanted and time.monotonic() < end_s:
            time.sleep(0.1)
            url = f"{self.both._url}/api/v1/members?group={group}"
            with urllib.request.urlopen(url, timeout=5.0) as answer:
                seen = sorted(row["client_id"] for row in json.load(answer))
        assert seen == wanted


@pytest.fixture(scope="module")
def scene(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("client_and_broker")
    lab.admin.do("create-topic early-in 1")
    with lab.clients(folder / "early") as clients:  # it sees the coordinator load
        clients.consumer("4.3.0", "early", "early", ["early-in"]).wait_for("assigned")
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
        yield Scene(lab, clients, both, alone)


def test_cooperative_members_one_of_them_static(scene: Scene) -> None:
    scene.admin.do("create-topic coop-in 4")
    first = scene.join("k1", "coop", _COOPERATIVE | {"group.instance.id": "i1"})
    second = scene.join("k2", "coop", _COOPERATIVE)
    scene.assert_members("coop", ["k1", "k2"])
    second.close()
    first.wait_for("assigned")

    scene.assert_alike("k1", [1, 10, 0, 1, 0])
    scene.assert_alike("k2", [2, 0, 1, 0, 6, 0])


def test_members_of_the_new_protocol(scene: Scene) -> None:
    scene.admin.do("create-topic epochs-in 4")
    first = scene.join("n1", "epochs", _NEW_PROTOCOL)
    scene.join("n2", "epochs", _NEW_PROTOCOL | {"group.instance.id": "i2"})
    first.wait_for("assigned")

    scene.assert_alike("n1", [2, 0, 1, 10, 0])
    scene.assert_alike("n2", [2, 0, 1, 0])
    scene.assert_members("epochs", ["n1", "n2"])
