"""Revoke callbacks of librdkafka's members: what their log shows before, and the traffic after."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from aggregation.incidents.incidents import analyze
from metrics.model.sample import FETCHERS_PAUSED
from metrics.model.signals import Member, Signal, SignalKind
from tests.aggregation.rebalances.test_rebalances import NEW, A, B, C, left, records, round_of
from tests.metrics.given import signal

D = Member(cluster="k", group="g", client_id="d", origin="d", host="h-d")
ASKED_AT = 100.1
"""A join at 100 s asks all others to join again."""


def reading(at: float, member: Member, *partitions: str, reason: str | None = None) -> Signal:
    return replace(signal(SignalKind.SEEN, at, member), assigned=partitions, reason=reason)


def with_software(member: Member) -> Member:
    return replace(member, software="confluent-kafka-python 2.16.1-rdkafka-2.16.0")


def unread(joins: Mapping[str, float], *, by_traffic: bool = False) -> float:
    """Return the unread time after a new member joined, in partition seconds.

    ``joins`` are the times in which A, B and C, as far as named, join after they were asked. Each
    has one partition, and has it again at the end.
    """
    members = [with_software(m) if by_traffic else m for m in (A, B, C) if m.client_id in joins]
    at = {m.client_id: ASKED_AT + joins[m.client_id] for m in members}
    end = max(at.values()) + 0.5
    found = [*round_of(1, 0.0, *members, causes={m.client_id: NEW for m in members})]
    found += round_of(2, 100.0, *members, D, causes={"d": NEW}, joins=at)
    for each in members:
        name = f"orders-{'abc'.index(each.client_id)}"
        given_up_at = at[each.client_id] if by_traffic else ASKED_AT
        why = None if by_traffic else FETCHERS_PAUSED
        found += [
            reading(1.0, each, name),
            reading(given_up_at, each, reason=why),
            reading(end, each, name),
        ]
    cost = analyze(records(*found)).incidents[-1].cost.unread_partition_seconds
    assert cost is not None
    return cost


@pytest.mark.parametrize("by_traffic", [False, True])
@pytest.mark.parametrize(
    ("joins", "expected"),
    [
        # works of up to 2 s: each reads until it joins; the last is only known to be longer by 0.5
        ({"a": 0.5, "b": 1.5, "c": 2.0}, 2.0 + 1.0 + 0.5 + 0.5),
        # B's callback blocks, the others poll all the time
        ({"a": 0.0, "b": 10.0, "c": 0.1}, 10.5 + (0.5 + 9.9) + (0.5 + 9.9)),
        # works that end at one time
        ({"a": 1.6, "b": 1.7, "c": 1.6}, 0.6 + 0.6 + 0.6),
        # two members: the one that was asked has nobody beside it
        ({"a": 3.0}, 3.5),
    ],
)
def test_cost_begins_with_the_callback(
    joins: Mapping[str, float], expected: float, *, by_traffic: bool
) -> None:
    assert unread(joins, by_traffic=by_traffic) == pytest.approx(expected)


def test_only_other_member_is_compared_with_its_other_rebalances() -> None:
    """B restarts, so A is asked twice: its works take 1 s and 1.5 s."""
    found = round_of(1, 0.0, A, B, causes={"a": NEW, "b": NEW})
    found += [reading(1.0, A, "orders-0"), reading(1.0, B, "orders-1")]
    found += [reading(99.9, B), left(100.0, B, "the consumer is being closed")]
    found += round_of(2, 100.0, A, joins={"a": 101.1})
    found += [reading(100.1, A, reason=FETCHERS_PAUSED), reading(101.6, A, "orders-0", "orders-1")]
    found += round_of(3, 110.0, A, B, causes={"b": NEW}, joins={"a": 111.6})
    found += [reading(110.1, A, reason=FETCHERS_PAUSED)]
    found += [reading(112.1, A, "orders-0"), reading(112.1, B, "orders-1")]
    incident = analyze(records(*found)).incidents[-1]
    of_b_s = 101.6 - 99.9
    assert incident.cost.unread_partition_seconds == pytest.approx(of_b_s + 0.5 + 2 * (0.5 + 0.5))
