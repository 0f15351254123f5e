"""Consumers of one process that share a client id and a log."""

import itertools
import json
from collections.abc import Sequence

import pytest

from agent.sources.logs.diagnosis import diagnose_log
from metrics.model.signals import Signal
from tests.agent.sources.lines.spoken import (
    ARRIVAL_AT,
    JOINING,
    REBALANCING,
    got,
    is_report,
    log,
    parser,
    says,
    signals,
)

_GENERATION = "Generation{{generationId={}, memberId='{}', protocol='range'}}"


def _joins(member_id: str, generation: int, partitions: str, **names: str) -> list[str]:
    """Return the lines of one rebalance."""
    text = _GENERATION.format(generation, member_id)
    return [
        says(JOINING, **names),
        says(f"Successfully joined group with generation {text}", **names),
        says(f"Successfully synced group in generation {text}", **names),
        says(f"Adding newly assigned partitions: {partitions}", **names),
    ]


def _alternate(*lines: Sequence[str]) -> list[str]:
    return [line for each in zip(*lines, strict=True) for line in each]


def _of(found: Sequence[Signal], group: str) -> list[Signal]:
    return [each for each in found if each.member.group == group]


def _assigned(found: Sequence[Signal]) -> list[tuple[str, ...] | None]:
    return [each.assigned for each in found if is_report(each)]


def test_two_groups_of_one_client_id_keep_their_states() -> None:
    one = [*_joins("c-1", 1, "t-0", group="g"), says(REBALANCING, group="g")]
    two = [*_joins("c-2", 7, "u-0", group="h"), says(REBALANCING, group="h")]

    found = signals(*_alternate(one, two))

    for group, member_id, generation in (("g", "c-1", 1), ("h", "c-2", 7)):
        own = _of(found, group)
        assert got(own) == ["join", "sync", "1"]
        assert _assigned(own) == [(("t-0" if group == "g" else "u-0"),)]
        assert (own[-1].member.member_id, own[-1].generation) == (member_id, generation)


def test_static_members_of_one_client_id_keep_their_states() -> None:
    one = [*_joins("i1-1", 1, "t-0"), says(REBALANCING)]
    two = [*_joins("i2-1", 1, "t-1"), says(REBALANCING)]

    found = signals(
        *_alternate(
            [line.replace("[Consumer ", "[Consumer instanceId=i1, ") for line in one],
            [line.replace("[Consumer ", "[Consumer instanceId=i2, ") for line in two],
        )
    )

    for instance, partition in (("i1", "t-0"), ("i2", "t-1")):
        own = [each for each in found if each.member.group_instance_id == instance]
        assert got(own) == ["join", "sync", "1"]
        assert _assigned(own) == [(partition,)]
        assert own[-1].member.member_id == f"{instance}-1"


def test_a_held_sync_does_not_hold_signals_of_another_group() -> None:
    held = _joins("c-1", 1, "t-0", group="g")[:3]

    found = signals(*held, *_joins("c-2", 7, "u-0", group="h"), says("x"))

    assert [(each.member.group, got([each])) for each in found] == [
        ("g", ["join"]),
        ("h", ["join"]),
        ("h", ["sync"]),
        ("h", []),
        ("g", ["sync"]),
    ]


def _id(number: int) -> str:
    return f"c-{number:08x}-0000-0000-0000-000000000000"


def _leaves(number: int, reason: str) -> str:
    return says(f"Member {_id(number)} sending LeaveGroup request to coordinator x due to {reason}")


def _given(number: int) -> str:
    return says(
        f"Request joining group due to: need to re-join with the given member-id: {_id(number)}"
    )


def _ends(number: int, generation: int) -> list[str]:
    text = _GENERATION.format(generation, _id(number))
    return [
        says(f"Successfully joined group with generation {text}"),
        says(f"Successfully synced group in generation {text}"),
        says("Adding newly assigned partitions: t-0"),
    ]


_START = [
    *(says(JOINING) for _ in range(3)),
    *map(_given, (1, 2, 3)),
    *(says(JOINING) for _ in range(3)),
    *_alternate(*(_ends(number, 1) for number in (1, 2, 3))),
]


