"""The members that a hub shows are the same, whether one agent reads its files or an agent each."""

import heapq
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path

import pytest

from agent.cli.replay_files import group_by_kind, make_options, read
from agent.sources.base import Tick
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from aggregation.live.fleet import Fleet
from metrics.model.sample import Sample, Scope
from metrics.model.signals import Signal
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

_RECORDED = Path(__file__).parents[2] / "golden" / "apart"
CONFIG = StatusConfig()
INTERVAL_S = 15.0
AFTER_S = 900.0
"""Seconds of silence after the last line."""
BRIEF_S = 4
"""Two sources show one move some seconds apart."""
SAMPLED_S = 27
"""A hub learns from an agent's next samples, or their absence, that the agent has forgotten a dead
member."""

Arrivals = list[tuple[float, Sample]]
"""Records and the times at which an agent makes them (Unix seconds)."""


def read_events(files: Sequence[str]) -> list[Signal | Tick]:
    """Return the events in these files, in order of time."""
    options = make_options(choose_dialects("auto", []), "", "UTC", None, [])
    return list(heapq.merge(*read(group_by_kind(None, files), options), key=attrgetter("at")))


def run_agent(files: Sequence[str], until: float | None = None) -> Arrivals:
    """Return the records of an agent that reads these files as they grew."""
    tracker, found = Tracker(CONFIG), list[tuple[float, Sample]]()
    events = read_events(files)
    now = 0.0

    def wait(to: float) -> None:
        nonlocal now
        now = now or to
        while now + 1.0 <= to:
            now += 1.0
            found.extend((now, record) for record in tracker.advance(now))
            if now // INTERVAL_S > (now - 1.0) // INTERVAL_S:
                deadline = now // INTERVAL_S * INTERVAL_S
                found.extend((now, record) for record in tracker.sample(deadline, INTERVAL_S))

    for event in events:
        wait(event.at)
        if isinstance(event, Signal):
            found.extend((now, record) for record in tracker.apply(event))
        else:
            for origin in event.ended:
                found.extend((now, record) for record in tracker.detach(origin, event.at))
    if until is not None:
        wait(until)
    return found


def kind_of(path: Path) -> str:
    if path.name.startswith("server"):
        return "broker_log"
    return "pcap" if path.name.startswith("wire") else "logs"


def shown(agents: dict[str, Arrivals], times: Sequence[float]) -> Iterator[dict[str, object]]:
    """Yield the members, with their statuses, that a hub of these agents shows at each time."""
    fleet, read_to = Fleet(CONFIG), dict.fromkeys(agents, 0)
    for now in times:
        for name, arrivals in agents.items():
            fleet.record_contact(name, now)
            if read_to[name] == len(arrivals) or arrivals[read_to[name]][0] > now:
                fleet.record_idle(name, now)
            while read_to[name] < len(arrivals) and arrivals[read_to[name]][0] <= now:
                fleet.apply(name, arrivals[read_to[name]][1])
                read_to[name] += 1
        found: dict[str, object] = {}
        for row in fleet.rows(Scope.CONSUMER, now):
            assert row.client_id not in found, f"{row.client_id} twice at {now}"
            found[row.client_id] = int(row.status)
        yield found


def list_differences(one: list[dict[str, object]], other: list[dict[str, object]]) -> list[str]:
    """Return the differences that last for more than a moment."""
    names = {name for each in one + other for name in each}
    found: list[str] = []
    for name in sorted(names):
        since, before = 0, None
        pairs = [(a.get(name), b.get(name)) for a, b in zip(one, other, strict=True)]
        for second, pair in enumerate([*pairs, (None, None)]):
            if pair != before:
                brief_s = SAMPLED_S if before == (0, 3) else BRIEF_S
                if before is not None and before[0] != before[1] and second - since > brief_s:
                    found.append(f"{name}: {before[0]}, apart {before[1]}, {since} to {second} s")
                since, before = second, pair
    return found


@pytest.mark.parametrize("case", sorted(path.name for path in _RECORDED.iterdir() if path.is_dir()))
def test_members_are_those_of_one_agent(case: str) -> None:
    files = {path.name: f"{kind_of(path)}:{path}" for path in (_RECORDED / case).iterdir()}
    ends = [arrivals[-1][0] for file in files.values() if (arrivals := run_agent([file]))]
    until = max(ends) + AFTER_S
    together = {"one": run_agent(list(files.values()), until)}
    apart = {name: run_agent([file], until) for name, file in files.items()}
    start = int(min(arrivals[0][0] for arrivals in together.values()))
    times = [float(second) for second in range(start, int(until))]

    assert list_differences(list(shown(together, times)), list(shown(apart, times))) == []
