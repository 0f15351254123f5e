"""A hub that is killed at random under several agents' pushes: its answers are as before.

The test wrote the lines of each agent's log: rebalances of three groups, each of which two agents
see. Each transition is in the hub's spool once, and a restart changes no group, member or incident.
"""

import json
import os
import random
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.faults.agent_process import AgentProcess, until
from tests.faults.loaded_log import a_round

_KILLS = int(os.environ.get("FAULT_HUB_KILLS", "3"))
_GROUPS, _AGENTS = ("g0", "g1", "g2"), 3
_OF_NOW = {"peak", "peak_name"}
_QUIET_S = 12.0
"""A rebalance is final after some seconds, and an incident of several after more."""

pytestmark = pytest.mark.timeout(400)


def write(folder: Path, agent: int, number: int) -> None:
    """Write a rebalance of a member that this agent sees, in one of its two groups."""
    group = _GROUPS[(agent + number % 2) % _AGENTS]
    with (folder / f"app-{agent}.log").open("ab") as file:
        file.write(a_round(f"c{agent}", number + 1, datetime.now(UTC).astimezone(), group))


def moves(hub: AgentProcess) -> Counter[tuple[str, str, int]]:
    rows = {row["id"]: row for row in hub.on_disk() if row["kind"] == "transition"}
    return Counter((row["group"], row["client_id"], row["to"]) for row in rows.values())


def answers(hub: AgentProcess) -> dict[str, Any]:
    """Return groups, members and incidents, without what depends on the time of the request."""
    paths = ["groups", "members", *(f"explain?group={group}" for group in _GROUPS)]
    return {path: timeless(json.loads(hub.get(f"/api/v1/{path}"))) for path in paths}


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key not in _OF_NOW}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def test_a_hub_that_is_killed_shows_what_it_showed(tmp_path: Path) -> None:
    dice, hub = random.Random(12472), AgentProcess(tmp_path / "hub", "role: hub\n")
    agents = [
        AgentProcess(
            tmp_path / f"agent-{number}",
            f"sources: [{{type: logs, paths: [{tmp_path}/app-{number}.log]}}]\n"
            f"hub: {{push_to: ['http://{hub.address}'], interval: 200ms}}\n",
        )
        for number in range(_AGENTS)
    ]
    rounds = 0
    try:
        hub.start_ready()
        for each in agents:
            each.start_ready()
        for _ in range(_KILLS):
            for _ in range(dice.randrange(4, 12)):
                for agent in range(_AGENTS):
                    write(tmp_path, agent, rounds)
                rounds += 1
                time.sleep(dice.uniform(0.0, 0.2))
            hub.kill()
            hub.start()
        truth = Counter(
            (_GROUPS[(agent + number % 2) % _AGENTS], f"c{agent}", to)
            for agent in range(_AGENTS)
            for number in range(rounds)
            for to in (2, 0)
        )
        until(lambda: moves(hub) == truth, "every transition at the hub")
        until(hub.is_ready, "a ready hub")
        time.sleep(_QUIET_S)
        before = answers(hub)
        assert all(before[f"explain?group={group}"][0]["incidents"] for group in _GROUPS)
        hub.kill()
        hub.start_ready()
        until(lambda: answers(hub) == before, "the same answers after a restart", 30.0)

        stored = Counter(row["id"] for row in hub.on_disk() if row["kind"] == "transition")
        assert set(stored.values()) == {1}
        assert moves(hub) == truth
    finally:
        for each in (*agents, hub):
            if hasattr(each, "process"):
                each.kill()
