"""Names of an incident's members: short, apart, and found in one pass."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aggregation.explain.incident_words import _words, count_by_member, names, waiting
from aggregation.incidents.answers import IncidentAnswer, MemberAnswer, RebalanceAnswer, WaitAnswer

_MEMBERS = 300
_LOOKS_MAX = 10
"""Of each member, whatever the number of members."""


def _member(client_id: str, member_id: str = "", host: str = "") -> MemberAnswer:
    return MemberAnswer(
        client_id=client_id, member_id=member_id or None, group_instance_id=None, host=host
    )


def test_of_many_the_first_are_named() -> None:
    assert names([_member(f"c{number}") for number in range(5)]) == "c0, c1, c2 and 2 more"


def _incident(client_id: str) -> IncidentAnswer:
    of_rebalance: dict[str, Any] = dict.fromkeys(RebalanceAnswer.__dataclass_fields__)
    rebalance = RebalanceAnswer(**of_rebalance)
    given: dict[str, Any] = dict.fromkeys(IncidentAnswer.__dataclass_fields__)
    return IncidentAnswer(**given | {"members": (_member(client_id),), "rebalances": (rebalance,)})


def test_a_kind_of_a_newer_hub_has_its_own_name_as_words() -> None:
    """`top` and `explain` of an older version ended with a traceback."""
    newer = replace(_incident("c"), kind="quorum_lost", detail={})
    assert _words(newer) == "quorum lost"


def test_members_that_are_not_named_are_counted() -> None:
    found = [_incident(f"c{number}") for number in range(5)]
    assert count_by_member(found[:4]) == "c0 1, c1 1, c2 1 and 1 more member"
    assert count_by_member(found) == "c0 1, c1 1, c2 1 and 2 more members"


def test_equal_client_ids_have_what_tells_them_apart() -> None:
    members = [_member("c", "c-1", "a"), _member("c", "c-2", "b"), _member("d")]
    assert names(members) == "c (a), c (b), d"


def test_one_host_needs_the_member_ids() -> None:
    assert names([_member("c", "c-1", "a"), _member("c", "c-2", "a")]) == "c (1), c (2)"


def test_members_whose_logs_name_none_are_no_blanks() -> None:
    assert names([_member("")]) == "a member without a name"
    shown = names([_member("", host="a"), _member("", host="b")])
    assert shown == "a member without a name (a), a member without a name (b)"


def test_what_nothing_tells_apart_is_named_once() -> None:
    assert names([_member("c", "c-", "a"), _member("c", "", "a")]) == "c (a)"


@pytest.mark.parametrize(
    "client_id",
    [lambda number: f"c{number}", lambda _: "c"],
    ids=["each its own client id", "one client id for all"],
)
def test_naming_looks_at_each_member_a_few_times(
    monkeypatch: pytest.MonkeyPatch, client_id: Callable[[int], str]
) -> None:
    looks: Counter[str] = Counter()
    hash_of = MemberAnswer.__hash__

    def counting(member: MemberAnswer) -> int:
        looks["hash"] += 1
        return hash_of(member)

    members = [_member(client_id(number), f"m-{number}") for number in range(_MEMBERS)]
    monkeypatch.setattr(MemberAnswer, "__hash__", counting)
    names(members)
    assert looks["hash"] <= _LOOKS_MAX * _MEMBERS


def _thread(number: int, host: str = "a", instance: str = "app-1") -> MemberAnswer:
    return _member(f"{instance}-StreamThread-{number}-consumer", host=host)


def test_threads_of_a_streams_instance_have_its_name() -> None:
    members = [_thread(1), _thread(2), _thread(1, instance="app-2"), _member("c")]
    assert names(members) == "app-1 (2 threads), app-2-StreamThread-1-consumer, c"


def test_instances_of_one_name_have_their_hosts() -> None:
    members = [_thread(number, host) for host in ("a", "b") for number in (1, 2)]
    assert names(members) == "app-1 (a, 2 threads), app-1 (b, 2 threads)"


def test_group_waits_for_an_instance_as_long_as_for_its_slowest_thread() -> None:
    waits = [
        WaitAnswer(
            client_id=each.client_id,
            member_id=None,
            host=each.host,
            seconds=seconds,
            joined_at=None,
            certainty="seen",
        )
        for each, seconds in ((_thread(1), 2.0), (_thread(2), 3.0), (_member("c"), 1.0))
    ]
    assert waiting(waits) == "app-1 (2 threads) (3.0 s), c (1.0 s)"
