"""A hub that is away while an hour's records are made: all of them reach it, once, in order."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.faults.agent_process import AgentProcess, transitions, until
from tests.faults.loaded_log import a_round

_HOUR_S = 3600
_STEP_S = 5
"""Of recorded time between two rebalances; the log is read at once."""
_REBALANCES = "kafka_consumer_rebalances_total"

pytestmark = pytest.mark.timeout(300)


def test_an_hour_of_records_waits_for_the_hub(tmp_path: Path) -> None:
    log, count = tmp_path / "app.log", _HOUR_S // _STEP_S
    begun_at = datetime.now().astimezone() - timedelta(seconds=_HOUR_S)
    hub = AgentProcess(tmp_path / "hub", "role: hub\n")
    sources = f"sources: [{{type: logs, paths: [{log}]}}]\n"
    push = f"hub: {{push_to: ['http://{hub.address}'], interval: 200ms}}\n"
    with hub, AgentProcess(tmp_path / "agent", sources + push) as agent:
        hub.start_ready()
        agent.start_ready()
        log.write_bytes(a_round("c1", 1, begun_at))
        until(lambda: len(transitions(hub.on_disk())) == 2, "the first records at the hub")
        hub.kill()
        with log.open("ab") as file:
            for number in range(1, count):
                at = begun_at + timedelta(seconds=number * _STEP_S)
                file.write(a_round("c1", number + 1, at))
        until(lambda: agent.total(_REBALANCES) == count, "every rebalance read")
        until(lambda: agent.got("hub_unreachable"), "a hub that is missed")

        hub.start_ready()

        until(lambda: len(transitions(hub.on_disk())) >= 2 * count, "every record at the hub")
        until(lambda: agent.got("hub_reachable"), "a hub that is there again")
        assert (agent.drain(), hub.drain()) == (0, 0)

    assert transitions(hub.published()) == transitions(agent.published())
    rows = [row for row in hub.published() if row["kind"] == "transition"]
    assert [row["to"] for row in rows] == [2, 0] * count
