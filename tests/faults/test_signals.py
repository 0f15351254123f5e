"""SIGTERM and reloads under load, limits of files and memory: nothing is lost, nothing doubled."""

import random
import resource
import select
import socket
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from agent.processes.ports import HOST, free_port
from tests.agent.wire.frames import opaque
from tests.faults.agent_process import DEADLINE_S, AgentProcess, replayed, transitions, until
from tests.faults.loaded_log import LoadedLog, a_round

_REBALANCES = "kafka_consumer_rebalances_total"
_RELOADS = "rebalance_agent_config_reloads_total"
_MANY = 40
_SPARE_FILES = 10
_LONG_LINE_BYTES = 300 << 20
_ADDRESS_SPACE_BYTES = 512 << 20

pytestmark = pytest.mark.timeout(300)


def _agent(folder: Path, log: Path) -> AgentProcess:
    return AgentProcess(folder / "agent", f"sources: [{{type: logs, paths: [{log}]}}]\n")


def test_sigterm_under_load_drains(tmp_path: Path) -> None:
    log, chance = tmp_path / "app.log", random.Random(12472)
    with _agent(tmp_path, log) as agent:
        with LoadedLog(log) as load:
            for _ in range(3):
                agent.start_ready()
                Event().wait(chance.uniform(0.0, 1.0))
                assert agent.drain() == 0
                assert list(agent.spool.glob(".*.part")) == []
        agent.start_ready()
        until(lambda: agent.total(_REBALANCES) == load.rounds, "every rebalance read")
        assert agent.drain() == 0

    assert transitions(agent.published()) == replayed(log)


def test_a_wrong_file_under_load_leaves_the_old_one_in_force(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    with _agent(tmp_path, log) as agent:
        agent.start_ready()
        right = agent.config.read_text()
        with LoadedLog(log) as load:
            for number, wrong in enumerate(("sources: [", "sourcess: []", "role: emperor"), 1):
                agent.config.write_text(f"{right}{wrong}\n")
                agent.reload()
                until(partial(_has_failed, agent, number), "a reload that failed")
                until(partial(_has_read, agent, load.rounds + 1), "a log that is read")
            agent.config.write_text(f"{right}apps: {{payments: [g]}}\n")
            agent.reload()
            until(lambda: agent.total(_REBALANCES, app="payments") > 0, "the right file in force")
        until(lambda: agent.total(_REBALANCES) == load.rounds, "every rebalance read")
        assert agent.drain() == 0

    assert transitions(agent.published()) == replayed(log)


def test_file_descriptors_run_out_and_come_back(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with _agent(tmp_path, logs / "*.log") as agent:
        agent.start_ready()
        pid = agent.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (_open_files(pid) + _SPARE_FILES, hard))
        for number in range(_MANY):
            (logs / f"{number}.log").write_bytes(a_round(f"c{number}", 1))
        until(lambda: agent.got("descriptors_short"), "too few descriptors")
        assert agent.process.poll() is None

        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

        until(lambda: agent.total(_REBALANCES) == _MANY, "every log read")
        assert agent.drain() == 0

    rows = transitions(agent.published())
    assert len(set(rows)) == len(rows) == 2 * _MANY


@pytest.mark.parametrize("spare", [_SPARE_FILES, _SPARE_FILES + 1])
def test_a_proxy_without_file_descriptors_serves_again(tmp_path: Path, spare: int) -> None:
    """The last descriptor may be for a client or for its broker; connections stay open."""
    port, request = free_port(), opaque(0, 1, "c", 40)
    with ExitStack() as stack:
        broker = stack.enter_context(socket.create_server((HOST, 0), backlog=_MANY))
        upstream = f"{HOST}:{broker.getsockname()[1]}"
        source = f"{{type: proxy, listen: '{HOST}:{port}', upstream: ['{upstream}']}}"
        agent = stack.enter_context(AgentProcess(tmp_path / "agent", f"sources: [{source}]\n"))
        agent.start_ready()
        first = stack.enter_context(socket.create_connection((HOST, port)))
        assert _passes(first, broker, request)
        pid = agent.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (_open_files(pid) + spare, hard))
        with ExitStack() as crowd:
            clients = [
                crowd.enter_context(socket.create_connection((HOST, port))) for _ in range(_MANY)
            ]
            until(
                lambda: agent.got("proxy_accept_failed") or _any_closed(clients),
                "a client that is not taken, or closed",
            )
            assert agent.process.poll() is None

        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

        assert agent.is_ready()
        first.sendall(request)
        last = stack.enter_context(socket.create_connection((HOST, port)))
        assert _passes(last, broker, request)
        assert not agent.got("source_failed")
        assert agent.drain() == 0


def _any_closed(clients: list[socket.socket]) -> bool:
    return bool(select.select(clients, [], [], 0)[0])


def _passes(client: socket.socket, broker: socket.socket, data: bytes) -> bool:
    """Return whether a client's bytes reach the broker, on any of its connections."""
    client.sendall(data)
    with ExitStack() as stack:
        watched = [broker]
        while ready := select.select(watched, [], [], DEADLINE_S)[0]:
            for each in ready:
                if each is broker:
                    watched.append(stack.enter_context(broker.accept()[0]))
                elif each.recv(len(data)) == data:
                    return True
                else:
                    watched.remove(each)
    return False


def test_a_line_longer_than_the_memory_that_there_is(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    with _agent(tmp_path, log) as agent:
        agent.start_ready()
        limits = (_ADDRESS_SPACE_BYTES, resource.RLIM_INFINITY)
        resource.prlimit(agent.process.pid, resource.RLIMIT_AS, limits)
        with log.open("wb") as file:
            file.write(a_round("c1", 1))
            file.seek(_LONG_LINE_BYTES, 1)  # a hole: zeros without an end of line
            file.write(b"\n" + a_round("c1", 2))

        until(lambda: agent.total(_REBALANCES) == 2, "the rebalance behind the line")
        assert agent.total("rebalance_agent_source_errors_total", reason="long_line") == 1
        assert agent.drain() == 0

    assert len(transitions(agent.published())) == 4


def _has_failed(agent: AgentProcess, reloads: int) -> bool:
    return agent.total(_RELOADS, outcome="failure") == reloads


def _has_read(agent: AgentProcess, rounds: int) -> bool:
    return agent.total(_REBALANCES) >= rounds


def _open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
