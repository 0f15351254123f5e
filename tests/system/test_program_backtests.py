"""Separate groups for two programs that share one: the prediction, and the result of real clients.

Each program reads a topic of its own, and is scaled out and in.
"""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.lab.broker import Cluster
from agent.lab.clients import Clients
from agent.processes.ports import HOST, free_port
from aggregation.counterfactuals.change import PastIncidents
from aggregation.counterfactuals.facts import IncidentFacts
from aggregation.counterfactuals.membership_rules import propose_separate_groups
from tests.system.backtests import PATIENT, UNREAD_OFF_S, UNREAD_SHARE, read_incidents
from tests.system.live_scene import LiveGroup, MemberProcess, unread_seconds, until
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.field, pytest.mark.timeout(900)]

PARTITIONS = 6
MEMBERS = {"billing": 3, "audit": 2}
SETTINGS = PATIENT | {"heartbeat.interval.ms": "3000", "work.s": "1"}


class Outcome(NamedTuple):
    """The incidents and unread time of one run."""

    since: float
    """End of the start (Unix seconds)."""
    incidents: tuple[IncidentFacts, ...]
    """Those of the start, too."""
    unread_s: float


def scale_each(folder: Path, cache: Path, groups: dict[str, str]) -> Outcome:
    """Add and remove a member of each program; ``groups`` are group ids by program."""
    logs, listens = folder / "clients", f"{HOST}:{free_port()}"
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(folder, cache))
        with Clients(cluster.bootstrap, folder / "admin", cache) as operators:
            admin = operators.admin()
            for program in groups:
                admin.do(f"create-topic {program} {PARTITIONS}")
        proxy = f'{{type: proxy, listen: "{listens}", upstream: ["{cluster.bootstrap}"]}}'
        sources = f'{proxy}\n  - {{type: logs, paths: ["{logs}/*.log"]}}'
        agent = stack.enter_context(Observer(logs, folder / "agent", sources, "standalone"))
        agent.wait_ready()
        programs = {
            program: LiveGroup(stack, logs, listens, group, program)
            for program, group in groups.items()
        }
        members = {
            program: {
                f"{program}-{number}": start(programs[program], f"{program}-{number}")
                for number in range(1, MEMBERS[program] + 1)
            }
            for program in programs
        }
        settle(programs, members)
        since = time.time()
        for program in (*programs, *programs):
            name = f"{program}-9"
            members[program][name] = start(programs[program], name)
            settle(programs, members)
            members[program].pop(name).close()
            settle(programs, members)
        found = [
            read_incidents(folder / "agent" / "spool", group, 0.0)[0]
            for group in sorted(set(groups.values()))
        ]
        return Outcome(
            since,
            tuple(each for incidents in found for each in incidents),
            sum(unread_seconds(group.happened, {}, since) for group in programs.values()),
        )


def start(group: LiveGroup, name: str) -> MemberProcess:
    return group.start(name, **{key.replace(".", "_"): text for key, text in SETTINGS.items()})


def settle(programs: dict[str, LiveGroup], members: dict[str, dict[str, MemberProcess]]) -> None:
    """Wait until all partitions have a reader, and for a while after that."""
    for program, group in programs.items():
        group.settle(members[program], PARTITIONS)
    end = time.time() + 4.0
    until(lambda: time.time() > end or None, "the end of a rest")


def test_groups_of_their_own_save_what_they_promise_at_least(cache: Path, tmp_path: Path) -> None:
    first = scale_each(tmp_path / "first", cache, dict.fromkeys(MEMBERS, "shared"))
    scaled = [each for each in first.incidents if each.started_at >= first.since]
    change = propose_separate_groups(PastIncidents(first.incidents, scaled))
    assert change is not None, first
    recorded = sum(each.unread_s or 0.0 for each in scaled)
    assert recorded == pytest.approx(first.unread_s, rel=UNREAD_SHARE, abs=UNREAD_OFF_S)
    lines = dict(change.lines)["clients"].splitlines()
    groups = {line.rpartition("-")[2]: line.partition("=")[2] for line in lines}

    second = scale_each(tmp_path / "second", cache, groups)

    predicted = recorded - (change.unread_avoided_s or 0.0)
    assert second.unread_s <= predicted + max(UNREAD_OFF_S, UNREAD_SHARE * predicted)
