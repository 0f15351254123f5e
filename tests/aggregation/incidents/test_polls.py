"""Times of members' polls by invented rebalances; `round_of` asks members 0.1 s after its start."""

import pytest
from msgspec.structs import replace

from aggregation.incidents.incidents import analyze
from aggregation.incidents.model import Incident
from metrics.model.signals import Member, Signal
from tests.aggregation.rebalances.test_rebalances import (
    NEW,
    START,
    A,
    B,
    C,
    left,
    records,
    round_of,
)
from tests.metrics.given import raised


def last(*signals: Signal) -> Incident:
    return analyze(records(*START, *signals)).incidents[-1]


def with_software(member: Member, name: str | None) -> Member:
    return replace(member, software=name)


def test_members_that_are_asked_join_at_their_next_poll() -> None:
    """B is asked at 100.1 s and joins 2 s later, C joins 1 s later; A began."""
    found = last(
        *round_of(2, 100.0, A, B, C, causes={"a": NEW}, joins={"b": 102.1, "c": 101.1}),
    )
    assert found.poll_wait_s == pytest.approx(1.5)
    assert found.notice_s == pytest.approx(0.1)


def test_notice_counts_from_the_leave() -> None:
    found = last(left(99.0, A, "closed"), *round_of(2, 100.0, B, C, joins={"b": 101.1}))
    assert found.notice_s == pytest.approx(1.1)
    assert found.poll_wait_s == pytest.approx(0.5)


def test_means_are_over_all_rebalances_of_an_incident() -> None:
    """The member that left is back: the others are asked twice."""
    found = last(
        left(100.0, A, "closed"),
        *round_of(2, 100.0, B, C, joins={"b": 101.1, "c": 101.1}),
        *round_of(3, 110.0, A, B, C, causes={"a": NEW}, joins={"b": 113.1, "c": 113.1}),
    )
    assert len(found.rebalances) == 2
    assert found.group_size == 3
    assert found.poll_wait_s == pytest.approx(2.0)


def test_nobody_was_asked() -> None:
    found = last(raised(2, 100.0, A, reason=NEW[1]))
    assert (found.notice_s, found.poll_wait_s, found.group_size) == (None, None, 1)


@pytest.mark.parametrize(
    ("of_b", "expected"),
    [
        ("confluent-kafka-python 2.16.1-rdkafka-2.16.0", True),
        ("apache-kafka-java 4.0.0", False),
        (None, None),
    ],
)
def test_librdkafka_joins_without_a_poll(of_b: str | None, expected: bool | None) -> None:
    members = [with_software(A, "librdkafka 2.16.0"), with_software(B, of_b)]
    found = last(*round_of(2, 100.0, *members, causes={"a": NEW}))
    assert found.joins_without_poll is expected
