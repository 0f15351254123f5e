"""A hub's full disk, a hub from an older backup, an agent without its state, releases apart.

The test wrote the lines: each of their rebalances must be in the hub's spool, and none twice.
"""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.faults.agent_process import AGENT, AgentProcess, Row, until
from tests.faults.full_disk import fill, in_small_disk, needs_mounts
from tests.faults.loaded_log import LoadedLog, a_round
from tests.faults.release import unpack_release

_ROUNDS = int(os.environ.get("FAULT_HUB_ROUNDS", "20"))

pytestmark = pytest.mark.timeout(300 + _ROUNDS)


def _agent(folder: Path, hub: AgentProcess, program: Sequence[str] = AGENT) -> AgentProcess:
    sources = f"sources: [{{type: logs, paths: [{folder}/app.log]}}]\n"
    push = f"hub: {{push_to: ['http://{hub.address}'], interval: 200ms}}\n"
    return AgentProcess(folder / "agent", sources + push, program=program)


def _found(rows: Sequence[Row]) -> Counter[str]:
    """Count transitions by their ids."""
    return Counter(row["id"] for row in rows if row["kind"] == "transition")


def _moves(rows: Sequence[Row]) -> Counter[tuple[str, int]]:
    return Counter((row["client_id"], row["to"]) for row in rows if row["kind"] == "transition")


def _write(log: Path, begin: int, end: int, client: str = "c1") -> None:
    with log.open("ab") as file:
        for number in range(begin, end):
            file.write(a_round(client, number + 1))


def _clients(hub: AgentProcess) -> Counter[str]:
    """Count the distinct transitions of each client at the hub."""
    rows = {row["id"]: row for row in hub.on_disk() if row["kind"] == "transition"}
    return Counter(row["client_id"] for row in rows.values())


def test_full_disk_of_a_hub(tmp_path: Path) -> None:
    needs_mounts()
    disk = tmp_path / "hub" / "state"
    hub = AgentProcess(tmp_path / "hub", "role: hub\n", in_small_disk(disk))
    disk.mkdir()
    with hub, _agent(tmp_path, hub) as agent:
        hub.start_ready()
        agent.start_ready()
        seen = Path(f"/proc/{hub.process.pid}/root")
        with LoadedLog(tmp_path / "app.log") as load:
            until(lambda: load.rounds > _ROUNDS, "some rebalances")
            filler = seen / disk.relative_to("/") / "filler"
            fill(filler)
            until(lambda: hub.got("samples_not_durable"), "a hub whose disk refuses")
            until(lambda: agent.got("hub_unreachable"), "a refusal that the agent sees")
            filler.unlink()
            until(lambda: hub.got("samples_durable_again"), "a disk that takes samples again")
        truth = load.transitions()
        until(lambda: _moves(hub.on_disk(seen)).total() >= truth.total(), "every record")

        assert _moves(hub.on_disk(seen)) == truth
        assert hub.total("rebalance_agent_samples_dropped_total") == 0
        assert (agent.drain(), hub.drain()) == (0, 0)


def test_a_hub_from_an_older_backup_gets_what_it_lacks_once(tmp_path: Path) -> None:
    log, hub = tmp_path / "app.log", AgentProcess(tmp_path / "hub", "role: hub\n")
    state, backup = hub.spool.parent, tmp_path / "backup"
    with hub, _agent(tmp_path, hub) as agent:
        hub.start_ready()
        agent.start_ready()
        _write(log, 0, _ROUNDS)
        until(lambda: len(_found(hub.on_disk())) == 2 * _ROUNDS, "the first records")
        assert hub.drain() == 0
        shutil.copytree(state, backup)
        hub.start_ready()
        _write(log, _ROUNDS, 2 * _ROUNDS)
        until(lambda: len(_found(hub.on_disk())) == 4 * _ROUNDS, "records after the backup")
        hub.kill()
        shutil.rmtree(state)
        shutil.copytree(backup, state)
        hub.start_ready()
        _write(log, 2 * _ROUNDS, 3 * _ROUNDS)
        until(lambda: _found(hub.on_disk()).total() >= 6 * _ROUNDS, "every record at the hub")
        assert (agent.drain(), hub.drain()) == (0, 0)

    assert _found(hub.published()) == _found(agent.published())
    assert _moves(hub.published()) == {("c1", 2): 3 * _ROUNDS, ("c1", 0): 3 * _ROUNDS}


@pytest.mark.parametrize("lost", ["state", "checkpoint", "spool"])
def test_an_agent_without_its_state_reads_again_with_the_same_ids(
    tmp_path: Path, lost: str
) -> None:
    log, hub = tmp_path / "app.log", AgentProcess(tmp_path / "hub", "role: hub\n")
    with hub, _agent(tmp_path, hub) as agent:
        hub.start_ready()
        agent.start_ready()
        _write(log, 0, _ROUNDS)
        until(lambda: len(_found(hub.on_disk())) == 2 * _ROUNDS, "the first records")
        agent.kill()
        state = agent.spool.parent
        if lost == "checkpoint":
            (state / "checkpoint.json").unlink(missing_ok=True)
        else:
            shutil.rmtree(state if lost == "state" else agent.spool)
        _write(log, _ROUNDS, 2 * _ROUNDS)
        agent.start_ready()
        until(lambda: len(_found(hub.on_disk())) == 4 * _ROUNDS, "every record at the hub")
        assert (agent.drain(), hub.drain()) == (0, 0)

    # what came twice has one id, of which ingest keeps one
    assert len(_found(hub.published())) == 4 * _ROUNDS
    own = _found(agent.published())
    assert max(own.values()) == 1
    assert len(own) >= (2 if lost == "spool" else 4) * _ROUNDS


