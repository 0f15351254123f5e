"""A quiet fleet shows nothing, in its logs, its brokers' and on the wire: no false cause.

`make quiet` runs the long form; ``QUIET_MINUTES`` sets its length.
"""

import os
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.net_raw import needs_net_raw
from tests.system.observer import Observer
from tests.system.quiet_fleet import CONSUMERS, GROUPS, INSTANCES, QuietFleet

_MINUTES = float(os.environ.get("QUIET_MINUTES", "2"))
_LENGTH = timedelta(minutes=_MINUTES)
_AFTERMATH = timedelta(seconds=50)
"""After the last restart, longer than a session: who was lost in it would be missed by then."""
_SETTLED_S = 15.0
_PATIENCE_S = 240.0

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.jvm,
    pytest.mark.timeout(900 + int(_MINUTES * 60)),
    needs_net_raw,
]


def test_a_quiet_fleet_shows_nothing(cache: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        fleet = QuietFleet(tmp_path, cache, stack)
        ports = [broker.node.port for broker in fleet.cluster.brokers]
        capture = f"{{type: capture, interface: any, ports: {ports}}}"
        logs = [str(broker.log) for broker in fleet.cluster.brokers]
        brokers = Observer(
            tmp_path / "none", tmp_path / "brokers-agent", f"{{type: broker_log, paths: {logs}}}"
        )
        agents = [
            stack.enter_context(Observer(fleet.logs, tmp_path / "logs-agent")),
            stack.enter_context(Observer(tmp_path / "none", tmp_path / "wire-agent", capture)),
        ]
        for agent in (*agents, stack.enter_context(brokers)):
            agent.wait_ready()
        fleet.start()
        for agent in agents:
            _wait_until_settled(agent)
            _assert_all_at_zero(agent)
        _wait_until_settled(brokers)
        begun = datetime.now(UTC)

        _pass_until(begun + _LENGTH / 3)
        fleet.restart_the_brokers()
        _pass_until(max(begun + _LENGTH, datetime.now(UTC) + _AFTERMATH))

        for agent in agents:
            assert [row for row in _changes(agent) if _at(row) > begun] == []
            _assert_all_at_zero(agent)
        assert {row["group"] for row in brokers._rows()} == GROUPS
        assert [row for row in _changes(brokers) if _at(row) > begun] == []
    for log in ("old", "cooperative", "new", "next", *INSTANCES):
        assert "is unavailable or invalid" in (fleet.logs / f"{log}.log").read_text()


def _wait_until_settled(agent: Observer) -> None:
    """Nothing was recorded for a while."""
    end_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end_s:
        last = max((_at(row) for row in _changes(agent)), default=datetime.now(UTC))
        if (datetime.now(UTC) - last).total_seconds() > _SETTLED_S:
            break
        Event().wait(0.5)


def _assert_all_at_zero(agent: Observer) -> None:
    """Assert that every member is at 0, by its own client id: brokers do not log all of these."""
    threads = [f"{name}-StreamThread-{n}-consumer" for name in INSTANCES for n in (1, 2)]
    gauge = "kafka_consumer_rebalance_status"
    for client_id in [*CONSUMERS, *threads]:
        assert agent.gauge(gauge, 0.0, client_id=client_id) == 0.0
    for client_id in INSTANCES:
        assert agent.gauge("kafka_streams_rebalance_status", 0.0, client_id=client_id) == 0.0


def _changes(agent: Observer) -> list[dict[str, Any]]:
    """Return all that was recorded but the statuses of every minute."""
    return [row for row in agent._rows() if row["kind"] != "sample"]


def _pass_until(end: datetime) -> None:
    Event().wait((end - datetime.now(UTC)).total_seconds())


def _at(row: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(row["ts"])
