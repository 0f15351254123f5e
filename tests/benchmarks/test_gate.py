"""The regression gate: the CPU time of a piece of work, relative to a plain loop in Python.

Both are measured in turns, and the cheapest turn counts: a busy machine only adds time. The margins
are wide; they detect a path that has become several times slower.
"""

import time
from collections import Counter
from collections.abc import Callable
from itertools import islice

import pytest

from aggregation.live.live import live
from metrics.exporters.exposition import AgentStats, Exposition
from metrics.exporters.prometheus import PageWriter
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.churn.lives import SOURCES, START_AT

_TURNS = 5
_LIVES = 300
_MARGIN = 3.0


def _loop() -> None:
    """Do some work that no change of ours makes dearer."""
    found: dict[str, int] = {}
    for number in range(20_000):
        found[f"key-{number % 1000}"] = number


def _cost(work: Callable[[], object]) -> float:
    """Return how many of those loops a piece of work costs."""
    costs, loops = list[float](), list[float]()
    for _ in range(_TURNS):
        for spent, act in ((costs, work), (loops, _loop)):
            begun_s = time.process_time()
            act()
            spent.append(time.process_time() - begun_s)
    return min(costs) / min(loops)


@pytest.mark.parametrize(
    ("source", "usual"),
    [("logs", 10.0), ("broker_logs", 16.0), ("wire", 15.0), ("statistics", 4.5), ("http", 1.7)],
)
def test_a_sources_lives_cost_no_more_than_they_did(source: str, usual: float) -> None:
    def read() -> None:
        for _ in islice(SOURCES[source](_LIVES, lambda _stream, _at: None, Counter()), _LIVES):
            pass

    read()  # what is loaded once
    assert _cost(read) <= usual * _MARGIN


def test_what_follows_from_signals_costs_no_more_than_it_did() -> None:
    got = [signals for _, signals in SOURCES["logs"](_LIVES, lambda _stream, _at: None, Counter())]

    def follow() -> None:
        tracker = Tracker(StatusConfig())
        for signals in got:
            for signal in signals:
                tracker.apply(signal)

    assert _cost(follow) <= 14.0 * _MARGIN


def test_a_page_costs_no_more_than_it_did() -> None:
    tracker, writer = Tracker(StatusConfig()), PageWriter()
    for _, signals in SOURCES["logs"](_LIVES, lambda _stream, _at: None, Counter()):
        for signal in signals:
            tracker.apply(signal)
    stats = AgentStats(version="", python_version="")

    def write() -> None:
        snapshot = tracker.snapshot(START_AT + 10)
        writer.write(Exposition(live(snapshot), stats), "text/plain", 100_000)

    write()
    assert _cost(write) <= 5.5 * _MARGIN