def test_an_agent_with_a_copy_of_another_ones_spool_loses_nothing(tmp_path: Path) -> None:
    """A volume was cloned: two agents push under one spool's id, and then write other records."""
    hub = AgentProcess(tmp_path / "hub", "role: hub\n")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    one, two = (_agent(folder, hub) for folder in folders)
    with hub, one, two:
        hub.start_ready()
        one.start_ready()
        _write(folders[0] / "app.log", 0, _ROUNDS)
        until(lambda: len(_found(hub.on_disk())) == 2 * _ROUNDS, "the first records")
        one.kill()
        shutil.rmtree(two.spool.parent, ignore_errors=True)
        shutil.copytree(one.spool.parent, two.spool.parent)
        hub.kill()
        one.start_ready()
        two.start_ready()
        _write(folders[0] / "app.log", _ROUNDS, 2 * _ROUNDS)
        _write(folders[1] / "app.log", _ROUNDS, 3 * _ROUNDS, "c2")
        until(lambda: len(_found(one.on_disk())) == 4 * _ROUNDS, "records of one")
        until(lambda: len(_found(two.on_disk())) == 6 * _ROUNDS, "more records of the other")
        hub.start_ready()
        until(lambda: _clients(hub) == {"c1": 4 * _ROUNDS, "c2": 4 * _ROUNDS}, "records of both")
        assert (one.drain(), two.drain(), hub.drain()) == (0, 0, 0)

    assert set(_found(hub.published())) >= {*_found(one.published()), *_found(two.published())}


def test_an_agent_from_an_older_backup_loses_nothing(tmp_path: Path) -> None:
    log, hub = tmp_path / "app.log", AgentProcess(tmp_path / "hub", "role: hub\n")
    backup = tmp_path / "backup"
    with hub, _agent(tmp_path, hub) as agent:
        hub.start_ready()
        agent.start_ready()
        _write(log, 0, _ROUNDS)
        until(lambda: len(_found(hub.on_disk())) == 2 * _ROUNDS, "the first records")
        agent.kill()
        state = agent.spool.parent
        shutil.copytree(state, backup)
        agent.start_ready()
        _write(log, _ROUNDS, 2 * _ROUNDS)
        until(lambda: len(_found(hub.on_disk())) == 4 * _ROUNDS, "records after the backup")
        agent.kill()
        shutil.rmtree(state)
        shutil.copytree(backup, state)
        _write(log, 2 * _ROUNDS, 4 * _ROUNDS)
        agent.start_ready()
        until(lambda: len(_found(hub.on_disk())) == 8 * _ROUNDS, "every record at the hub")
        assert (agent.drain(), hub.drain()) == (0, 0)

    assert _found(agent.published()) == dict.fromkeys(_found(hub.published()), 1)


@pytest.mark.parametrize("old", ["agent", "hub"])
def test_releases_apart(tmp_path: Path, old: str) -> None:
    program = unpack_release(tmp_path / "released")
    log = tmp_path / "app.log"
    hub = AgentProcess(tmp_path / "hub", "role: hub\n", program=program if old == "hub" else AGENT)
    agent = _agent(tmp_path, hub, program if old == "agent" else AGENT)
    with hub, agent:
        hub.start_ready()
        agent.start_ready()
        _write(log, 0, _ROUNDS)
        until(lambda: len(_found(hub.on_disk())) == 2 * _ROUNDS, "the first records")
        agent.kill()
        hub.kill()
        _write(log, _ROUNDS, 2 * _ROUNDS)
        hub.start_ready()
        agent.start_ready()
        until(lambda: len(_found(hub.on_disk())) == 4 * _ROUNDS, "every record at the hub")
        upgraded, later = (agent, hub) if old == "agent" else (hub, agent)
        assert upgraded.drain() == 0
        upgraded.upgrade(AGENT)
        upgraded.start_ready()
        _write(log, 2 * _ROUNDS, 3 * _ROUNDS)
        until(lambda: len(_found(hub.on_disk())) == 6 * _ROUNDS, "records after the upgrade")
        assert (later.drain(), upgraded.drain()) == (0, 0)

    assert _found(hub.published()) == _found(agent.published())
    assert _moves(hub.published()) == {("c1", 2): 3 * _ROUNDS, ("c1", 0): 3 * _ROUNDS}


def test_state_goes_to_this_release_back_and_forth(tmp_path: Path) -> None:
    old = unpack_release(tmp_path / "released")
    log = tmp_path / "app.log"
    sources = f"sources: [{{type: logs, paths: [{log}]}}]\n"
    with AgentProcess(tmp_path / "agent", sources, program=old) as agent:
        for number, program in enumerate((old, AGENT, old, AGENT)):
            agent.upgrade(program)
            _write(log, number * _ROUNDS, (number + 1) * _ROUNDS)  # while it is down
            agent.start_ready()
            until(partial(_has_found, agent, 2 * (number + 1) * _ROUNDS), f"run {number}")
            if number % 2:
                assert agent.drain() == 0
            else:
                agent.kill()

    assert max(_found(agent.published()).values()) == 1
    assert _moves(agent.published()) == {("c1", 2): 4 * _ROUNDS, ("c1", 0): 4 * _ROUNDS}
    assert not list((tmp_path / "agent").rglob("*.corrupt"))


def _has_found(agent: AgentProcess, count: int) -> bool:
    return len(_found(agent.on_disk())) == count
