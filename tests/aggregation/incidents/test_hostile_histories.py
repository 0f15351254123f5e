"""Hostile histories: what it takes to analyze them grows with their length.

Costs are compared with each other: four times the records take about four times as long, and
sixteen times where a rule is quadratic.
"""

import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from aggregation.incidents.incidents import analyze
from metrics.model.sample import Sample
from metrics.model.signals import Member, Signal, SignalKind
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import C1, joined, left, raised, run, signal

_FEW, _TIMES = 250, 4
_RATIO_MAX = 9.0
"""Between 4 (linear) and 16 (quadratic)."""
_TOO_SHORT_S = 0.1
"""CPU time that is lost in the noise of a machine."""
AT = 1000.0
Make = Callable[[int], list[Signal]]


def member(number: int) -> Member:
    return replace(C1, client_id=f"c{number}", origin=f"c{number}.log", host=f"h{number}")


def ended(at: float, one: Member, generation: int) -> Signal:
    return signal(SignalKind.SYNC, at, one, generation=generation)


def rounds(n: int, step_s: float, one: Member = C1) -> list[Signal]:
    """Return n rounds of one member, each at an instant."""
    return [
        each
        for number in range(n)
        for each in (
            raised(1, AT + number * step_s, one),
            ended(AT + number * step_s, one, number),
        )
    ]


HISTORIES: dict[str, Make] = {
    "one instant": lambda n: rounds(n, 0.0),
    "one instant, without causes": lambda n: [
        ended(AT, member(number % 9), number) for number in range(n)
    ],
    "one instant of many members": lambda n: [
        each
        for number in range(n)
        for each in (raised(1, AT, member(number)), ended(AT, member(number), number))
    ],
    "a member that waits beside many generations": lambda n: [
        raised(1, AT - 1.0, member(1)),
        *rounds(n, 0.01),
        ended(AT + n, member(1), n),
    ],
    "members that never end": lambda n: [raised(1, AT + k, member(k)) for k in range(n)],
    "members that leave at one instant": lambda n: [
        each
        for number in range(n)
        for each in (ended(AT - 1, member(number), 1), left(AT, member(number)))
    ],
    "members that come and go each hour": lambda n: [
        each
        for k in range(n)
        for each in (
            raised(2, AT + 3600 * k, member(k)),
            joined(AT + 3600 * k, member(k)),
            ended(AT + 3600 * k, member(k), k),
            left(AT + 3600 * k + 0.5, member(k)),
        )
    ],
    "leaves without joins": lambda n: [left(AT + k * 0.001) for k in range(n)],
    "generations far apart": lambda n: [
        each
        for number in range(n)
        for each in (
            raised(1, AT + number, C1),
            ended(AT + number + 0.5, C1, number * 1_000_003 % (1 << 31)),
        )
    ],
    "one generation again and again": lambda n: [
        each
        for number in range(n)
        for each in (raised(5, AT + number), ended(AT + number + 0.5, C1, 7))
    ],
}


def cost(records: list[Sample]) -> float:
    """Return the CPU seconds of an analysis."""
    began_at = time.process_time()
    analyze(records)
    return time.process_time() - began_at


def made(make: Make, number: int) -> list[Sample]:
    tracker = Tracker(StatusConfig())
    return run(tracker, *make(number)) + tracker.flush()


@pytest.mark.parametrize("name", HISTORIES)
def test_cost_of_an_analysis_is_linear(name: str) -> None:
    few, many = (
        min(cost(made(HISTORIES[name], number)) for _ in range(2))
        for number in (_FEW, _FEW * _TIMES)
    )

    assert many < _RATIO_MAX * max(few, _TOO_SHORT_S)
