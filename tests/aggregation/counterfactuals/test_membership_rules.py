"""Rules of instance ids, programs and Streams; the numbers were computed by hand."""

from typing import Any

import pytest

from aggregation.counterfactuals.change import Change, Confidence, PastIncidents
from aggregation.counterfactuals.changes import find_changes
from aggregation.counterfactuals.facts import Absence, IncidentFacts
from aggregation.counterfactuals.lines import PROBING_INTERVAL
from aggregation.counterfactuals.membership_rules import propose_separate_groups
from aggregation.counterfactuals.sentences import describe_change, name_of
from aggregation.incidents.settings import ClientKind
from tests.aggregation.counterfactuals.given import H, K, incident

THREAD = "app-c0ffee-StreamThread-1-consumer"


def changes(*facts: IncidentFacts) -> dict[str, Change]:
    return {each.setting: each for each in find_changes(facts)}


def test_two_processes_with_one_id_need_two() -> None:
    fenced = incident("f", K.FENCED, members=("a", "b"), unread_s=12.0, is_static=True)
    change = changes(fenced)["group.instance.id"]
    assert (change.proposed, change.price) == ("one id for each process", "none")
    assert (change.rebalances_avoided, change.unread_avoided_s) == (2, 12.0)
    assert change.because == "once two processes used one id"
    assert change.confidence is Confidence.HIGH
    assert "group.instance.id" in dict(change.lines)["librdkafka"]


def test_ids_are_proposed_though_no_time_was_lost() -> None:
    """The other process gets the partitions at once, but one of the two never works for long."""
    costs_nothing: dict[str, Any] = {"unread_s": 0.0, "rebalances": 0, "is_static": True}
    fenced = [incident(name, K.FENCED, **costs_nothing) for name in "fg"]
    dear = [
        incident(
            f"{kind}{n}", kind, members=(f"{program}-{n}",), unread_s=90.0, started_at=60.0 * n
        )
        for kind in (K.ENFORCED, K.POLL_TIMEOUT, K.SESSION_EXPIRED, K.RESTART, K.MEMBER_JOINED)
        for n, program in enumerate(("orders", "billing"))
    ]
    change = changes(*fenced, *dear)["group.instance.id"]
    assert change.because == "2 times two processes used one id"
    assert (change.proposed, change.rebalances_avoided) == ("one id for each process", 0)
    assert describe_change(change, 0, 60.0) == (
        "group.instance.id (one id for each process) would have avoided 2 incidents in 60 s"
    )


def test_programs_with_a_group_each_do_not_stop_each_other() -> None:
    """One of three members is of the other program, and two are: 30 s / 3, and 2/3 of 30 s.

    What moves is of the program that began.
    """
    by_orders = incident(
        "o", K.ENFORCED, members=("orders-1", "orders-2"), unread_s=36.0, moved_s=6.0
    )
    by_billing = incident("b", K.ENFORCED, members=("billing-1",), unread_s=30.0)
    history = [by_orders, by_billing]
    change = propose_separate_groups(PastIncidents(history, history))
    assert change is not None
    assert change.unread_avoided_s == pytest.approx(10.0 + 20.0)
    assert change.rebalances_avoided == 0
    assert change.confidence is Confidence.LOW
    assert "same topics would each get all records" in change.price
    assert dict(change.lines)["clients"].splitlines() == [
        "group.id=g-billing",
        "group.id=g-orders",
    ]


@pytest.mark.parametrize("other", ["orders-2", "orders.b", "o", "7", "Orders_x"])
def test_client_ids_of_one_program_are_no_two(other: str) -> None:
    joins = [
        incident(name, K.MEMBER_JOINED, members=(name,), unread_s=30.0)
        for name in ("orders-1", other)
    ]
    assert "group.id" not in changes(*joins)


