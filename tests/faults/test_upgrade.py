"""An upgrade from the last release's state, after a fault: nothing is lost, nothing is doubled.

The test wrote the lines. The last release ran until the fault, and this release continues.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.faults.agent_process import AgentProcess, Row, until
from tests.faults.full_disk import fill, in_small_disk, needs_mounts
from tests.faults.loaded_log import LoadedLog, a_round
from tests.faults.release import unpack_release

_ROUNDS = int(os.environ.get("FAULT_HUB_ROUNDS", "20"))

pytestmark = pytest.mark.timeout(300 + _ROUNDS)


@pytest.fixture
def released(tmp_path: Path) -> Sequence[str]:
    return unpack_release(tmp_path / "released")


def _write(log: Path, begin: int, end: int, client: str = "c1") -> None:
    with log.open("ab") as file:
        for number in range(begin, end):
            file.write(a_round(client, number + 1))


def _moves(rows: Sequence[Row]) -> Counter[tuple[str, int]]:
    """Count transitions, each id once."""
    found = {row["id"]: row for row in rows if row["kind"] == "transition"}
    return Counter((row["client_id"], row["to"]) for row in found.values())


def _ids(rows: Sequence[Row]) -> Counter[str]:
    return Counter(row["id"] for row in rows if row["kind"] == "transition")


def _truncate(checkpoint: Path) -> None:
    checkpoint.write_bytes(checkpoint.read_bytes()[:-40])


def _damage_position(checkpoint: Path) -> None:
    text = checkpoint.read_text()
    assert '"inode"' in text
    checkpoint.write_text(text.replace('"inode"', '"damaged"', 1))


def _empty(checkpoint: Path) -> None:
    checkpoint.write_bytes(b"")


def _replace_members(checkpoint: Path) -> None:
    document = json.loads(checkpoint.read_text())
    document["tracker"]["consumers"] = [{"track": 5}]
    checkpoint.write_text(json.dumps(document))


@pytest.mark.parametrize("damage", [_truncate, _damage_position, _empty, _replace_members])
def test_after_a_damaged_checkpoint(
    tmp_path: Path, released: Sequence[str], damage: Callable[[Path], None]
) -> None:
    log = tmp_path / "app.log"
    sources = f"sources: [{{type: logs, paths: [{log}], read_from: beginning}}]\n"
    with AgentProcess(tmp_path / "agent", sources, program=released) as agent:
        _write(log, 0, _ROUNDS)
        agent.start_ready()
        until(lambda: len(_ids(agent.on_disk())) == 2 * _ROUNDS, "the first records")
        assert agent.drain() == 0
        checkpoint = agent.spool.parent / "checkpoint.json"
        damage(checkpoint)
        _write(log, _ROUNDS, 2 * _ROUNDS)
        agent.upgrade_to_this()
        agent.start_ready()
        until(lambda: len(_ids(agent.on_disk())) >= 4 * _ROUNDS, "every record")
        assert agent.drain() == 0

    assert max(_ids(agent.published()).values()) == 1
    assert _moves(agent.published()) == {("c1", 2): 2 * _ROUNDS, ("c1", 0): 2 * _ROUNDS}
    assert checkpoint.with_name("checkpoint.json.corrupt").exists()


def test_after_a_full_disk(tmp_path: Path, released: Sequence[str]) -> None:
    """The last release is killed while its disk takes nothing: it has read on meanwhile."""
    needs_mounts()
    log, disk = tmp_path / "app.log", tmp_path / "agent" / "state"
    kept = tmp_path / "kept"
    sources = f"sources: [{{type: logs, paths: [{log}]}}]\n"
    wrapper = in_small_disk(disk)
    with AgentProcess(tmp_path / "agent", sources, wrapper, program=released) as agent:
        disk.mkdir()
        agent.start_ready()
        seen = Path(f"/proc/{agent.process.pid}/root") / disk.relative_to("/")
        with LoadedLog(log) as load:
            until(lambda: load.rounds > _ROUNDS, "some rebalances")
            fill(seen / "filler")
            until(lambda: agent.got("samples_not_safe"), "a disk that refuses")
            rounds = load.rounds
            until(lambda: load.rounds > rounds + _ROUNDS, "rebalances that nothing keeps")
            (seen / "filler").unlink()
            agent.process.send_signal(19)  # SIGSTOP: nothing more is written
            shutil.copytree(seen, kept, symlinks=True)
            agent.kill()
        shutil.rmtree(disk)
        shutil.copytree(kept, disk)
        agent.upgrade_to_this()
        agent.start_ready()
        until(lambda: _moves(agent.on_disk()) == load.transitions(), "every record")
        assert agent.drain() == 0

    assert max(_ids(agent.published()).values()) == 1
    assert _moves(agent.published()) == load.transitions()


@pytest.mark.parametrize("act", ["restart", "reload"])
def test_with_changed_paths(tmp_path: Path, released: Sequence[str], act: str) -> None:
    """The configuration changes with the release, or by a reload right after it, under writing."""
    (tmp_path / "logs").mkdir()
    logs = [tmp_path / "logs" / name for name in ("a.log", "b.log")]
    first = f"sources: [{{type: logs, paths: [{logs[0]}]}}, {{type: logs, paths: [{logs[1]}]}}]\n"
    changed = f"sources: [{{type: logs, paths: ['{tmp_path}/logs/*.log']}}]\n"
    with AgentProcess(tmp_path / "agent", first, program=released) as agent:
        text = agent.config.read_text()
        agent.start_ready()
        with LoadedLog(logs[0], 1, "g-a") as one, LoadedLog(logs[1], 2, "g-b") as two:
            until(lambda: one.rounds > _ROUNDS, "some rebalances")
            agent.kill()
            rounds = one.rounds
            until(lambda: one.rounds > rounds + 5, "rebalances while it is down")
            agent.upgrade_to_this()
            if act == "restart":
                agent.config.write_text(text.replace(first, changed))
            agent.start_ready()
            agent.config.write_text(text.replace(first, changed))
            agent.reload()
            until(lambda: agent.got("reloaded"), "the reload")
            rounds = one.rounds
            until(lambda: one.rounds > rounds + _ROUNDS, "some rebalances")
        truth = one.transitions() + two.transitions()
        until(lambda: _moves(agent.on_disk()).total() >= truth.total(), "every record")
        assert agent.drain() == 0

    assert max(_ids(agent.published()).values()) == 1
    assert _moves(agent.published()) == truth


def test_after_rotations_while_down(tmp_path: Path, released: Sequence[str]) -> None:
    log = tmp_path / "app.log"
    sources = f"sources: [{{type: logs, paths: ['{log}*']}}]\n"
    with AgentProcess(tmp_path / "agent", sources, program=released) as agent:
        _write(log, 0, _ROUNDS)
        agent.start_ready()
        _write(log, _ROUNDS, 2 * _ROUNDS)
        until(lambda: len(_ids(agent.on_disk())) >= 2 * _ROUNDS, "the first records")
        checkpoint = agent.spool.parent / "checkpoint.json"
        until(checkpoint.exists, "the first checkpoint")  # without it, rotated files are old
        agent.kill()
        known = _moves(agent.on_disk())
        for number in range(2, 5):
            for old in (2, 1):
                if (path := Path(f"{log}.{old}")).exists():
                    path.rename(f"{log}.{old + 1}")
            log.rename(f"{log}.1")
            _write(log, number * _ROUNDS, (number + 1) * _ROUNDS)
        agent.upgrade_to_this()
        agent.start_ready()
        wanted = known.total() + 6 * _ROUNDS
        until(lambda: _moves(agent.on_disk()).total() >= wanted, "every record")
        assert agent.drain() == 0

    assert max(_ids(agent.published()).values()) == 1
    assert _moves(agent.published()).total() == wanted
