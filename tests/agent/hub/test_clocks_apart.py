"""A hub shows the same members and incidents, however far apart the clocks of its agents are."""

import json
import logging
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.hub.push_receiver import PushReceiver, with_spool
from agent.hub.recent_records import RecentRecords
from aggregation.incidents.model import Incident
from metrics.model.sample import Sample, Scope, encode, format_time, parse_time
from tests.aggregation.live.test_fleet_apart import (
    AFTER_S,
    CONFIG,
    Arrivals,
    kind_of,
    list_differences,
    run_agent,
)

_RECORDED = Path(__file__).parents[2] / "golden" / "apart"
_CASES = ["kafka-go", "kafkajs", "slow-polls"]
_WIRE = "wirexxxx"


def read_apart(case: str) -> dict[str, Arrivals]:
    """Return the records of an agent for each file, by the name of its spool."""
    files = {
        path.name.replace(".", "")[:4] + "xxxx": f"{kind_of(path)}:{path}"
        for path in sorted((_RECORDED / case).iterdir())
    }
    until = max(run_agent([file])[-1][0] for file in files.values()) + AFTER_S
    return {name: run_agent([file], until) for name, file in files.items()}


def shift(arrivals: Arrivals, ahead_s: float) -> Arrivals:
    """Return what an agent with another clock sends, at the same times."""

    def move(record: Sample) -> Sample:
        joined = record.joined_ts
        return replace(
            record,
            ts=format_time(parse_time(record.ts) + ahead_s),
            joined_ts=None if joined is None else format_time(parse_time(joined) + ahead_s),
        )

    return [(at, move(record)) for at, record in arrivals]


def set_clock(arrivals: Arrivals, at: float, ahead_s: float) -> Arrivals:
    """Return what an agent sends of which the clock is set at an instant."""
    before = [each for each in arrivals if parse_time(each[1].ts) < at]
    return before + shift([each for each in arrivals if parse_time(each[1].ts) >= at], ahead_s)


def shift_logs(agents: dict[str, Arrivals], ahead_s: Sequence[float]) -> dict[str, Arrivals]:
    logs = iter(ahead_s)
    return {
        name: arrivals if name == _WIRE else shift(arrivals, next(logs))
        for name, arrivals in agents.items()
    }


class Hub:
    """A hub that its agents push to each second, and that restarts now and then."""

    def __init__(self, agents: dict[str, Arrivals], restart_s: int) -> None:
        self._agents, self._restart_s = agents, restart_s
        self._next = {name: iter(arrivals) for name, arrivals in agents.items()}
        self._waiting = {name: next(each) for name, each in self._next.items()}
        self._seq = 0
        self.receiver = PushReceiver("", CONFIG)
        self.taken: list[Sample] = []

    def advance(self, second: int, now: float) -> None:
        if second % self._restart_s == self._restart_s - 1:
            saved = json.loads(json.dumps(self.receiver.checkpoint()))
            self.receiver = PushReceiver("", CONFIG, saved)
        for name in self._agents:
            lines = b"".join(map(encode, self._pop(name, now)))
            found = self.receiver.apply_lines(name, lines, now)
            self.taken += [with_spool(record, name) for record in found]

    def _pop(self, name: str, now: float) -> list[Sample]:
        found: list[Sample] = []
        while (waiting := self._waiting.get(name)) is not None and waiting[0] <= now:
            self._seq += 1
            found.append(replace(waiting[1], agent=name, seq=self._seq))
            following = next(self._next[name], None)
            if following is None:
                del self._waiting[name]
            else:
                self._waiting[name] = following
        return found

    def shown(self, now: float) -> dict[str, object]:
        rows = self.receiver.rows(Scope.CONSUMER, now)
        assert len({row.client_id for row in rows}) == len(rows)
        return {row.client_id: int(row.status) for row in rows}


def run_hub(
    agents: dict[str, Arrivals], restart_s: int = 10**9
) -> tuple[Hub, list[dict[str, object]]]:
    """Return the hub, and the members that it has shown each second."""
    start = int(min(arrivals[0][0] for arrivals in agents.values()))
    until = int(max(arrivals[-1][0] for arrivals in agents.values()))
    hub, found = Hub(agents, restart_s), list[dict[str, object]]()
    for second in range(until - start):
        hub.advance(second, float(start + second))
        found.append(hub.shown(float(start + second)))
    return hub, found


