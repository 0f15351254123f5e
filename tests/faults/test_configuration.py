"""Random changes of the configuration while logs are written: nothing is lost, nothing is doubled.

The expected records follow from the lines that the test wrote. ``make faults`` makes
``FAULT_CHANGES`` changes.
"""

import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from tests.faults.agent_process import AgentProcess, Row, replayed, transitions, until
from tests.faults.loaded_log import LoadedLog

_CHANGES = int(os.environ.get("FAULT_CHANGES", "6"))
_PAUSE_S_MAX = 0.8

pytestmark = pytest.mark.timeout(300 + 30 * _CHANGES)


def _config(folder: Path, chance: random.Random) -> str:
    """Return sources that read both logs, by any globs, and settings beside them."""
    a, b = folder / "logs" / "a.log", folder / "logs" / "b.log"
    unused = folder / "unused" / "*.log"
    one, two = chance.choice(
        [
            (f"[{a}, {b}]", ""),
            (f"[{folder}/logs/*.log]", ""),
            (f"['{folder}/*/?.log', {unused}]", ""),
            (f"[{a}]", f"[{b}]"),
            (f"[{b}]", f"[{a}]"),
            (f"[{a}, {unused}]", f"[{folder}/logs/b*.log]"),
        ]
    )
    sources = [f"{{type: logs, paths: {one}}}"]
    if two:
        sources.append(f"{{type: logs, paths: {two}}}")
    chance.shuffle(sources)
    apps = chance.choice(["", "apps: {payments: [g]}\n", "apps: {shop: [g]}\n"])
    limits = chance.choice(["", "limits: {members: 500}\n"])
    return f"{apps}{limits}sources: [{', '.join(sources)}]\n"


def _is_read(agent: AgentProcess, loads: Sequence[LoadedLog]) -> bool:
    ends = [row for row in agent.on_disk() if row["kind"] == "transition" and row["to"] == 0]
    return len(ends) >= sum(load.rounds for load in loads)


def test_random_changes_by_reload_and_restart_under_writing(tmp_path: Path) -> None:
    chance = random.Random(34)
    (tmp_path / "logs").mkdir()
    logs = [tmp_path / "logs" / name for name in ("a.log", "b.log")]
    with AgentProcess(tmp_path / "agent", "") as agent:
        head = agent.config.read_text()
        agent.config.write_text(head + _config(tmp_path, chance))
        agent.start_ready()
        with (
            LoadedLog(logs[0], 1, group="g-a") as first,
            LoadedLog(logs[1], 2, group="g-b") as second,
        ):
            for _ in range(_CHANGES):
                Event().wait(chance.uniform(0.0, _PAUSE_S_MAX))
                wrong = "sources: [{type: logs}]\n"
                config = wrong if chance.random() < 0.1 else _config(tmp_path, chance)
                agent.config.write_text(head + config)
                act = chance.choice(["reload", "reload", "term", "kill"])
                if act == "reload":
                    agent.reload()
                    continue
                if config == wrong:  # no agent starts with it
                    agent.config.write_text(head + _config(tmp_path, chance))
                if act == "term":
                    assert agent.drain() == 0
                else:
                    agent.kill()
                agent.start_ready()
        agent.config.write_text(head + _config(tmp_path, chance))
        agent.reload()
        until(lambda: _is_read(agent, (first, second)), "every rebalance on disk")
        assert agent.drain() == 0

    rows = agent.published()
    for load in (first, second):
        assert _found(rows, load.group) == load.transitions()
    assert transitions(rows) == sorted(replayed(logs[0]) + replayed(logs[1]))


def _found(rows: Sequence[Row], group: str) -> Counter[tuple[str, int]]:
    return Counter(
        (row["client_id"], row["to"])
        for row in rows
        if row["kind"] == "transition" and row["group"] == group
    )
