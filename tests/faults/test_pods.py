"""Pods that come and go beside one node agent: each rebalance once, and nothing is left of a pod.

``make faults`` has ``FAULT_PODS`` pods and as many files at few descriptors as ``FAULT_FILES``.
"""

import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from agent.sources.lines.following.open_tails import AWAKE_MAX
from tests.faults.agent_process import DEADLINE_S, AgentProcess, until
from tests.faults.loaded_log import a_round

_PODS = int(os.environ.get("FAULT_PODS", "60"))
_FILES = int(os.environ.get("FAULT_FILES", "400"))
_AT_ONCE, _ROUNDS = 20, 3
_DESCRIPTORS = 128 if _FILES < 1_000 else 1_024
_WITHIN_S = max(4 * DEADLINE_S, _FILES / 30)
_MEMORY_MIB_MAX = 150
_REBALANCES = "kafka_consumer_rebalances_total"
_RESIDENT = re.compile(r"VmRSS:\s+(\d+)")

pytestmark = pytest.mark.timeout(300 + 3 * _PODS + _FILES)


def _resident_mib(pid: int) -> float:
    found = _RESIDENT.search(Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def _count_open(agent: AgentProcess) -> int:
    return sum(1 for _ in Path(f"/proc/{agent.process.pid}/fd").iterdir())


def _count_lines(agent: AgentProcess) -> int:
    """Count transitions on disk; a file that is published meanwhile may be missed."""
    count = 0
    for path in agent.spool.glob("*"):
        try:
            count += path.read_bytes().count(b'"kind":"transition"')
        except FileNotFoundError:
            continue
    return count


def _transitions(agent: AgentProcess) -> Counter[tuple[str, int]]:
    return Counter(
        (row["client_id"], row["to"])
        for row in agent.on_disk()
        if row["kind"] == "transition" and row["scope"] == "consumer"
    )


def _run_pod(root: Path, number: int) -> Path:
    """Write a pod's log in the kubelet's layout, some are rotated; return the pod's folder."""
    folder = root / f"shop_app-{number}_{number:08x}" / "app"
    folder.mkdir(parents=True)
    log = folder / "0.log"
    for generation in range(1, _ROUNDS + 1):
        with log.open("ab") as file:
            for line in a_round(f"c{number}", generation).splitlines(keepends=True):
                file.write(b"2026-11-25T12:00:00.000000000Z stdout F " + line)
        if generation == _ROUNDS - 1 and number % 3 == 0:
            log.rename(folder / "0.log.20261125-120000")
    return folder.parent


def test_pods_come_and_go(tmp_path: Path) -> None:
    pods = tmp_path / "pods"
    pods.mkdir()
    source = f"{{type: logs, paths: ['{pods}/*/*/*.log']}}"
    wanted = Counter[tuple[str, int]]()
    with AgentProcess(tmp_path / "agent", f"sources: [{source}]\n") as agent:
        agent.start_ready()
        for begin in range(0, _PODS, _AT_ONCE):
            numbers = range(begin, min(begin + _AT_ONCE, _PODS))
            folders = [_run_pod(pods, number) for number in numbers]
            wanted.update({(f"c{n}", status): _ROUNDS for n in numbers for status in (2, 0)})
            until(lambda: _transitions(agent).total() >= wanted.total(), "all pods' rebalances")
            for folder in folders:
                shutil.rmtree(folder)
        until(
            lambda: agent.get("/api/v1/members").strip() == "[]", "no member of a pod that is gone"
        )
        descriptors = _count_open(agent)
        resident_mib = _resident_mib(agent.process.pid)
        assert agent.drain() == 0

    assert _transitions(agent) == wanted
    assert descriptors < 2 * _AT_ONCE
    assert resident_mib < _MEMORY_MIB_MAX


def test_more_files_than_descriptors(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()

    def write(generation: int) -> None:
        for number in range(_FILES):
            with (logs / f"{number}.log").open("ab") as file:
                file.write(a_round(f"c{number}", generation))

    write(1)
    few = [f"--nofile={_DESCRIPTORS}:{_DESCRIPTORS}"]
    source = f"{{type: logs, paths: ['{logs}/*.log']}}"
    with AgentProcess(tmp_path / "agent", f"sources: [{source}]\n", ["prlimit", *few]) as agent:
        agent.start()
        until(lambda: _count_lines(agent) >= 2 * _FILES, "every file", _WITHIN_S)
        until(agent.is_ready, "a ready agent", _WITHIN_S)
        write(2)
        until(lambda: _count_lines(agent) >= 4 * _FILES, "what was added", _WITHIN_S)
        assert agent.get("/metrics")
        assert _count_open(agent) < _DESCRIPTORS
        lines = agent.log.read_text().count("\n")
        assert agent.drain() == 0

    both = {(f"c{number}", status): 2 for number in range(_FILES) for status in (2, 0)}
    assert _transitions(agent) == both
    if _DESCRIPTORS < AWAKE_MAX:
        assert agent.got("descriptors_short")
    assert agent.got("log_files_many")
    assert lines < _FILES