def _incidents(hub: Hub) -> Sequence[Incident]:
    now = max(parse_time(record.ts) for record in hub.taken)
    recent = RecentRecords(
        hub.taken, watermark_of=lambda _: now, spans_of=lambda: hub.receiver.clock_spans
    )
    return recent.incidents.read(now).popitem()[1].incidents


def incidents(hub: Hub) -> list[tuple[object, ...]]:
    return [
        (each.kind, sorted(map(attrgetter("client_id"), each.members)), len(each.rebalances))
        for each in _incidents(hub)
    ]


def list_costs(hub: Hub) -> list[float]:
    """Return the seconds of members and partitions of each incident."""
    costs = [each.cost for each in _incidents(hub)]
    return [
        seconds or 0.0
        for cost in costs
        for seconds in (cost.member_seconds, cost.unread_partition_seconds)
    ]


@pytest.mark.parametrize("ahead_s", [(3.0, -20.0, 0.0), (-20.0, 0.0, 3.0)])
@pytest.mark.parametrize("case", _CASES)
def test_members_and_incidents_do_not_depend_on_clocks(case: str, ahead_s: Sequence[float]) -> None:
    """Until the first event that two agents have in common nothing shows an offset."""
    agents = read_apart(case)
    right, of_right = run_hub(agents)
    wrong, of_wrong = run_hub(shift_logs(agents, ahead_s), restart_s=25)
    first = next(n for n, each in enumerate(of_right) if len(each) > 1) + 60

    assert list_differences(of_right[first:], of_wrong[first:]) == []
    assert incidents(wrong) == incidents(right)
    assert [each.id for each in wrong.taken] == [each.id for each in right.taken]


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
@pytest.mark.parametrize(
    ("case", "agent"),
    [
        ("kafkajs", "m1loxxxx"),
        ("kafkajs", "m2loxxxx"),
        ("kafkajs", _WIRE),
        ("kip848-patterns", _WIRE),
        ("slow-polls", "m1loxxxx"),
    ],
)
def test_a_clock_that_is_set_changes_no_incident(
    case: str, agent: str, ahead_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    """What was before the step keeps its times."""
    agents = {name: arrivals for name, arrivals in read_apart(case).items() if arrivals}
    ends = max(arrivals[-1][0] for arrivals in agents.values()) - AFTER_S
    middle = (min(arrivals[0][0] for arrivals in agents.values()) + ends) / 2
    right, _ = run_hub(agents)

    with caplog.at_level(logging.WARNING):
        wrong, _ = run_hub(
            agents | {agent: set_clock(agents[agent], middle, ahead_s)}, restart_s=25
        )

    assert incidents(wrong) == incidents(right)
    assert list_costs(wrong) == pytest.approx(list_costs(right), abs=0.3)
    assert {name: round(found_s) for name, found_s in wrong.receiver.health.clocks.items()} == {
        f"{agent}/{agent}": ahead_s
    }
    assert "clock_differs" in caplog.messages


def test_corrected_clock_is_counted_shown_and_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agents = shift_logs(read_apart("slow-polls"), (-20.0, 0.0))

    with caplog.at_level(logging.WARNING):
        hub, _ = run_hub(agents, restart_s=40)

    agent = next(name for name in agents if name.startswith("m1"))
    assert {name: round(ahead_s) for name, ahead_s in hub.receiver.health.clocks.items()} == {
        f"{agent}/{agent}": -20
    }
    assert hub.receiver.health.errors["clock"] > 1
    warned = [record for record in caplog.records if record.message == "clock_differs"]
    assert len(warned) == 1
    kept = [record for record in hub.taken if record.agent == f"{agent}/{agent}"]
    assert kept == [
        replace(record, agent=f"{agent}/{agent}", seq=own.seq)
        for (_, record), own in zip(agents[agent], kept, strict=False)
    ]
