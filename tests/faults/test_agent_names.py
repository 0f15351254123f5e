"""Agents whose names change or are equal, releases that change under writing, spools read again.

The test wrote the lines: each of their rebalances must be at the hub and in the tables, none twice,
and each member is one.
"""

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from tests.aggregation.spark.conftest import QUICK_JVM
from tests.faults.agent_process import AGENT, AgentProcess, Row, until
from tests.faults.loaded_log import LoadedLog
from tests.faults.release import unpack_release

_ROUNDS = int(os.environ.get("FAULT_HUB_ROUNDS", "20"))

pytestmark = pytest.mark.timeout(300 + _ROUNDS)


def _agent(
    folder: Path, hub: AgentProcess, log: Path, program: Sequence[str] = AGENT
) -> AgentProcess:
    sources = f"sources: [{{type: logs, paths: [{log}]}}]\n"
    push = f"hub: {{push_to: ['http://{hub.address}'], interval: 200ms}}\n"
    return AgentProcess(folder, sources + push, program=program)


def _by_id(rows: Sequence[Row]) -> dict[str, Row]:
    return {row["id"]: row for row in rows if row["kind"] == "transition"}


def _moves(rows: Sequence[Row]) -> Counter[tuple[str, int]]:
    """Count transitions, each id once."""
    return Counter((row["client_id"], row["to"]) for row in _by_id(rows).values())


def _ids(rows: Sequence[Row]) -> Counter[str]:
    return Counter(row["id"] for row in rows if row["kind"] == "transition")


def _members(hub: AgentProcess, group: str = "g") -> list[dict[str, Any]]:
    return list(json.loads(hub.get(f"/api/v1/members?group={group}") or "[]"))


def _rename(agent: AgentProcess, name: str) -> None:
    text = agent.config.read_text()
    first, _, rest = text.partition("\n")
    assert first.startswith("host: ")
    agent.config.write_text(f"host: {name}\n{rest}")


def _shown(hub: AgentProcess, group: str = "g") -> Counter[str]:
    return Counter(row["client_id"] for row in _members(hub, group))


@pytest.mark.parametrize("state", ["kept", "lost"])
def test_a_renamed_agent_loses_and_doubles_nothing(tmp_path: Path, state: str) -> None:
    log, hub = tmp_path / "app.log", AgentProcess(tmp_path / "hub", "role: hub\n")
    with hub, _agent(tmp_path / "one", hub, log) as agent:
        hub.start_ready()
        agent.start_ready()
        with LoadedLog(log) as load:
            until(lambda: load.rounds > _ROUNDS, "some rebalances")
            until(lambda: _ids(hub.on_disk()).total() > _ROUNDS, "records by the first name")
            agent.kill()
            _rename(agent, "two")
            if state == "lost":
                shutil.rmtree(agent.spool.parent)
            rounds = load.rounds
            until(lambda: load.rounds > rounds + _ROUNDS, "rebalances while it is down")
            agent.start_ready()
        truth = load.transitions()
        until(lambda: _moves(hub.on_disk()).total() >= truth.total(), "every record at the hub")
        shown = _shown(hub)
        assert (agent.drain(), hub.drain()) == (0, 0)

    assert _moves(hub.published()) == truth
    assert len(_ids(hub.published())) == truth.total()
    assert shown == dict.fromkeys({client for client, _ in truth}, 1)
    if state == "kept":
        assert max(_ids(hub.published()).values()) == 1
    names = {row["agent"].partition("/")[0] for row in hub.published() if row["kind"] != "agent"}
    assert names >= {"one", "two"}


def test_two_agents_of_one_name_are_two(tmp_path: Path) -> None:
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    hub = AgentProcess(tmp_path / "hub", "role: hub\n")
    agents = [_agent(tmp_path / log.stem, hub, log) for log in logs]
    for agent in agents:
        _rename(agent, "same")
    with hub, agents[0] as one, agents[1] as other:
        hub.start_ready()
        one.start_ready()
        other.start_ready()
        with LoadedLog(logs[0], 1, "g-a") as first, LoadedLog(logs[1], 2, "g-b") as second:
            until(lambda: second.rounds > _ROUNDS, "some rebalances")
            one.kill()
            rounds = second.rounds
            until(lambda: second.rounds > rounds + _ROUNDS, "rebalances without the other agent")
            one.start_ready()
        truth = {"g-a": first.transitions(), "g-b": second.transitions()}
        total = sum(each.total() for each in truth.values())
        until(lambda: len(_ids(hub.on_disk())) >= total, "every record at the hub")
        shown = {group: _shown(hub, group) for group in truth}
        other.kill()
        until(lambda: _shown(hub, "g-a").total() > 0, "members of the one that lives")
        assert (one.drain(), hub.drain()) == (0, 0)

    rows = hub.published()
    assert max(_ids(rows).values()) == 1
    assert {
        group: _moves([row for row in rows if row["group"] == group]) for group in truth
    } == truth
    clients = {group: {client for client, _ in each} for group, each in truth.items()}
    assert shown == {group: dict.fromkeys(each, 1) for group, each in clients.items()}
    names = {row["agent"] for row in rows if row["kind"] == "transition"}
    assert {name.partition("/")[0] for name in names} == {"same"}
    assert len(names) == 2


