"""An agent that has reached `limits.memory` grows no further, and loses no transition."""

import re
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from psutil import Process

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


def test_analyses_one_after_the_other_keep_no_memory(tmp_path: Path) -> None:
    """One of 10,000 members takes some 20 MiB while it runs, and left 14 MiB behind."""
    log, config = tmp_path / "app.log", "role: standalone\n"
    log.write_bytes(b"".join(a_round(f"client-{number}", 1) for number in range(_CLIENTS)))
    with AgentProcess(
        tmp_path / "agent", f"{config}sources: [{{type: logs, paths: ['{log}']}}]\n"
    ) as agent:
        agent.start_ready()
        until(partial(_has_read, agent, log), "all")
        url = f"http://{agent.address}/api/v1/explain?group=g&last={{last}}"
        sizes = []
        for last in range(1, 7):
            with urlopen(url.format(last=last), timeout=60.0) as answer:
                assert len(answer.read()) > 100_000
            sizes.append(Process(agent.process.pid).memory_info().rss)

    assert max(sizes) - sizes[0] < 40 << 20