def test_streams_instance_that_closes_for_good_should_leave() -> None:
    gone = (Absence(THREAD, H.EXPIRED, 100.0, None),)
    closed = incident(
        "c", K.MEMBER_LEFT, absences=gone, unread_s=95.0, moved=2, moved_s=3.0, rebalances=1
    )
    change = changes(closed)["internal.leave.group.on.close"]
    assert change.because.startswith("once an instance closed, and")
    # the others learn of it by their next heartbeat: half of 3 s, for two partitions
    assert change.unread_avoided_s == pytest.approx(95.0 - 3.0 - 2 * 1.5)
    assert "\ninternal.leave.group.on.close=true\n" in dict(change.lines)["Streams"]
    plain = (Absence("m", H.EXPIRED, 100.0, None),)
    assert "internal.leave.group.on.close" not in changes(
        incident("c", K.MEMBER_LEFT, absences=plain, unread_s=95.0, moved_s=3.0, rebalances=1)
    )


def test_probing_half_as_often_saves_every_second_rebalance() -> None:
    """Probing rebalances are parts of the incident that made them necessary."""

    def settled(id_: str, probes: int) -> IncidentFacts:
        return incident(
            id_,
            K.METADATA_CHANGED,
            rebalances=1 + probes,
            probes=probes,
            probing_interval_s=602.7 if probes > 1 else None,
        )

    change = changes(settled("a", 4), settled("b", 3), settled("c", 1))[PROBING_INTERVAL]
    assert (change.now, change.proposed) == ("600000", "1200000")
    assert change.rebalances_avoided == 2 + 1
    assert PROBING_INTERVAL not in changes(settled("a", 2))


def of_kind(kind: ClientKind, client_id: str) -> list[IncidentFacts]:
    """Return joins that stop others, restarts, and drops by a long poll."""
    gone = (Absence(client_id, H.LEFT, 100.0, 110.0),)
    slow = (Absence(client_id, H.DROPPED, 100.0, 160.0),)
    late = (Absence(client_id, H.DROPPED, 100.0, 900.0),)
    shared: dict[str, Any] = {
        "client_kind": kind,
        "group_type": "classic",
        "members": (client_id,),
        "unread_s": 60.0,
        "away_s": 10.0,
        "moved": 4,
        "moved_s": 4.0,
        "max_poll_interval_s": 30.0,
    }
    return [
        incident("j", K.MEMBER_JOINED, **shared),
        incident("r", K.RESTART, absences=gone, **shared),
        incident("p", K.POLL_TIMEOUT, absences=slow, **shared),
        incident("q", K.POLL_TIMEOUT, absences=late, **shared),
    ]


def each_alone(facts: list[IncidentFacts]) -> dict[str, Change]:
    """Return the changes that rest on one incident alone."""
    return {name: change for fact in facts for name, change in changes(fact).items()}


def test_streams_keeps_its_assignor_and_has_a_protocol_of_its_own() -> None:
    found = each_alone(of_kind(ClientKind.STREAMS, THREAD))
    assert set(found) == {
        "group.protocol",
        "group.instance.id",
        "max.poll.interval.ms",
        "max.poll.records",
    }
    protocol = found["group.protocol"]
    assert (protocol.proposed, name_of(protocol)) == ("streams", "group.protocol=streams")
    assert "group.protocol=streams" in dict(protocol.lines)["Streams"]
    for change in found.values():
        assert {client for client, _ in change.lines} <= {"Streams", "broker"}


def test_connect_has_neither_instance_ids_nor_records_nor_assignors() -> None:
    facts = of_kind(ClientKind.CONNECT, "connect-1")
    found = each_alone(facts)
    assert set(found) == {"rebalance.timeout.ms"}
    assert dict(found["rebalance.timeout.ms"].lines) == {
        "Connect": f"rebalance.timeout.ms={found['rebalance.timeout.ms'].proposed}"
    }
    last_leave = incident("z", K.MEMBER_LEFT, rebalances=0, members=("connect-1",))
    assert set(changes(*facts, last_leave)) <= {"rebalance.timeout.ms"}
