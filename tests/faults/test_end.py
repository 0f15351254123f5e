"""SIGTERM ends the agent whatever a hub, a broker, a collector or a disk does; nothing is lost."""

import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.processes.ports import HOST
from tests.faults.agent_process import DEADLINE_S, AgentProcess, replayed, transitions, until
from tests.faults.loaded_log import a_round

pytestmark = pytest.mark.timeout(300)

_PROGRAM = """
import os, sys, threading
from pathlib import Path
call, blocked, waits = getattr(os, {name!r}), Path({blocked!r}), Path({waits!r})
def block(*args, **kwargs):
    if os.access(blocked, os.F_OK):
        with open(waits, "w"):
            pass
        threading.Event().wait()
    return call(*args, **kwargs)
setattr(os, {name!r}, block)
from kafka_rebalance_agent.__main__ import main
main()
"""
"""An agent of which a system call waits for ever once a file is there, as on a lost disk."""

_SILENT_NAMES = """
import socket, threading
from pathlib import Path
look_up = socket.getaddrinfo
def wait(host, *args, **kwargs):
    if host == "name.test":
        Path({waits!r}).touch()
        threading.Event().wait()
    return look_up(host, *args, **kwargs)
socket.getaddrinfo = wait
from kafka_rebalance_agent.__main__ import main
main()
"""
"""An agent whose name server never answers."""


@pytest.fixture
def silent() -> Iterator[str]:
    """Give the address of a peer that accepts connections and never answers."""
    with socket.create_server((HOST, 0)) as server:
        yield f"{HOST}:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("call", "logs", "code"),
    [("fsync", 1, 1), ("scandir", 1, 1), ("scandir", 501, 0)],
    ids=["the spool's disk", "the logs' disk", "the logs' disk, in a thread"],
)
def test_sigterm_ends_an_agent_of_which_a_disk_does_not_answer(
    tmp_path: Path, call: str, logs: int, code: int
) -> None:
    log, blocked, waits = (tmp_path / name for name in ("app.log", "blocked", "waits"))
    log.write_bytes(a_round("c", 1))
    for number in range(1, logs):
        (tmp_path / f"quiet-{number}.log").touch()
    program = _PROGRAM.format(name=call, blocked=str(blocked), waits=str(waits))
    config = f"sources: [{{type: logs, paths: [{tmp_path}/*.log]}}]\n"
    with AgentProcess(
        tmp_path / "agent", config, program=(sys.executable, "-P", "-c", program)
    ) as agent:
        agent.start_ready()
        until(lambda: len(transitions(agent.on_disk())) == 2, "the first rebalance")
        blocked.touch()
        with log.open("ab") as more:
            more.write(a_round("c", 2))
        until(waits.exists, "a call that waits for the disk")
        assert agent.drain() == code
        assert agent.got("end_forced") == (code == 1)

        blocked.unlink()
        agent.start_ready()
        until(lambda: len(transitions(agent.on_disk())) == 4, "the second rebalance")
        assert agent.drain() == 0
    assert transitions(agent.published()) == replayed(log)


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
        assert agent.process.wait(DEADLINE_S) in {0, 1}, "1: a busy machine took all of its time"
    assert transitions(agent.on_disk()) == replayed(log)


@pytest.mark.parametrize(
    "peer",
    [
        "hub: {push_to: [http://name.test:12472]}",
        "otlp: {endpoint: http://name.test:4318, interval: 1s}",
        "role: standalone\ncluster: {bootstrap_servers: [name.test:9092]}",
    ],
    ids=["hub", "collector", "broker"],
)
def test_a_name_server_that_never_answers_holds_up_neither_logs_nor_the_end(
    tmp_path: Path, peer: str
) -> None:
    log, waits = tmp_path / "app.log", tmp_path / "waits"
    log.write_bytes(a_round("c", 1))
    inspection = ", {type: groups, interval: 1s}" if "cluster" in peer else ""
    config = f"sources: [{{type: logs, paths: [{log}]}}{inspection}]\n{peer}\n"
    program = (sys.executable, "-P", "-c", _SILENT_NAMES.format(waits=str(waits)))
    with AgentProcess(tmp_path / "agent", config, program=program) as agent:
        agent.start()
        until(waits.exists, "a lookup")
        with log.open("ab") as more:
            more.write(a_round("c", 2))
        until(lambda: len(transitions(agent.on_disk())) == 4, "the second rebalance")
        assert agent.get("/api/v1/incidents")
        assert agent.drain() in {0, 1}, "1: a busy machine took all of its time"
    assert transitions(agent.on_disk()) == replayed(log)
