"""A client in another time zone than its agent: its log and the wire are one member's, live."""

import json
import re
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.lab.clients import Clients
from agent.lab.lab import Lab
from agent.processes.ports import HOST, free_port
from agent.sources.lines.envelopes.clock_shift import LIVE_GAP_S
from tests.system.live_scene import pass_by
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(600)]

TRANSITIONS = "kafka_consumer_rebalance_transitions_total"
ERRORS = "rebalance_agent_source_errors_total"
INFO = "kafka_consumer_member_info"
HOUR_S = 3_600
GROUP, SLOW, PEER = "apart", "apart-m1", "apart-m2"


def zone(ahead_s: int) -> dict[str, str]:
    """Return the environment of an agent that takes this machine's local time for another one."""
    west_s = ahead_s - time.localtime().tm_gmtoff
    hours, minutes = divmod(abs(west_s) // 60, 60)
    return {"TZ": f"APART{'-' if west_s < 0 else '+'}{hours:02}:{minutes:02}"}


@pytest.mark.parametrize(
    "ahead_s",
    [
        pytest.param(HOUR_S, id="ahead"),
        pytest.param(-HOUR_S, id="behind", marks=pytest.mark.field),
    ],
)
def test_log_an_hour_apart_and_the_wire_are_one_member(
    lab: Lab, cache: Path, tmp_path: Path, ahead_s: int
) -> None:
    topic, group = f"apart-{ahead_s}", f"{GROUP}{ahead_s}"
    lab.admin.do(f"create-topic {topic} 4")
    logs, bootstrap = tmp_path / "clients", f"{HOST}:{free_port()}"
    upstream = json.dumps(lab.cluster.bootstrap.split(","))
    proxy = f"{{type: proxy, listen: {bootstrap!r}, upstream: {upstream}}}"
    log = f'{{type: logs, paths: ["{logs}/*.log"]}}'
    with ExitStack() as stack:
        both = stack.enter_context(
            Observer(logs, tmp_path / "both", f"{log}\n  - {proxy}", environment=zone(ahead_s))
        )
        alone = stack.enter_context(Observer(logs, tmp_path / "log", environment=zone(ahead_s)))
        both.wait_ready()
        alone.wait_ready()
        begin_at = time.time()
        clients = stack.enter_context(Clients(bootstrap, logs, cache))

        slow = clients.consumer("4.3.0", SLOW, group, [topic], {"max.poll.interval.ms": "4000"})
        slow.wait_for("assigned")
        slow.do("stall 6000")
        slow.wait_for("assigned")
        assert ahead_hours(alone) == ahead_s / HOUR_S
        assert alone.counter(ERRORS, reason="zone") == 1.0
        assert alone.codes(SLOW, [2, 0, 5, 0]) == [2, 0, 5, 0]  # a checkpoint follows its samples
        alone.stop()
        slow.do("stall 6000")
        slow.wait_for("assigned")
        pass_by(time.time() + LIVE_GAP_S)  # what was written meanwhile is a backlog
        alone.start()
        alone.wait_ready()
        assert alone.codes(SLOW, [2, 0, 5, 0, 5, 0]) == [2, 0, 5, 0, 5, 0]
        peer = clients.consumer("4.3.0", PEER, group, [topic])
        slow.wait_for("assigned")
        peer.wait_for("assigned")
        peer.close()
        slow.wait_for("assigned")
        slow.close()

        wanted = {SLOW: [2, 0, 5, 0, 5, 0, 1, 0, 1, 0, 6, 0], PEER: [2, 0, 6, 0]}
        for agent in (both, alone):
            assert {name: agent.codes(name, codes) for name, codes in wanted.items()} == wanted
            assert_counted_once(agent, group, wanted)
            assert_dated(agent, group, begin_at)
        assert "ahead_hours" in both.logged("log_in_another_zone")
        assert ahead_hours(alone) == ahead_s / HOUR_S  # one warning: the checkpoint has it


def ahead_hours(agent: Observer) -> float:
    """Return by how many hours the slow member's log is ahead, as the agent warned of once."""
    (found,) = re.findall(rf"{SLOW}\.log .*ahead_hours=(\S+)", agent.logged("log_in_another_zone"))
    return float(found)


def assert_counted_once(agent: Observer, group: str, wanted: dict[str, list[int]]) -> None:
    """Assert that each member has one series, and one count of each episode."""
    for client_id, codes in wanted.items():
        named = {"client_id": client_id, "group": group}
        causes = float(sum(code != 0 for code in codes))
        assert agent.gauge(TRANSITIONS, 1.0, status="NewMember", **named) == 1.0
        assert agent.counter(TRANSITIONS, **named) in {causes, float(len(codes))}


def assert_dated(agent: Observer, group: str, begin_at: float) -> None:
    """Assert that each transition has the time of its event, by the wall clock."""
    end_at = time.time()
    for row in agent.transitions_of_group(group):
        at = datetime.fromisoformat(row["ts"]).astimezone(UTC).timestamp()
        assert begin_at - HOUR_S / 4 < at < end_at + HOUR_S / 4, row
