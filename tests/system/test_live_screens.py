"""First page and terminal, at every look, while something happens to a group of real consumers.

From the second second of an incident to the end of the watch, each look has to name it. The watch
ends ten minutes after the incident, or seconds after it in the case that each run has.
"""

import html
import re
import time
import urllib.request
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.client.api_client import ask
from agent.lab.lab import Lab
from aggregation.explain.incident_words import summarize
from aggregation.incidents.answers import IncidentAnswer
from metrics.model.sample import parse_time
from tests.system.live_scene import PARTITIONS, LiveGroup, MemberProcess, live_group, until
from tests.system.repeated_looks import RepeatedLooks
from tests.tmux import Terminal, terminal
from tests.walks import PROGRAM

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.process, pytest.mark.timeout(1200)]

EVERY_S = 0.5
FROM_S = 2.0
REFRESH_S = 1.0
"""The terminal view asks every half second, and draws then."""
LEAST_LOOKS = 4
SHORT_S, TEN_MINUTES_S = 4.0, 600.0
ROLLOUT = ("m1", "m2", "m3", "m4")
COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}
_SIZE = (160, 12)
_NOW = re.compile(r'<section id="now".*?</section>', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


class Glance(NamedTuple):
    """The contents of page and terminal, read between two instants (Unix seconds)."""

    start: float
    end: float
    page: str
    row: str


class Watcher(RepeatedLooks[Glance]):
    """Looks every half second at the first page, and at the first screen of the terminal view."""

    def __init__(self, url: str, group: str, window: Terminal) -> None:
        """Watch a group."""
        super().__init__(self._look_once, EVERY_S)
        self._url, self._group, self._window = url, group, window

    def stall_s(self, since: float) -> float:
        """Return the longest time since an instant that a busy machine kept it from looking."""
        glances = [glance for glance in self.looks if glance.end > since]
        pauses = [after.start - before.end for before, after in pairwise(glances)]
        lengths = [glance.end - glance.start for glance in glances]
        return max([0.0, *(pause - EVERY_S for pause in pauses), *lengths])

    def _look_once(self) -> Glance:
        start = time.time()
        with urllib.request.urlopen(f"{self._url}/", timeout=60) as answer:
            page = answer.read().decode()
        now = _NOW.search(page)
        text = html.unescape(_TAG.sub("", now[0])) if now else ""
        rows = self._window.shown().splitlines()
        row = next((row for row in rows if row.split()[:1] == [self._group]), "")
        return Glance(start, time.time(), text, row)


def watch(
    lab: Lab,
    folder: Path,
    act: Callable[[LiveGroup, dict[str, MemberProcess]], None],
    words: str,
    after_s: float,
    settings: dict[str, str] | None = None,
    names: tuple[str, ...] = ("m1", "m2"),
) -> None:
    """Cause an incident of a group by ``act``, and check each glance.

    ``words`` is a pattern for the text of the incident after its end.
    """
    window_folder = folder / "window"
    window_folder.mkdir()
    with live_group(lab, folder) as (group, url):
        members = {name: group.start(name, **(settings or {})) for name in names}
        begun = group.settle(members, PARTITIONS)
        command = (*PROGRAM, "top", "--from", url, "--interval", str(EVERY_S))
        with (
            terminal(window_folder, _SIZE, command) as window,
            Watcher(url, group.group, window) as watcher,
        ):
            window.wait(lambda shown: group.group in shown, "group")
            act(group, members)
            incident = until(lambda: _ended(url, group.group, begun), "end of the incident")
            _watch_on(watcher, incident, after_s)
            wrong = list(_missed(watcher, incident))
    assert watcher.faults == []
    assert re.search(words, summarize(incident)), summarize(incident)
    assert not wrong, "\n".join(wrong)


def _ended(url: str, group: str, since: float) -> IncidentAnswer | None:
    """Return the last incident that began after an instant, once nothing goes on any more."""
    found = ask(url, "incidents", list[IncidentAnswer], group=group)
    later = [each for each in found if parse_time(each.started_at) > since]
    return None if not later or any(each.ongoing for each in found) else later[0]


def _watch_on(watcher: Watcher, incident: IncidentAnswer, after_s: float) -> None:
    """Wait for looks until ``after_s`` seconds after the end, longer on a busy machine."""
    start_at, end_at = parse_time(incident.started_at), parse_time(incident.ended_at or "")

    def is_enough() -> bool:
        wanted = min(TEN_MINUTES_S, after_s + 2 * watcher.stall_s(start_at))
        return bool(watcher.looks) and watcher.looks[-1].start > end_at + wanted

    while not is_enough():
        seen = len(watcher.looks)
        until(partial(_has_more, watcher, seen), "further look")


def _has_more(watcher: Watcher, seen: int) -> bool | None:
    return len(watcher.looks) > seen or None


def _missed(watcher: Watcher, incident: IncidentAnswer) -> Iterable[str]:
    """Yield the looks that do not name a member of the incident."""
    start_at, end_at = parse_time(incident.started_at), parse_time(incident.ended_at or "")
    names = "|".join(sorted(member.client_id for member in incident.members))
    name = re.compile(rf"\b({names})\b")
    from_at, until_at = start_at + FROM_S + watcher.stall_s(start_at), end_at + TEN_MINUTES_S
    looks = [each for each in watcher.looks if from_at <= each.start and each.end <= until_at]
    if len(looks) < LEAST_LOOKS:
        yield f"{len(looks)} looks between {from_at} and {until_at}"
    for look in looks:
        after = f"+{look.start - start_at:.1f} s"
        if not name.search(look.page):
            yield f"{after}: page: {' '.join(look.page.split())[:200]!r}"
        if look.start >= from_at + REFRESH_S and not name.search(look.row):
            yield f"{after}: terminal: {look.row!r}"


def drop(group: LiveGroup, members: dict[str, MemberProcess]) -> None:
    begun = time.time()
    members["m2"].send("stall 8")
    group.wait("polls", "m2", begun)
    group.settle(members, PARTITIONS)


def join(group: LiveGroup, members: dict[str, MemberProcess]) -> None:
    members["m3"] = group.start("m3", **COOPERATIVE)
    group.settle(members, PARTITIONS)


def rolling_restart(group: LiveGroup, members: dict[str, MemberProcess]) -> None:
    for name in list(members):
        members[name].close()
        members[name] = group.start(name)
        group.settle(members, PARTITIONS)


def test_cooperative_join(lab: Lab, tmp_path: Path) -> None:
    watch(lab, tmp_path, join, "m3 joined", SHORT_S, COOPERATIVE)


@pytest.mark.field
def test_cooperative_join_for_ten_minutes(lab: Lab, tmp_path: Path) -> None:
    watch(lab, tmp_path, join, "m3 joined", TEN_MINUTES_S, COOPERATIVE)


@pytest.mark.field
def test_drop_for_ten_minutes(lab: Lab, tmp_path: Path) -> None:
    watch(lab, tmp_path, drop, "m2 exceeded its poll interval", TEN_MINUTES_S)


@pytest.mark.field
def test_rolling_restart_for_ten_minutes(lab: Lab, tmp_path: Path) -> None:
    watch(lab, tmp_path, rolling_restart, "m1, m2, m3.* rolled out", TEN_MINUTES_S, names=ROLLOUT)
