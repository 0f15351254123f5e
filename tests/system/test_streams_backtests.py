"""Proposals for Streams applications, compared with real ones that have the proposed setting.

The truth is in the instances' own logs: a task has no reader from the close of the instance that
had it until the other one is assigned it.
"""

import re
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pytest

from agent.lab.broker import Cluster
from agent.lab.clients import Clients
from aggregation.counterfactuals.change import Change, PastIncidents
from aggregation.counterfactuals.facts import IncidentFacts
from aggregation.counterfactuals.membership_rules import (
    propose_leave_on_close,
    propose_probing_interval,
)
from tests.system.backtests import UNREAD_OFF_S, UNREAD_SHARE, read_incidents
from tests.system.live_scene import until
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.field, pytest.mark.timeout(900)]

VERSION = "3.9.1"
"""Streams from 4.2 on has an argument of its close instead."""
PARTITIONS = 6
HEARTBEAT_S = 0.5
"""Short, as one close meets any part of its interval."""
TIMES = {
    "consumer.session.timeout.ms": "8000",
    "consumer.heartbeat.interval.ms": f"{1000 * HEARTBEAT_S:.0f}",
}
_TIME = re.compile(r"^\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})", re.MULTILINE)


def settings_of(change: Change, client: str) -> dict[str, str]:
    """Return the lines to paste for a client, without comments."""
    lines = dict(change.lines)[client].splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def find_time(log: Path, text: str, since: float = 0.0) -> float | None:
    """Return when a log first has a line with a text, from a time on."""
    for line in log.read_text().splitlines():
        found = _TIME.match(line)
        if found is None or text not in line:
            continue
        at = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
        if at >= since:
            return at
    return None


def close_one_of_two(
    folder: Path, cache: Path, settings: Mapping[str, str]
) -> tuple[tuple[IncidentFacts, ...], int, float]:
    """Close an instance for good; return incidents, rebalances, and the wait by the logs."""
    logs = folder / "clients"
    with (
        Cluster(folder, cache) as cluster,
        Clients(cluster.bootstrap, logs, cache) as clients,
        Observer(logs, folder / "agent", f'{{type: logs, paths: ["{logs}/*.log"]}}', "standalone"),
    ):
        clients.admin().do(f"create-topic words {PARTITIONS}")
        for name in ("s1", "s2"):
            instance = clients.streams(VERSION, name, "counter", "words", settings)
            instance.wait_for("state RUNNING")
        rest(6.0)
        since = time.time()
        instance.close()
        left = logs / "s1.log"
        closed = until(lambda: find_time(logs / "s2.log", "to PENDING_SHUTDOWN"), "a close")
        taken = until(
            lambda: find_time(left, "Adding newly assigned partitions", since),
            "its tasks elsewhere",
        )
        found, rebalances = read_incidents(folder / "agent" / "spool", "counter", since - 1.0)
    return found, rebalances, taken - closed


def rest(seconds: float) -> None:
    """Let rounds that follow the start end."""
    end = time.time() + seconds
    until(lambda: time.time() > end or None, "the end of a rest")


def test_instance_that_leaves_is_not_waited_for(cache: Path, tmp_path: Path) -> None:
    """Half of the tasks wait for the session timeout, then for a heartbeat and a rebalance."""
    incidents, rebalances, waited_s = close_one_of_two(tmp_path / "first", cache, TIMES)
    change = propose_leave_on_close(PastIncidents(incidents, incidents), HEARTBEAT_S)
    assert change is not None, incidents
    recorded = sum(each.unread_s or 0.0 for each in incidents)
    assert recorded == pytest.approx(PARTITIONS / 2 * waited_s, rel=UNREAD_SHARE)
    predicted = recorded - (change.unread_avoided_s or 0.0)

    _, rebalances_then, waited_then_s = close_one_of_two(
        tmp_path / "second", cache, TIMES | settings_of(change, "Streams")
    )

    happened = PARTITIONS / 2 * waited_then_s
    assert waited_s > 4.0 > waited_then_s
    assert predicted == pytest.approx(happened, rel=UNREAD_SHARE, abs=UNREAD_OFF_S)
    assert rebalances - change.rebalances_avoided == pytest.approx(rebalances_then, abs=1)


def probe(folder: Path, cache: Path, interval_s: float) -> tuple[tuple[IncidentFacts, ...], int]:
    """Let an instance join that warms up one task at a time; return incidents and probes."""
    logs = folder / "clients"
    settings = {
        "acceptable.recovery.lag": "0",
        "max.warmup.replicas": "1",
        "probing.rebalance.interval.ms": f"{1000 * interval_s:.0f}",
    }
    with (
        Cluster(folder, cache) as cluster,
        Clients(cluster.bootstrap, logs, cache) as clients,
        Observer(logs, folder / "agent", f'{{type: logs, paths: ["{logs}/*.log"]}}', "standalone"),
    ):
        admin = clients.admin()
        admin.do(f"create-topic words {PARTITIONS}")
        admin.do("produce words 1000")
        clients.streams(VERSION, "s1", "counter", "words", settings).wait_for("state RUNNING")
        rest(6.0)
        since = time.time()
        clients.streams(VERSION, "s2", "counter", "words", settings).wait_for("state RUNNING")
        for _ in range(PARTITIONS // 2):
            rest(interval_s / 2)
            rest(interval_s / 2)
        rest(interval_s / 2)
        found, _ = read_incidents(folder / "agent" / "spool", "counter", since - 1.0)
    return found, sum(each.probes for each in found)


@pytest.mark.timeout(1500)
def test_probes_that_move_tasks_are_as_many_at_a_longer_interval(
    cache: Path, tmp_path: Path
) -> None:
    incidents, probes = probe(tmp_path / "first", cache, 60.0)
    assert probes == PARTITIONS // 2
    assert propose_probing_interval(PastIncidents(incidents, incidents)) is None

    assert probe(tmp_path / "second", cache, 120.0)[1] == probes
