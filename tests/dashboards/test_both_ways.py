"""An alert fires once for one fact, whether one agent, a hub, or a hub and its agents are scraped.

Each way is played from recordings, and Prometheus evaluates the rules over the pages.
"""

import asyncio
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as replace_in

from agent.hub.incident_recorder import IncidentRecorder
from agent.hub.rebalance_recorder import RebalanceRecorder
from agent.hub.recent_records import RecentRecords
from agent.hub.recorder_io import RecorderIO
from aggregation.live.fleet import Fleet
from aggregation.live.live import live
from metrics.exporters.exposition import AgentStats, Exposition
from metrics.exporters.prometheus import render
from metrics.model.sample import Sample, Scope
from metrics.model.signals import Signal
from metrics.model.snapshot import Snapshot
from metrics.tracking.tracker import Tracker
from tests.aggregation.live.test_fleet_apart import CONFIG, kind_of, read_events
from tests.dashboards.test_rules import FOLDER, tool

GOLDEN = Path(__file__).parent.parent / "golden"
STEP_S = 15
"""Interval of scrapes and evaluations."""
BEFORE, AFTER_S = 48, 1_200
"""Scrapes before the first line, and seconds after the last one."""
_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
_STATS = AgentStats(version="1", python_version="3")

Series = dict[str, dict[int, str]]
"""Values by series and number of the scrape."""


class Agent:
    """An agent that reads recordings as they grew."""

    def __init__(self, name: str, files: Sequence[str]) -> None:
        self.name, self.tracker = name, Tracker(CONFIG)
        self._events = read_events(files)
        self.begin, self.end = self._events[0].at, self._events[-1].at
        self._next = 0

    def advance(self, now: float) -> list[Sample]:
        found: list[Sample] = []
        while self._next < len(self._events) and self._events[self._next].at <= now:
            event = self._events[self._next]
            self._next += 1
            if isinstance(event, Signal):
                found += self.tracker.apply(event)
            else:
                for origin in event.ended:
                    found += self.tracker.detach(origin, event.at)
        found += self.tracker.advance(now)
        if now % STEP_S == 0:
            found += self.tracker.sample(now, STEP_S)
        return [replace_in(record, agent=self.name) for record in found]


