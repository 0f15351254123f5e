"""Codes 10-13: real Kafka Streams applications, seen as instances, from logs and on the wire."""

from collections.abc import Mapping

import pytest

from agent.processes.driver import Driver
from tests.net_raw import needs_net_raw
from tests.system.observer import STREAMS, Observer
from tests.system.stage import Stage

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900), needs_net_raw]


def _run(
    stage: Stage, version: str, client_id: str, properties: Mapping[str, str] | None = None
) -> Driver:
    instance = stage.clients.streams(version, client_id, stage.group, stage.topic, properties)
    instance.wait_for("state RUNNING")
    return instance


def _assert_status(
    stage: Stage, agent: Observer, client_id: str, wanted: float, suffix: str = ""
) -> None:
    name = f"kafka_streams_rebalance_status{suffix}"
    labels = {"application_id": stage.group, "client_id": client_id}
    assert agent.gauge(name, wanted, **labels) == wanted


def _assert_seen(
    stage: Stage, wire: Observer, client_id: str, codes: list[int], status: float = 0.0
) -> None:
    for agent in (stage.agent, wire):
        assert agent.codes(client_id, codes, STREAMS) == codes
        _assert_status(stage, agent, client_id, status)
        _assert_status(stage, agent, client_id, max(codes), "_peak")
        name = "kafka_app_rebalance_status"  # the application: the max of its instances
        assert agent.gauge(name, status, app=stage.group) == status
        agent.stop()
        assert agent.codes(client_id, codes, STREAMS) == codes


def test_10_revocation_needed_when_tasks_move(stage: Stage, wire: Observer) -> None:
    _run(stage, "3.9.1", "s1")

    _run(stage, "3.9.1", "s2")

    _assert_seen(stage, wire, "s1", [2, 0, 1, 10, 0])


def test_11_assignment_probing_while_a_warm_up_runs(stage: Stage, wire: Observer) -> None:
    """The instance waits for its probing rebalance while its consumer is settled and works."""
    catching_up = {"acceptable.recovery.lag": "0"}
    stage.lab.admin.do(f"produce {stage.topic} 1000")
    _run(stage, "4.3.0", "s1", catching_up)
    stage.lab.admin.do(f"await {stage.group}-counts-changelog 1000")

    _run(stage, "4.3.0", "s2", catching_up)

    gauge, consumer = "kafka_consumer_rebalance_status", "s1-StreamThread-1-consumer"
    for agent in (stage.agent, wire):
        _assert_status(stage, agent, "s1", 11.0)
        assert agent.gauge(gauge, 0.0, client_id=consumer) == 0.0
    _assert_seen(stage, wire, "s1", [2, 0, 1, 0, 11], status=11.0)


def test_12_version_probing_beside_an_older_version(stage: Stage, wire: Observer) -> None:
    _run(stage, "2.8.2", "s1")

    _run(stage, "3.9.1", "s2")

    _assert_seen(stage, wire, "s2", [2, 12, 0])


def test_13_endpoint_update_when_application_server_changed(stage: Stage, wire: Observer) -> None:
    """Only a static member comes back to an assignment that still tells its old endpoint."""
    static = {"group.instance.id": "i1", "consumer.session.timeout.ms": "120000"}
    first = _run(stage, "3.4.1", "s1", static | {"application.server": "localhost:8001"})
    first.close()

    _run(stage, "3.4.1", "s1", static | {"application.server": "localhost:9001"})

    _assert_seen(stage, wire, "s1", [13, 0])
