"""An agent that has reached `limits.memory` grows no further, and loses no transition."""

import re
from functools import partial
from pathlib import Path

import pytest

from tests.faults.agent_process import AgentProcess, spooled, until
from tests.faults.loaded_log import a_round

_CLIENTS, _PIECE = 12_000, 500
_EVICTED = re.compile(r"^rebalance_agent_members_evicted_total (\S+)", re.MULTILINE)
pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]


def _has_read(agent: AgentProcess, log: Path) -> bool:
    return agent.total("rebalance_agent_source_read_bytes_total") == log.stat().st_size


def test_new_members_replace_old_ones_and_no_transition_is_lost(tmp_path: Path) -> None:
    log, config = tmp_path / "app.log", "limits: {memory: 64MiB}\n"
    with AgentProcess(
        tmp_path / "agent", f"{config}sources: [{{type: logs, paths: ['{log}']}}]\n"
    ) as agent:
        agent.start_ready()
        for begin in range(0, _CLIENTS, _PIECE):
            with log.open("ab") as file:
                for number in range(begin, begin + _PIECE):
                    file.write(a_round(f"client-{number}", 1))
            until(partial(_has_read, agent, log), "all")
        (evicted,) = _EVICTED.findall(agent.get("/metrics"))
        assert float(evicted) > _CLIENTS / 3
        assert agent.is_ready()
        assert agent.drain() == 0
        said = agent.log.read_text()

    assert "event=memory_limit" in said
    got = [
        (row["client_id"], row["to"])
        for row in spooled(agent.spool)
        if row["kind"] == "transition" and row["scope"] == "consumer"
    ]
    assert len(got) == len(set(got)) == 2 * _CLIENTS
