"""Wire and logs give the same codes: two agents beside the same clients, one of them captures."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.lab.lab import Lab
from agent.processes.driver import Driver
from tests.net_raw import needs_net_raw
from tests.system.observer import Observer
from tests.system.stage import Stage

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900), needs_net_raw]

_STATUS = "kafka_consumer_rebalance_status"
_COOPERATIVE = {
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
}
Watch = Callable[[], Observer]


@pytest.fixture(scope="module")
def _warm(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have the lab's coordinator loaded: the first group of all can see it load (9)."""
    lab.admin.do("create-topic warm 1")
    with lab.clients(tmp_path_factory.mktemp("warm")) as clients:
        clients.consumer("4.3.0", "warm", "warm", ["warm"]).wait_for("assigned")


@pytest.fixture
def watch(_warm: None, stage: Stage, tmp_path: Path) -> Iterator[Watch]:
    """Starts capturing when it is called."""
    port = stage.lab.cluster.brokers[0].node.port
    observers: list[Observer] = []

    def start() -> Observer:
        source = f"{{type: capture, interface: any, ports: [{port}]}}"
        observer = Observer(tmp_path / "none", tmp_path / "capture", source)
        observers.append(observer)
        observer.wait_ready()
        return observer

    yield start
    for observer in observers:
        observer.stop()


def _join(stage: Stage, client_id: str, properties: dict[str, str] | None = None) -> Driver:
    client = stage.clients.consumer("4.3.0", client_id, stage.group, [stage.topic], properties)
    client.wait_for("assigned")
    return client


def _assert_alike(stage: Stage, capture: Observer, wanted: dict[str, list[int]]) -> None:
    """Spool and metrics of both agents hold exactly these codes."""
    for client_id, codes in wanted.items():
        for agent in (stage.agent, capture):
            assert agent.codes(client_id, codes) == codes
    both = (stage.agent, capture)  # of members that are not named, one may know more for a while
    pages = capture.poll(
        lambda: [_entries(agent, stage.group) for agent in both],
        lambda seen: seen[0] == seen[1],
    )
    assert pages[0] == pages[1]
    for agent in (stage.agent, capture):
        agent.stop()
        for client_id, codes in wanted.items():
            assert agent.codes(client_id, codes) == codes


def _entries(agent: Observer, group: str) -> list[float | None]:
    name = "kafka_consumer_rebalance_transitions_total"
    labels = ("CoordinatorRequested", "NewMember", "DroppedGroup", "UserRequested")
    return [agent.counter(name, group=group, status=label) for label in labels]


def test_a_second_member_joins_and_closes(stage: Stage, watch: Watch) -> None:
    capture = watch()
    first = _join(stage, "m1")
    second = _join(stage, "m2")
    first.wait_for("assigned")

    second.close()

    first.wait_for("assigned")
    _assert_alike(stage, capture, {"m1": [2, 0, 1, 0, 1, 0], "m2": [2, 0, 6, 0]})


def test_the_poll_interval_expires(stage: Stage, watch: Watch) -> None:
    capture = watch()
    slow = _join(stage, "m1", {"max.poll.interval.ms": "2000"})

    slow.do("stall 4000")

    slow.wait_for("assigned")
    _assert_alike(stage, capture, {"m1": [2, 0, 5, 0]})


def test_partitions_move_cooperatively(stage: Stage, watch: Watch) -> None:
    capture = watch()
    _join(stage, "m1", _COOPERATIVE)

    second = stage.clients.consumer("4.3.0", "m2", stage.group, [stage.topic], _COOPERATIVE)

    second.wait_for("assigned topic")
    _assert_alike(stage, capture, {"m1": [2, 0, 1, 10, 0]})


def test_a_capture_that_begins_in_mid_stream_goes_on_from_there(stage: Stage, watch: Watch) -> None:
    # A client whose metadata is due keeps its leave back until its next poll, and the group would
    # see it leave and come back at once.
    hurried = {"max.poll.interval.ms": "3500", "metadata.max.age.ms": "300000"}
    first = _join(stage, "m1", hurried)
    capture = watch()
    assert capture.gauge(_STATUS, 0.0, client_id="m1") == 0.0

    second = _join(stage, "m2", hurried)

    first.wait_for("assigned")
    second.do("stall 8000")  # it is out after 3.5 s
    first.wait_for("assigned")  # it is alone
    second.wait_for("assigned")
    first.wait_for("assigned")  # the second one is back
    second.close()
    first.wait_for("assigned")  # else its leave crosses the sync's answer: 1, 6 in the log alone
    first.close()
    assert stage.agent.closed("m2")[:4] == [2, 0, 5, 0]
    for client_id, missed in (("m1", [2, 0]), ("m2", [])):
        assert missed + capture.closed(client_id) == stage.agent.closed(client_id)
