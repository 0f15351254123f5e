import gc
import weakref
from collections.abc import Iterator

import pytest

from agent.runtime.collector import INTERVAL_S, Collector


class Cycle:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.own = self


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def collector(clock: Clock) -> Iterator[Collector]:
    collector = Collector(clock)
    yield collector
    collector.close()


def test_no_automatic_collection_reaches_the_oldest_objects(collector: Collector) -> None:
    full = gc.get_stats()[2]["collections"]

    kept = [[number] for number in range(300_000)]

    assert gc.get_stats()[2]["collections"] == full
    assert len(kept) == 300_000
    assert not collector.tick()


def test_a_dead_cycle_is_freed_within_the_interval(collector: Collector, clock: Clock) -> None:
    dead = weakref.ref(Cycle())

    clock.now += INTERVAL_S

    assert collector.tick()
    assert dead() is None
    assert not collector.tick()


def test_survivors_are_frozen_and_a_later_death_is_noticed(
    collector: Collector, clock: Clock
) -> None:
    cycle: Cycle | None = Cycle()
    dead = weakref.ref(cycle)
    clock.now += INTERVAL_S
    collector.tick()
    assert gc.get_freeze_count() > 1_000

    cycle = None
    clock.now += 2 * 3_600.0

    assert collector.tick()
    assert dead() is None


def test_its_end_restores_the_automatic_collections(clock: Clock) -> None:
    before = gc.get_threshold()

    Collector(clock).close()

    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
