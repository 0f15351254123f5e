"""SIGTERM ends the agent whatever a hub, a broker or a collector does; nothing is lost."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.processes.ports import HOST
from tests.faults.agent_process import DEADLINE_S, AgentProcess, replayed, transitions, until
from tests.faults.loaded_log import a_round

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def silent() -> Iterator[str]:
    """Give the address of a peer that accepts connections and never answers."""
    with socket.create_server((HOST, 0)) as server:
        yield f"{HOST}:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("peer", "end"),
    [
        ("hub: {{push_to: [http://{silent}]}}", signal.SIGINT),
        ("otlp: {{endpoint: http://{silent}, interval: 1s}}", signal.SIGTERM),
        ("role: standalone\ncluster: {{bootstrap_servers: [{silent}]}}", signal.SIGTERM),
    ],
    ids=["hub", "collector", "broker"],
)
def test_a_peer_that_never_answers_does_not_hold_up_the_end(
    tmp_path: Path, silent: str, peer: str, end: signal.Signals
) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(a_round("c", 1))
    inspection = ", {type: groups, interval: 10s}" if "cluster" in peer else ""
    config = (
        f"sources: [{{type: logs, paths: [{log}]}}{inspection}]\n{peer.format(silent=silent)}\n"
    )
    with AgentProcess(tmp_path / "agent", config) as agent:
        agent.start()
        until(lambda: len(transitions(agent.on_disk())) == 2, "the rebalance")
        agent.process.send_signal(end)
        assert agent.process.wait(DEADLINE_S) == 0
    assert transitions(agent.published()) == replayed(log)
