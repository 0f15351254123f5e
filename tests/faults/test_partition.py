"""A network that fails between clients and a real broker, with the agent's proxy in between.

The agent causes no fault, survives all of them, and reports the rebalances after their end.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.lab.broker import Cluster
from agent.lab.clients import Clients
from agent.processes.ports import HOST, free_port
from tests.faults.agent_process import AgentProcess, until
from tests.faults.tcp_fault import Fault, TcpFault

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.jvm,
    pytest.mark.timeout(900),
    pytest.mark.skipif("FAULT_ROUNDS" not in os.environ, reason="a part of make faults alone"),
]

_CLIENTS = "3.9.1"
_WITHIN_S = 120.0
_PIECES = 5
"""Which meet a fault, at least."""


@pytest.fixture(scope="module")
def network(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TcpFault]:
    folder = tmp_path_factory.mktemp("cluster")
    with TcpFault() as network, Cluster(folder, cache, proxy_port=network.port) as cluster:
        network.upstream = cluster.brokers[0].node.proxied_port
        with Clients(cluster.bootstrap, folder / "admin", cache) as operators:
            operators.admin().do("create-topic partitioned 4")
        yield network


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_of_the_network_harms_nobody(
    fault: Fault, network: TcpFault, cache: Path, tmp_path: Path
) -> None:
    port, group = free_port(), f"beside-{fault.name}"
    upstream = f"{HOST}:{network.port}"
    source = f"{{type: proxy, listen: '{HOST}:{port}', upstream: ['{upstream}']}}"
    with (
        AgentProcess(tmp_path / "agent", f"sources: [{source}]\n") as agent,
        Clients(f"{HOST}:{port}", tmp_path / "clients", cache) as clients,
    ):
        agent.start_ready()
        before = clients.consumer(_CLIENTS, "before", group, ["partitioned"])
        before.wait_for("assigned", _WITHIN_S)

        network.begin(fault)
        until(lambda: network.pieces >= _PIECES or not before.is_running, "a spoilt network")
        network.end()
        assert agent.is_ready()
        if fault is Fault.CORRUPT:  # what wrong bytes made of a client is not ours to say
            before.kill()

        after = clients.consumer(_CLIENTS, "after", group, ["partitioned"])
        after.wait_for("assigned", _WITHIN_S)
        if fault is not Fault.CORRUPT:
            before.do("enforce another round", _WITHIN_S)
            before.wait_for("assigned", _WITHIN_S)
            before.close(_WITHIN_S)
        after.close(_WITHIN_S)
        assert agent.drain() == 0

    rows = [row for row in agent.published() if row["kind"] == "transition"]
    got = {
        name: [row["to"] for row in rows if row["client_id"] == name]
        for name in ("before", "after")
    }
    assert got["before"][0] in {2, 9}  # 9 where the group's coordinator was still loading
    assert (got["after"][0], got["after"][-1]) == (2, 0)
    assert fault is Fault.CORRUPT or got["before"][-1] == 0
    assert "Traceback" not in agent.log.read_text()