class Groups:
    """Whole groups, as hub and standalone record them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.history = RecentRecords(watermark_of=self.watermark)
        io = RecorderIO(
            history=self.history,
            spooled=[],
            limit=100,
            take=lambda _: None,
            agents=self,
            clock=lambda: self.now,
        )
        self._incidents, self._rebalances = IncidentRecorder(io), RebalanceRecorder(io)

    def watermark(self, agent: str) -> float:
        del agent
        return self.now

    def is_pending(self, agent: str, until: float) -> bool:
        del agent, until
        return False

    async def check(self) -> None:
        await self._rebalances.check()
        await self._incidents.check()

    def add(self, snapshot: Snapshot) -> Snapshot:
        return replace(
            snapshot, rebalances=self._rebalances.totals(), incidents=self._incidents.totals()
        )


def read_page(instance: str, snapshot: Snapshot, *, members: bool) -> Iterator[tuple[str, str]]:
    """Yield series and values of a page, as Prometheus stores them."""
    page, _ = render(Exposition(live(snapshot, members=members), _STATS), "text/plain", 100_000)
    for line in page.decode().splitlines():
        if (found := _LINE.match(line)) and not found[1].startswith("rebalance_agent_"):
            labels = f'{found[2]},job="k",instance="{instance}"' if found[2] else 'job="k"'
            yield f"{found[1]}{{{labels}}}", found[3]


async def play(agents: Sequence[Agent], *, hub: bool, scrape_agents: bool) -> Series:
    """Return what a Prometheus scrapes of one agent, or of a hub and its agents."""
    groups, fleet, series = Groups(), Fleet(CONFIG), defaultdict[str, dict[int, str]](dict)
    begin = int(min(agent.begin for agent in agents) // STEP_S * STEP_S) - STEP_S
    end = int(max(agent.end for agent in agents)) + AFTER_S
    for second in range(begin, end):
        groups.now = now = float(second)
        for agent in agents:
            records = agent.advance(now)
            groups.history.add(records, now)
            fleet.record_contact(agent.name, now)
            for record in records:
                fleet.apply(agent.name, record)
        if second % STEP_S == 0:
            await groups.check()
            pages = {each.name: each.tracker.snapshot(now) for each in agents if scrape_agents}
            whole = "hub" if hub else agents[0].name
            pages[whole] = groups.add(show_fleet(fleet, now) if hub else pages[whole])
            for instance, page in pages.items():
                for name, value in read_page(instance, page, members=instance != "hub"):
                    series[name][BEFORE + (second - begin) // STEP_S] = value
    return series


def show_fleet(fleet: Fleet, now: float) -> Snapshot:
    """Return the members that a hub shows."""
    return replace(
        Tracker(CONFIG).snapshot(now),
        consumers=tuple(fleet.rows(Scope.CONSUMER, now)),
        instances=tuple(fleet.rows(Scope.STREAMS, now)),
        groups=fleet.groups(),
        unseen=fleet.unseen(now),
    )


def find_alerts(series: Series, instances: Sequence[str], folder: Path) -> list[Mapping[str, str]]:
    """Return the labels of all alerts that fired at any time."""
    count = 1 + max(number for values in series.values() for number in values)
    given = [
        {
            "series": name,
            "values": " ".join(
                values.get(number, "stale" if number - 1 in values else "_")
                for number in range(count)
            ),
        }
        for name, values in series.items()
    ]
    given += [
        {"series": f'up{{job="k",instance="{name}"}}', "values": f"1x{count}"} for name in instances
    ]
    fired = 'count_over_time(ALERTS{alertstate="firing"}[3h])'
    look = {
        "expr": f"count by (alertname, group, client_id, host) ({fired})",
        "eval_time": f"{(count - 1) * STEP_S}s",
        "exp_samples": [],
    }
    test = {"interval": f"{STEP_S}s", "input_series": given, "promql_expr_test": [look]}
    file = folder / "test.yaml"
    rules = [str(FOLDER / "rules.yaml")]
    interval = {"evaluation_interval": f"{STEP_S}s"}
    file.write_text(json.dumps({"rule_files": rules, **interval, "tests": [test]}))
    done = subprocess.run(
        [tool("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    found = re.findall(r'\{([^{}]*alertname="[^{}]*)\} [0-9.E+]+', done.stdout + done.stderr)
    return [dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)) for labels in found]


def alert_both_ways(case: str, folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Return alerts with their client id, by what is scraped."""
    files = sorted((GOLDEN / case).glob("*.gz")) + sorted((GOLDEN / case).glob("*.log"))
    named = {path.name: f"{kind_of(path)}:{path}" for path in files}
    found: dict[str, list[tuple[str, str]]] = {}
    for way in ("one", "hub", "hub and agents"):
        agents = (
            [Agent("one", list(named.values()))]
            if way == "one"
            else [Agent(name, [file]) for name, file in named.items()]
        )
        series = asyncio.run(play(agents, hub=way != "one", scrape_agents=way != "hub"))
        instances = [*(agent.name for agent in agents), "hub"]
        alerts = find_alerts(series, instances, folder)
        found[way] = sorted((each["alertname"], each.get("client_id", "")) for each in alerts)
    return found


def test_drop_fires_once(tmp_path: Path) -> None:
    """The log has the name of the member's host, the wire an address. A hub has no member."""
    found = alert_both_ways("two_sources/java-2.8-max-poll", tmp_path)

    drop = "KafkaMemberDroppedByPollInterval"
    of_member = [each for each in found["one"] if each[0] == drop]
    assert len(of_member) == 1
    assert of_member[0][1]
    assert found["hub and agents"] == found["one"]
    assert found["hub"] == [(name, "" if name == drop else id_) for name, id_ in found["one"]]


@pytest.mark.parametrize(
    ("case", "alerts"), [("kafkajs", [("KafkaGroupRebalanceStorm", "")]), ("slow-polls", [])]
)
def test_alerts_are_those_of_one_agent(
    case: str, alerts: list[tuple[str, str]], tmp_path: Path
) -> None:
    found = alert_both_ways(f"apart/{case}", tmp_path)

    assert found["hub"] == found["hub and agents"] == found["one"] == alerts
