"""Codes 10-13: real Kafka Streams applications, seen as instances."""

from collections.abc import Mapping

import pytest

from agent.lab.process import Driver
from tests.system.observer import STREAMS
from tests.system.stage import Stage

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]


def _run(
    stage: Stage, version: str, client_id: str, properties: Mapping[str, str] | None = None
) -> Driver:
    instance = stage.clients.streams(version, client_id, stage.group, stage.topic, properties)
    instance.wait_for("state RUNNING")
    return instance


def _status(stage: Stage, client_id: str, wanted: float, suffix: str = "") -> float | None:
    name = f"kafka_streams_rebalance_status{suffix}"
    return stage.agent.gauge(name, wanted, application_id=stage.group, client_id=client_id)


def _assert_seen(stage: Stage, client_id: str, codes: list[int], status: float = 0.0) -> None:
    assert stage.agent.codes(client_id, codes, STREAMS) == codes
    assert _status(stage, client_id, status) == status
    assert _status(stage, client_id, max(codes), "_peak") == max(codes)
    stage.agent.stop()
    assert stage.agent.codes(client_id, codes, STREAMS) == codes


def test_10_revocation_needed_when_tasks_move(stage: Stage) -> None:
    _run(stage, "3.9.1", "s1")

    _run(stage, "3.9.1", "s2")

    _assert_seen(stage, "s1", [2, 0, 1, 10, 0])


def test_11_assignment_probing_while_a_warm_up_runs(stage: Stage) -> None:
    """The instance waits for its probing rebalance while its consumer is settled and works."""
    catching_up = {"acceptable.recovery.lag": "0"}
    stage.lab.admin.do(f"produce {stage.topic} 1000")
    _run(stage, "4.3.0", "s1", catching_up)
    stage.lab.admin.do(f"await {stage.group}-counts-changelog 1000")

    _run(stage, "4.3.0", "s2", catching_up)

    assert _status(stage, "s1", 11.0) == 11.0
    consumer = "s1-StreamThread-1-consumer"
    gauge = "kafka_consumer_rebalance_status"
    assert stage.agent.gauge(gauge, 0.0, client_id=consumer) == 0.0
    _assert_seen(stage, "s1", [2, 0, 1, 0, 11], status=11.0)


def test_12_version_probing_beside_an_older_version(stage: Stage) -> None:
    _run(stage, "2.8.2", "s1")

    _run(stage, "3.9.1", "s2")

    _assert_seen(stage, "s2", [2, 12, 0])


def test_13_endpoint_update_when_application_server_changed(stage: Stage) -> None:
    """Only a static member comes back to an assignment that still tells its old endpoint."""
    static = {"group.instance.id": "i1", "consumer.session.timeout.ms": "120000"}
    first = _run(stage, "3.4.1", "s1", static | {"application.server": "localhost:8001"})
    first.close()

    _run(stage, "3.4.1", "s1", static | {"application.server": "localhost:9001"})

    _assert_seen(stage, "s1", [13, 0])
