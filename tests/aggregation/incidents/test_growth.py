"""Analysis of a group's history grows with its records, not with the square of its members."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from aggregation.incidents.incidents import analyze
from metrics.model.sample import Sample
from metrics.model.signals import Member, Signal
from tests.aggregation.rebalances.test_rebalances import NEW, left, records, round_of

_FEW, _MANY = 40, 160
_SLACK = 1.5
"""Sorting, and what is read once, do not grow in step."""


def _count_calls(given: list[Sample]) -> int:
    """Return how many calls an analysis takes, those of generators and C functions included."""
    calls = 0

    def note(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        analyze(given)
    finally:
        sys.setprofile(None)
    return calls


def _members(number: int) -> list[Member]:
    return [
        Member(cluster="k", group="g", client_id=f"c{each}", origin=f"c{each}", host=f"h-{each}")
        for each in range(number)
    ]


def _joined(generation: int, at: float, members: list[Member]) -> list[Signal]:
    return round_of(generation, at, *members, causes={each.client_id: NEW for each in members})


def _all_join_again(number: int) -> list[Sample]:
    """Return the records of processes that are killed and start again, all at once."""
    members = _members(number)
    return records(*_joined(1, 0.0, members), *_joined(2, 40.0, members))


def _all_leave_and_come_back(number: int) -> list[Sample]:
    members = _members(number)
    return records(
        *_joined(1, 0.0, members),
        *(left(40.0 + at / 1000, each, "closed") for at, each in enumerate(members)),
        *_joined(2, 80.0, members),
    )


@pytest.mark.parametrize("history", [_all_join_again, _all_leave_and_come_back])
def test_four_times_the_members_take_four_times_the_calls(
    history: Callable[[int], list[Sample]],
) -> None:
    few, many = history(_FEW), history(_MANY)
    _count_calls(few)  # what is read once
    growth = _count_calls(many) / _count_calls(few)
    assert growth < _MANY / _FEW * _SLACK
