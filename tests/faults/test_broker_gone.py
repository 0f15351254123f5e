"""Brokers that crash one after the other, the group's coordinator among them, behind the proxy."""

import json
import os
from pathlib import Path

import pytest

from agent.lab.broker import Cluster
from agent.lab.clients import Clients
from agent.processes.ports import HOST, free_port
from tests.faults.agent_process import AgentProcess

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.jvm,
    pytest.mark.timeout(900),
    pytest.mark.skipif("FAULT_ROUNDS" not in os.environ, reason="a part of make faults alone"),
]

_WITHIN_S = 120.0


def test_rounds_go_on_and_are_told_while_each_broker_in_turn_is_gone(
    cache: Path, tmp_path: Path
) -> None:
    port = free_port()
    with Cluster(tmp_path / "cluster", cache, brokers=3) as cluster:
        with Clients(cluster.bootstrap, tmp_path / "admin", cache) as operators:
            operators.admin().do("create-topic moved 4", _WITHIN_S)
        upstream = json.dumps(cluster.bootstrap.split(","))
        source = f"{{type: proxy, listen: '{HOST}:{port}', upstream: {upstream}}}"
        with (
            AgentProcess(tmp_path / "agent", f"sources: [{source}]\n") as agent,
            Clients(f"{HOST}:{port}", tmp_path / "clients", cache) as clients,
        ):
            agent.start_ready()
            member = clients.consumer("3.9.1", "m1", "moved", ["moved"])
            member.wait_for("assigned", _WITHIN_S)
            for broker in cluster.brokers:  # whichever coordinates, it moves at least once
                broker.kill()
                member.do("enforce a round without it", _WITHIN_S)
                member.wait_for("assigned", _WITHIN_S)
                assert agent.is_ready()
                broker.restart()
            member.close(_WITHIN_S)
            assert agent.drain() == 0

    rows = [row for row in agent.published() if row["kind"] in {"transition", "signal"}]
    got = [row["to"] for row in rows if row["kind"] == "transition"]
    # Where the client's join met a lost connection that is its reason, which is no cause: the round
    # is recorded as a signal, "joined without a visible cause".
    rounds = {row["generation"] for row in rows} - {None}
    assert len(rounds) >= 1 + len(cluster.brokers)
    assert got[-1] == 0
    assert "Traceback" not in agent.log.read_text()
