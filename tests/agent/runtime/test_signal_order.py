"""While a source reads a backlog, events of all sources are applied by their time."""

from collections.abc import Callable, Sequence

import pytest

from agent.runtime import signal_order
from agent.runtime.signal_order import LOOK_S, STALL_S, SignalOrder
from agent.sources.base import Emit, Source, SourceHealth, Tick
from metrics.model.signals import Signal, SignalKind
from tests.agent.runtime.test_reporter_clocks import Traffic
from tests.metrics.given import C1, signal


class Files:
    """A source that has read its files up to a time."""

    name = kind = "logs"

    def __init__(self, *, is_behind: bool = True) -> None:
        self.health = SourceHealth()
        self.is_behind = is_behind
        self.limit: float | None = None

    async def run(self, emit: Emit, detach: object) -> None:
        raise NotImplementedError

    def watermark(self, now: float) -> float:
        return now

    def limit_reading(self, to: float | None) -> None:
        self.limit = to

    def checkpoint(self) -> dict[str, object]:
        return {}


class Applied:
    """A signal order that records the events that it passes on."""

    def __init__(self, *sources: Source) -> None:
        self.ats: list[float] = []
        self.passed: list[float] = []
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.order = SignalOrder(
            lambda event: self.ats.append(event.at),
            self.passed.append,
            lambda: self.now,
            self._call_later,
        )
        self.order.attach(sources)

    def _call_later(self, after_s: float, call: Callable[[], None]) -> None:
        self.due.append((self.now + after_s, call))

    def wait(self, until: float) -> None:
        """Let the monotonic clock go on, with what is planned meanwhile."""
        while self.due and self.due[0][0] <= until:
            self.now, call = self.due.pop(0)
            call()
        self.now = until

    def add(self, *ats: float) -> None:
        for at in ats:
            self.order.add(at_time(at))


def at_time(at: float) -> Signal:
    return signal(SignalKind.SEEN, at, C1)


def test_events_of_a_backlog_are_applied_by_their_time() -> None:
    logs, broker = Files(), Files()
    applied = Applied(logs, broker)

    applied.add(1.0, 5.0, 9.0)
    applied.add(2.0, 4.0)
    applied.order.add(Tick(3.0, ("/a.log",)))
    assert applied.ats == []
    applied.order.release(4.5)

    assert applied.ats == [1.0, 2.0, 3.0, 4.0]
    assert applied.passed == [1.0, 2.0, 3.0, 4.0]
    logs.is_behind = broker.is_behind = False
    applied.add(8.0)
    applied.order.release(10.0)
    assert applied.ats[4:] == []
    applied.now = LOOK_S
    applied.order.release(10.0)
    assert applied.ats[4:] == [5.0, 8.0, 9.0]


@pytest.mark.parametrize("sources", [[Files()], [Files(is_behind=False), Traffic()]])
def test_without_another_source_of_files_nothing_waits(sources: Sequence[Source]) -> None:
    applied = Applied(*sources)

    applied.add(5.0, 1.0)

    assert applied.ats == [5.0, 1.0]


def test_a_line_that_is_read_late_is_before_what_another_file_has_later() -> None:
    applied = Applied(Files(is_behind=False), Files(is_behind=False))

    applied.add(1.2, 1.3)
    applied.wait(0.4)
    applied.add(1.1, 1.9)
    assert not applied.order.is_holding, "no backlog: the agent is ready"
    applied.wait(LOOK_S)
    assert applied.ats == [1.1, 1.2, 1.3]
    assert applied.order.first_at == 1.9
    applied.wait(0.4 + LOOK_S)

    assert applied.ats == [1.1, 1.2, 1.3, 1.9]
    assert not applied.due


def test_what_waits_live_does_not_keep_an_agent_from_being_ready() -> None:
    """Events come all the time, so that some always wait."""
    logs = Files()
    applied = Applied(logs, Files(is_behind=False))

    applied.add(1.0)
    assert applied.order.is_holding
    logs.is_behind = False
    applied.now = 0.4
    applied.add(1.4)
    applied.wait(0.8)
    applied.add(1.8)
    applied.wait(0.4 + LOOK_S)

    assert applied.ats == [1.0, 1.4]
    assert not applied.order.is_holding


def test_what_waits_is_bounded_and_the_oldest_half_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal_order, "HELD_MAX", 4)
    applied = Applied(Files(), Files())

    applied.add(9.0, 7.0, 8.0, 6.0, 5.0)

    assert applied.ats == [5.0, 6.0, 7.0]
    assert [event.at for event in applied.order.held] == [8.0, 9.0]


def test_streams_that_are_ahead_are_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal_order, "AHEAD_MAX", 2)
    logs = Files()
    applied = Applied(logs, Files())

    applied.add(5.0, 6.0, 7.0)
    applied.order.release(4.0)
    assert logs.limit == 4.0
    applied.order.release(5.5)
    assert logs.limit is None


def test_a_source_that_stands_still_delays_the_others_for_a_minute() -> None:
    applied = Applied(Files(), Files())
    applied.order.release(4.0)
    applied.add(5.0)

    applied.now = STALL_S
    applied.order.release(4.0)
    assert applied.ats == []
    applied.now = STALL_S + 1
    applied.order.release(4.0)

    assert applied.ats == [5.0]


def test_what_waited_is_applied_after_a_restart() -> None:
    before = Applied(Files(), Files())
    before.add(3.0, 1.0)
    after = Applied(Files(), Files())

    after.order.restore(before.order.held)
    after.add(2.0)
    after.order.release(2.5)

    assert after.ats == [1.0, 2.0]