def _by_member(found: Sequence[Signal]) -> dict[str, list[str]]:
    streams = dict.fromkeys(each.member.origin for each in found)
    return {name: got([each for each in found if each.member.origin == name]) for name in streams}


def test_consumers_of_one_client_id_and_group_are_told_apart_by_member_ids() -> None:
    again = [
        *(says(REBALANCING) for _ in range(3)),
        *(says(JOINING) for _ in range(3)),
        *_alternate(*(_ends(number, 2) for number in (3, 1, 2))),
    ]

    found = signals(*_START, *again)

    moves = ["2", "join", "sync", "1", "join", "sync"]
    assert _by_member(found) == {
        "s": ["join", "join", "join", *moves],
        "s#consumer 2": moves,
        "s#consumer 3": moves,
    }
    ids = {(each.member.origin, each.member.member_id) for each in found}
    assert ids - {("s", None)} == {
        ("s", _id(1)),
        ("s#consumer 2", _id(2)),
        ("s#consumer 3", _id(3)),
    }


def test_a_consumer_that_starts_again_keeps_its_place() -> None:
    closed = _leaves(2, "the consumer is being closed")

    found = signals(*_START, closed, says(JOINING), _given(4), says(JOINING), *_ends(4, 2))

    assert _by_member(found)["s#consumer 2"][3:] == ["leave", "join", "2", "join", "sync"]
    assert set(_by_member(found)) == {"s", "s#consumer 2", "s#consumer 3"}


def test_a_drop_belongs_to_the_leave_behind_it() -> None:
    drop = says("consumer poll timeout has expired. This means the time between")

    found = signals(*_START, drop, _leaves(3, "consumer poll timeout has expired."))

    assert _by_member(found)["s#consumer 3"][-2:] == ["5", "5"]
    assert got(found).count("5") == 2


def test_one_consumer_that_starts_again_without_its_lines_is_one() -> None:
    found = signals(*_ends(1, 1), says("x"), says("x"), says("x"), *_ends(2, 2))

    assert set(_by_member(found)) == {"s"}


def test_the_line_behind_a_close_is_of_the_consumer_that_left() -> None:
    closed = [
        _leaves(2, "the consumer is being closed"),
        "App info kafka.consumer for c unregistered",
    ]

    found = signals(*_START, *closed, says(REBALANCING), says(REBALANCING))

    last = {name: words[-1] for name, words in _by_member(found).items()}
    assert last == {"s": "1", "s#consumer 2": "leave", "s#consumer 3": "1"}


def test_a_dropped_consumer_that_returns_is_not_one_that_closed() -> None:
    lines = [
        _leaves(2, "the consumer is being closed"),
        _leaves(3, "consumer poll timeout has expired."),
    ]

    found = signals(*_START, *lines, says(JOINING), _given(4), says(JOINING), *_ends(4, 2))

    assert _by_member(found)["s#consumer 2"][-1] == "leave"
    assert _by_member(found)["s#consumer 3"][-5:] == ["5", "join", "2", "join", "sync"]


def test_a_first_member_id_that_comes_back_is_another_consumers() -> None:
    found = signals(*_ends(1, 1), *(says("x") for _ in range(3)), *_ends(2, 2), *_ends(1, 2))

    assert {each.member.member_id for each in found if each.member.origin != "s"} == {_id(1)}


def test_state_of_several_consumers_survives_a_restart() -> None:
    reader = parser()
    before = reader.feed(log(*_START), ARRIVAL_AT)
    again = parser()

    again.restore(json.loads(json.dumps(reader.state())))

    after = again.feed(
        log(*_START, *(says(REBALANCING) for _ in range(3)))[len(log(*_START)) :], ARRIVAL_AT
    )
    assert {each.member.origin for each in after} == {each.member.origin for each in before}
    assert list(again.origins) == ["consumer 2", "consumer 3"]


def test_a_static_member_with_another_member_id_is_the_same_one() -> None:
    found = signals(
        *(
            line.replace("[Consumer ", "[Consumer instanceId=i, ")
            for line in (*_ends(1, 1), *_ends(2, 2), *_ends(1, 3))
        )
    )

    assert set(_by_member(found)) == {"s"}


