"""Kill -9 at random moments, under load: nothing that was on disk is lost, nothing is doubled.

``make faults`` runs 100 rounds; ``FAULT_ROUNDS`` sets how many.
"""

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pyarrow.dataset as ds
import pytest

from agent.processes.ports import free_port
from tests.aggregation.spark.conftest import QUICK_JVM
from tests.faults.agent_process import AgentProcess, replayed, transitions, until
from tests.faults.loaded_log import LoadedLog
from tests.faults.scripted_clients import ScriptedClients

_ROUNDS = int(os.environ.get("FAULT_ROUNDS", "5"))
_START_S_MAX, _LIFE_S_MAX = 1.0, 2.5
"""Before it is ready, and after some commits."""

pytestmark = pytest.mark.timeout(300 + 60 * _ROUNDS)


def _kill_at_random_moments(agent: AgentProcess, killed: Callable[[int], None]) -> None:
    chance = random.Random(12472)
    for number in range(_ROUNDS):
        if number % 3 == 1:
            agent.start()
            Event().wait(chance.uniform(0.0, _START_S_MAX))
        else:
            agent.start_ready()
            Event().wait(chance.uniform(0.0, _LIFE_S_MAX))
        agent.kill()
        killed(number)
    agent.start_ready()


@pytest.mark.spark
def test_logs_reach_spool_hub_and_tables_once(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    hub = AgentProcess(tmp_path / "hub", "role: hub\n")
    sources = f"sources: [{{type: logs, paths: [{log}]}}]\n"
    push = f"hub: {{push_to: ['http://{hub.address}'], interval: 200ms}}\n"
    agent = AgentProcess(tmp_path / "agent", sources + push)

    def kill_the_hub_too(number: int) -> None:
        if number % 2:
            hub.kill()
            hub.start()

    with hub, agent:
        hub.start_ready()
        with LoadedLog(log) as load:
            _kill_at_random_moments(agent, kill_the_hub_too)
        rebalances = "kafka_consumer_rebalances_total"
        until(lambda: agent.total(rebalances) == load.rounds, "every rebalance read")
        got = replayed(log)
        until(lambda: len(transitions(hub.on_disk())) >= len(got), "every record at the hub")
        assert (agent.drain(), hub.drain()) == (0, 0)

    assert len(got) == 2 * load.rounds
    assert transitions(agent.published()) == got
    assert transitions(hub.published()) == got
    assert _in_tables(hub.spool, tmp_path) == got


def test_what_the_wire_told_stays_on_disk_once(tmp_path: Path) -> None:
    port = free_port()
    safe = set[str]()
    with ScriptedClients(port) as clients:
        source = f"{{type: proxy, listen: '127.0.0.1:{port}', upstream: ['{clients.broker}']}}"
        agent = AgentProcess(tmp_path / "agent", f"sources: [{source}]\n")
        with agent:
            _kill_at_random_moments(
                agent, lambda _: safe.update(row["id"] for row in agent.on_disk())
            )
            lives = clients.lives
            until(lambda: clients.lives > lives + 3, "clients that come through again")
            assert agent.drain() == 0

    rows = agent.published()
    assert safe
    assert safe <= {row["id"] for row in rows}
    assert max(Counter(row["id"] for row in rows).values()) == 1
    moved = Counter(
        (row["client_id"], row["ts"], row["from"], row["to"])
        for row in rows
        if row["kind"] == "transition"
    )
    assert max(moved.values()) == 1


def _in_tables(spool: Path, folder: Path) -> list[str]:
    tables = folder / "tables"
    command = [sys.executable, "-P", "-m", "agent", "ingest", "--once"]
    environment = os.environ | {"JAVA_TOOL_OPTIONS": QUICK_JVM, "TMPDIR": str(folder)}
    subprocess.run(
        [*command, "--from", spool, "--tables", tables],
        check=True,
        capture_output=True,
        env=environment,
    )
    rows = ds.dataset(tables / "transitions", partitioning="hive").to_table(["id", "kind"])
    return transitions(rows.to_pylist())