@pytest.mark.field
@pytest.mark.parametrize("side", ["agent", "hub"])
def test_a_release_that_changes_and_changes_back_under_writing(tmp_path: Path, side: str) -> None:
    released = unpack_release(tmp_path / "released")
    log, hub = tmp_path / "app.log", AgentProcess(tmp_path / "hub", "role: hub\n")
    with hub, _agent(tmp_path / "one", hub, log) as agent:
        changed = agent if side == "agent" else hub
        hub.start_ready()
        agent.start_ready()
        with LoadedLog(log) as load:
            for program in (released, AGENT, released, AGENT):
                until(partial(_has_rounds, load, load.rounds + _ROUNDS), "some rebalances")
                changed.kill()
                changed.upgrade(program)
                changed.start_ready()
                found = len(_ids(hub.on_disk()))
                until(partial(_has_more, hub, found), "records that arrive")
        truth = load.transitions()
        until(lambda: _moves(hub.on_disk()).total() >= truth.total(), "every record at the hub")
        shown = _shown(hub)
        assert (agent.drain(), hub.drain()) == (0, 0)

    assert _moves(hub.published()) == truth
    assert len(_ids(hub.published())) == truth.total()
    assert _moves(agent.published()) == truth
    assert shown == dict.fromkeys({client for client, _ in truth}, 1)


@pytest.mark.field
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_spools_that_are_read_again_after_faults_double_nothing(tmp_path: Path) -> None:
    """A hub from an older backup, a renamed agent without its state, and copies of their spools."""
    log, hub = tmp_path / "app.log", AgentProcess(tmp_path / "hub", "role: hub\n")
    state, backup = hub.spool.parent, tmp_path / "backup"
    with hub, _agent(tmp_path / "one", hub, log) as agent:
        hub.start_ready()
        agent.start_ready()
        with LoadedLog(log) as load:
            until(lambda: _ids(hub.on_disk()).total() > _ROUNDS, "the first records")
            assert hub.drain() == 0
            shutil.copytree(state, backup)
            hub.start_ready()
            found = _ids(hub.on_disk()).total()
            until(lambda: _ids(hub.on_disk()).total() > found, "records after the backup")
            hub.kill()
            shutil.rmtree(state)
            shutil.copytree(backup, state)
            hub.start_ready()
            agent.kill()
            shutil.copytree(agent.spool, tmp_path / "copy")
            shutil.rmtree(agent.spool.parent)
            _rename(agent, "two")
            agent.start_ready()
        truth = load.transitions()
        until(lambda: _moves(hub.on_disk()).total() >= truth.total(), "every record at the hub")
        assert (agent.drain(), hub.drain()) == (0, 0)
    again = tmp_path / "again"
    shutil.copytree(hub.spool, again / "hub")
    shutil.copytree(agent.spool, again / "agent")
    shutil.move(tmp_path / "copy", again / "first")
    _ingest(hub.spool, tmp_path)
    _ingest(again, tmp_path)

    table = ds.dataset(tmp_path / "tables" / "transitions", partitioning="hive")
    rows = table.to_table(["id", "kind", "client_id", "to"]).to_pylist()
    assert _moves(rows) == truth
    assert len(_ids(rows)) == _ids(rows).total() == truth.total()


def _has_rounds(load: LoadedLog, rounds: int) -> bool:
    return load.rounds > rounds


def _has_more(hub: AgentProcess, found: int) -> bool:
    return len(_ids(hub.on_disk())) > found


def _ingest(spool: Path, folder: Path) -> None:
    command = [*AGENT, "ingest", "--once", "--from", f"{spool}", "--tables", f"{folder}/tables"]
    environment = os.environ | {"JAVA_TOOL_OPTIONS": QUICK_JVM, "TMPDIR": str(folder)}
    subprocess.run(command, check=True, capture_output=True, env=environment)