def test_the_note_names_clients_that_share_their_names() -> None:
    text = log(*_START)
    reader = parser()
    reader.feed(text, ARRIVAL_AT)

    (note,) = diagnose_log(text, reader)

    assert note.startswith("several consumers write as client c: their member ids distinguish them")


def test_equal_lines_of_several_consumers_at_one_time_are_no_repetition() -> None:
    reader = parser()
    reader.feed(log(*_START), ARRIVAL_AT)
    asked = log(*(says("x") for _ in _START), says(REBALANCING)).splitlines(keepends=True)[-1]

    found = reader.feed(asked * 3, ARRIVAL_AT)

    assert sorted(_by_member(found)) == ["s", "s#consumer 2", "s#consumer 3"]


def test_a_failed_join_is_of_a_consumer_that_joins() -> None:
    again = [*(says(REBALANCING) for _ in range(3)), says(JOINING), says(JOINING), says(JOINING)]
    failed = [
        says("SyncGroup failed: The coordinator is not aware of this member. Need to re-join"),
        says(
            "Request joining group due to: encountered UNKNOWN_MEMBER_ID from SYNC_GROUP response"
        ),
        says(
            "Request joining group due to: rebalance failed due to 'x' (UnknownMemberIdException)"
        ),
    ]

    found = signals(*_START, *again, *_ends(2, 2), *_ends(3, 2), *failed)

    assert _by_member(found)["s"][-3:] == ["3", "3", "3"]
    assert [words[-1] for words in _by_member(found).values()] == ["3", "sync", "sync"]


def test_a_second_line_about_a_first_join_is_of_one_that_has_not_joined_again() -> None:
    """Java 3.2 to 3.5 prints two lines for one response."""
    failed = says(
        "Request joining group due to: rebalance failed due to 'x' (MemberIdRequiredException)"
    )

    found = signals(_given(1), _given(2), failed, says(JOINING), failed, says(JOINING))

    assert all(words[-1] == "join" for words in _by_member(found).values())


def test_what_a_consumer_gives_up_on_its_way_out_is_its_own() -> None:
    """KIP-848 prints it behind the leave, without a member id; another consumer is still stable."""
    ids = ("CiWzOHbRQ2uA1m0x5f7GQw", "vOWsOqxJTUeKb2c8r1d9eA")
    words = "UNSUBSCRIBED", "JOINING", "RECONCILING", "ACKNOWLEDGING", "STABLE"
    moves = list(itertools.pairwise(words))
    joins = [
        says(f"Member {member} with epoch {2 if number else 0} transitioned from {a} to {b}.")
        for member in ids
        for number, (a, b) in enumerate(moves)
    ]
    ends = [
        line
        for member in ids
        for line in (
            says(f"Member {member} with epoch 2 transitioned from STABLE to PREPARE_LEAVING."),
            says("Revoking previously assigned partitions [t-0]"),
        )
    ]

    stamped = [
        f"[2026-11-21 06:34:{20 + number // 2},00{number % 2}] INFO {line}\n"
        for number, line in enumerate(ends)
    ]
    reader = parser()

    found = reader.feed(log(*joins) + "".join(stamped).encode(), ARRIVAL_AT) + reader.flush()

    codes = got(found)
    assert codes.count("leave") == 2
    assert "10" not in codes


@pytest.mark.parametrize(
    "client_id",
    [
        "app-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0-StreamThread-1-consumer",
        "orders-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
        "orders-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0.eu",
    ],
)
def test_a_client_id_with_a_uuid_is_of_one_consumer(client_id: str) -> None:
    lines = [
        line.replace("c-0", f"{client_id}-0").replace("clientId=c,", f"clientId={client_id},")
        for line in (says(JOINING), _given(1), says(JOINING), *_ends(1, 1), says(REBALANCING))
    ]

    found = signals(*lines)

    assert {(each.member.client_id, each.member.origin) for each in found} == {(client_id, "s")}
    assert got(found)[-1] == "1"
    assert found[-1].member.member_id == f"{client_id}-{_id(1)[2:]}"
