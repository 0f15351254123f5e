"""Tests of the soak's oracle alone, with synthetic DEBUG logs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.soak.comparing import compared
from tests.soak.debug_log import Line, read
from tests.soak.lives import Lives, Question
from tests.soak.oracle import codes
from tests.soak.said import Said, alike, answer, join, log_of, rows_of, synced

_THREAD = "s1-StreamThread-1-consumer"
_NEVER = (1 << 63) - 1

_BEGIN: Said = ("begin", "", 0, "")
_ASK_SYNC: Said = ("ask", "SYNC_GROUP", 8, "SyncGroupRequestData()")


def _decided(lines: list[Line], fates: Sequence[bool]) -> Lives:
    """Return the oracle's codes with these answers to its questions, in turn."""
    answers: dict[Question, bool] = {}
    for number, fate in enumerate(fates):
        answers[codes(lines, answers).questions[number]] = fate
    return codes(lines, answers)


def _got(folder: Path, *said: Said, fates: Sequence[bool] = ()) -> list[int]:
    return _decided(read(log_of(folder, *said)), fates).got["c1"]


def test_a_life(tmp_path: Path) -> None:
    got = _got(
        tmp_path,
        join(1),
        answer("JOIN_GROUP", 1, 79),
        join(2, "need to re-join with the given member-id: c1-a"),
        answer("JOIN_GROUP", 2, 0),
        answer("SYNC_GROUP", 3, 0),
        join(4, "a new configuration"),
        answer("HEARTBEAT", 5, 27),
        answer("SYNC_GROUP", 6, 0),
        ("ask", "LEAVE_GROUP", 8, "LeaveGroupRequestData(reason='the consumer is being closed')"),
        answer("HEARTBEAT", 7, 25),
        _BEGIN,
        join(1),
        answer("JOIN_GROUP", 1, 79),
    )

    assert got == [2, 0, 6, 0, 6, 0, 2]


def test_a_drop_holds_until_the_next_sync(tmp_path: Path) -> None:
    got = _got(
        tmp_path,
        ("ask", "LEAVE_GROUP", 1, "LeaveGroupRequestData(reason='poll timeout has expired.')"),
        join(2, "consumer pro-actively leaving the group"),
        answer("JOIN_GROUP", 2, 79),
        answer("SYNC_GROUP", 3, 0),
    )

    assert got == [5, 0]


def test_a_drop_that_nobody_needs_to_be_told_of(tmp_path: Path) -> None:
    expired: Said = ("expired", "", 0, "")
    leave = "ask", "LEAVE_GROUP", 3, "LeaveGroupRequestData(reason='poll timeout has expired.')"
    unknown = answer("HEARTBEAT", 1, 25)

    assert _got(tmp_path, unknown, expired, join(2), synced(2)) == [3, 5, 0]
    assert _got(tmp_path, expired, leave, answer("HEARTBEAT", 2, 27), join(4), synced(5)) == [5, 0]


def test_what_is_asked_for_while_a_join_is_under_way_counts(tmp_path: Path) -> None:
    got = _got(
        tmp_path,
        ("ask", "LEAVE_GROUP", 1, "LeaveGroupRequestData(reason='poll timeout has expired.')"),
        join(2, "need to re-join with the given member-id: c1-a"),
        ("enforce", "", 0, ""),
        answer("JOIN_GROUP", 2, 0),
        answer("SYNC_GROUP", 3, 0),
    )

    assert got == [5, 6, 0]


@pytest.mark.parametrize(("is_noticed", "got"), [(True, [1, 8, 0]), (False, [1, 0])])
def test_topics_that_a_repeated_join_changes_are_a_cause(
    tmp_path: Path, got: list[int], *, is_noticed: bool
) -> None:
    said = (
        answer("HEARTBEAT", 1, 27),
        join(2, "group is already rebalancing", subscribed=["t"]),
        answer("SYNC_GROUP", 3, 27),
        join(4, "rebalance failed due to x", subscribed=["t", "u"]),
        synced(5),
        join(6, subscribed=["u", "t"]),
    )

    assert _got(tmp_path, *said, fates=[is_noticed]) == got


def test_a_thread_that_is_added_may_have_the_name_of_one_that_was_removed(tmp_path: Path) -> None:
    got = _got(
        tmp_path,
        ("ask", "LEAVE_GROUP", 9, "LeaveGroupRequestData(reason='unsubscribed')"),
        join(1),
        answer("JOIN_GROUP", 1, 79),
        synced(2),
    )

    assert got == [6, 0, 2, 0]


def test_what_a_cooperative_member_has_to_give_up_is_no_end(tmp_path: Path) -> None:
    got = _got(
        tmp_path,
        answer("HEARTBEAT", 1, 27),
        join(2, "group is already rebalancing", owned=(0, 1)),
        synced(3, given=(0,)),
        join(4, "need to revoke partitions and re-join", owned=(0,)),
        synced(5, given=(0, 200)),
    )

    assert got == [1, 10, 0]


@pytest.mark.parametrize(
    ("source", "is_heeded", "found"),
    [
        ("wire", False, [1, 10, 0]),
        ("wire", False, [1, 0]),  # its log told the end first
        ("wire", True, [1, 10, 0]),
        ("logs", False, [1, 0]),
        ("logs", True, [1, 10, 0]),
    ],
)
def test_what_the_client_has_not_heeded_is_not_in_its_log(
    tmp_path: Path, source: str, *, is_heeded: bool, found: list[int]
) -> None:
    log = log_of(
        tmp_path,
        answer("HEARTBEAT", 1, 27),
        join(2, "group is already rebalancing", owned=(0, 1)),
        synced(3, given=(0,)),
        *[("heeded", "", 0, "")] * is_heeded,
        join(4, "rebalance failed", owned=(0,)),
        synced(5, given=(0,)),
        ("heeded", "", 0, ""),
    )

    assert alike(log, rows_of(found, source=source))


@pytest.mark.parametrize(
    ("next_ms", "wanted"),
    [(0, [1, 10, 0]), (1_800_000_000_000, [1, 0, 11, 0]), (_NEVER, [1, 0])],
)
def test_what_an_assignment_demands_is_the_instance_s(
    tmp_path: Path, next_ms: int, wanted: list[int]
) -> None:
    log = log_of(
        tmp_path,
        answer("HEARTBEAT", 1, 27),
        synced(3, next_ms=next_ms),
        synced(5, next_ms=_NEVER),
        client=_THREAD,
    )

    assert codes(read(log)).got == {_THREAD: [1, 0], "s1": wanted}


@pytest.mark.parametrize(
    ("fates", "wanted"),
    [((True,), [6, 0, 2, 0]), ((False, True), [6, 0]), ((False, False), [6, 2, 0])],
)
def test_a_killed_process_leaves_open_how_it_ended(
    tmp_path: Path, fates: tuple[bool, ...], wanted: list[int]
) -> None:
    said = (
        join(7, "a new configuration"),
        _ASK_SYNC,
        _BEGIN,
        join(1),
        answer("JOIN_GROUP", 1, 79),
        answer("SYNC_GROUP", 2, 0),
    )

    lives = _decided(read(log_of(tmp_path, *said)), fates)
    assert (lives.got, len(lives.questions)) == ({"c1": wanted}, len(fates))


@pytest.mark.parametrize(
    ("found", "is_right"), [([1, 10, 0], True), ([1, 0], True), ([1, 11, 0], False)]
)
def test_what_a_killed_process_would_have_had_to_give_up_may_have_been_told(
    tmp_path: Path, found: list[int], *, is_right: bool
) -> None:
    log = log_of(
        tmp_path,
        answer("HEARTBEAT", 6, 27),
        join(7, "group is already rebalancing", owned=(0, 1)),
        _ASK_SYNC,
        _BEGIN,
        join(1),  # a static member: it is given its id at once
        synced(2),
    )

    assert alike(log, rows_of(found, source="wire")) == is_right


def test_a_killed_process_that_owned_nothing_has_nothing_to_give_up(tmp_path: Path) -> None:
    log = log_of(tmp_path, join(7, "a new configuration"), _ASK_SYNC, _BEGIN, join(1), synced(2))

    assert [each.about for each in codes(read(log)).questions] == ["synced"]


def test_a_process_that_was_killed_at_rest_leaves_nothing_open(tmp_path: Path) -> None:
    lines: list[Line] = read(log_of(tmp_path, _BEGIN, join(7, "mine"), synced(8), _BEGIN))

    assert (codes(lines).got, codes(lines).questions) == ({"c1": [6, 0]}, [])


@pytest.mark.parametrize(
    ("found", "precision", "recall"),
    [([6, 2, 0], 1.0, 1.0), ([6, 0], 1.0, 1.0), ([6, 0, 7, 0], 0.75, 0.75), ([6], 1.0, 0.5)],
)
def test_what_was_found_decides_only_what_is_open(
    tmp_path: Path, found: list[int], precision: float, recall: float
) -> None:
    log = log_of(
        tmp_path,
        join(7, "a new configuration"),
        _ASK_SYNC,
        _BEGIN,
        answer("JOIN_GROUP", 1, 79),
        answer("SYNC_GROUP", 2, 0),
    )
    rows = rows_of(found)

    counts = compared([log], rows, "test")
    assert (counts["precision"], counts["recall"]) == (precision, recall)


@pytest.mark.parametrize(
    ("found", "precision", "recall"),
    [([6, 0], 1.0, 1.0), ([1, 6, 0], 1.0, 1.0), ([1, 0], 1.0, 2 / 3), ([6, 1, 0], 2 / 3, 1.0)],
)
def test_a_masked_cause_may_have_been_met_first_and_nothing_else(
    tmp_path: Path, found: list[int], precision: float, recall: float
) -> None:
    log = log_of(tmp_path, ("enforce", "", 0, ""), answer("HEARTBEAT", 1, 27), synced(2))
    rows = rows_of(found)

    counts = compared([log], rows, "test")
    assert (counts["precision"], counts["recall"]) == (precision, recall)


def test_a_cause_that_is_masked_for_long_was_not_met_first(tmp_path: Path) -> None:
    later = [answer("HEARTBEAT", 1, 0)] * 2
    lines = read(log_of(tmp_path, ("enforce", "", 0, ""), *later, answer("HEARTBEAT", 1, 27)))

    assert codes(lines).possible == []


@pytest.mark.parametrize(
    ("found", "precision"), [([3, 3, 0], 1.0), ([3, 0], 1.0), ([8, 3, 0], 2 / 3)]
)
def test_an_answer_that_the_client_has_given_up_may_have_been_told(
    tmp_path: Path, found: list[int], precision: float
) -> None:
    gone: Said = ("cancel", "HEARTBEAT", 1, "")
    log = log_of(tmp_path, gone, gone, answer("HEARTBEAT", 2, 25), synced(3))
    rows = rows_of(found)

    counts = compared([log], rows, "test")
    assert (counts["precision"], counts["recall"]) == (precision, 1.0)


@pytest.mark.parametrize(
    ("found", "is_right"),
    [([6, 0], True), ([1, 6, 0], True), ([6, 0, 1], False), ([3, 6, 0], False)],
)
def test_an_answer_that_crossed_a_leave_may_have_been_met_first(
    tmp_path: Path, found: list[int], *, is_right: bool
) -> None:
    leave = "ask", "LEAVE_GROUP", 8, "LeaveGroupRequestData(reason='the consumer is being closed')"
    log = log_of(tmp_path, leave, answer("HEARTBEAT", 7, 27))

    assert alike(log, rows_of(found)) is is_right


@pytest.mark.parametrize(("found", "is_right"), [([5], True), ([1, 5], True), ([5, 1], False)])
def test_one_that_is_stuck_reads_it_when_it_polls_again(
    tmp_path: Path, found: list[int], *, is_right: bool
) -> None:
    leave = "ask", "LEAVE_GROUP", 8, "LeaveGroupRequestData(reason='poll timeout has expired.')"
    stuck = [answer("HEARTBEAT", 6, 0)] * 10
    log = log_of(tmp_path, leave, *stuck, answer("HEARTBEAT", 7, 27))

    assert alike(log, rows_of(found)) is is_right


@pytest.mark.parametrize(
    ("found", "is_right"),
    [([1, 6, 0], True), ([1, 0, 6, 0], True), ([1, 0, 6], False), ([1, 6, 0, 0], False)],
)
def test_a_sync_that_crossed_a_leave_may_have_ended_the_round(
    tmp_path: Path, found: list[int], *, is_right: bool
) -> None:
    leave = "ask", "LEAVE_GROUP", 8, "LeaveGroupRequestData(reason='the consumer is being closed')"
    log = log_of(tmp_path, answer("HEARTBEAT", 6, 27), leave, synced(7))

    assert alike(log, rows_of(found)) is is_right


@pytest.mark.parametrize(
    ("found", "is_right"),
    [([1, 6, 0], True), ([1, 10, 0], True), ([1, 0, 6, 0], False), ([1, 6, 10, 0], False)],
)
def test_or_may_have_demanded_another(tmp_path: Path, found: list[int], *, is_right: bool) -> None:
    leave = "ask", "LEAVE_GROUP", 8, "LeaveGroupRequestData(reason='the consumer is being closed')"
    joined = answer("HEARTBEAT", 5, 27), join(6, "group is already rebalancing", owned=(0, 1))
    log = log_of(tmp_path, *joined, leave, synced(7, given=(0,)))

    assert alike(log, rows_of(found, source="wire")) is is_right


@pytest.mark.parametrize(
    ("found", "is_right"),
    [([6, 0], True), ([6, 0, 6, 0], True), ([6, 0, 6], False), ([6, 0, 0], False)],
)
def test_the_leave_is_a_cause_of_its_own_then(
    tmp_path: Path, found: list[int], *, is_right: bool
) -> None:
    leave = "ask", "LEAVE_GROUP", 8, "LeaveGroupRequestData(reason='the consumer is being closed')"
    log = log_of(tmp_path, ("enforce", "", 0, ""), leave, synced(7))

    assert alike(log, rows_of(found)) is is_right


@pytest.mark.parametrize(
    ("found", "is_right"),
    [([2, 0], True), ([3, 2, 0], True), ([3, 0], True), ([2, 3, 0], False), ([0], False)],
)
def test_what_a_killed_process_had_asked_may_have_been_answered(
    tmp_path: Path, found: list[int], *, is_right: bool
) -> None:
    asked: Said = ("ask", "HEARTBEAT", 7, "HeartbeatRequestData()")
    log = log_of(tmp_path, asked, _BEGIN, join(1), answer("JOIN_GROUP", 1, 79), synced(2))

    assert alike(log, rows_of(found)) is is_right


@pytest.mark.parametrize(
    ("found", "is_right"), [([1, 0, 5], True), ([1, 5], True), ([1, 0], False)]
)
def test_a_sync_behind_which_the_heartbeat_thread_has_left_is_none_to_the_client(
    tmp_path: Path, found: list[int], *, is_right: bool
) -> None:
    drop = "ask", "LEAVE_GROUP", 3, "LeaveGroupRequestData(reason='poll timeout has expired.')"
    log = log_of(tmp_path, answer("HEARTBEAT", 1, 27), synced(2), drop, ("cleared", "", 0, ""))

    assert alike(log, rows_of(found)) is is_right


@pytest.mark.parametrize(
    ("silent_s", "found", "is_right"),
    [(16, [2, 1, 0], True), (16, [2, 0], True), (15, [2, 1, 0], False), (15, [2, 0], True)],
)
def test_what_nothing_confirms_for_long_may_be_lost(
    tmp_path: Path, silent_s: int, found: list[int], *, is_right: bool
) -> None:
    silence = [answer("HEARTBEAT", 1, 0)] * (silent_s - 1)
    begun, later = answer("JOIN_GROUP", 1, 79), answer("HEARTBEAT", 2, 27)
    log = log_of(tmp_path, begun, *silence, later, synced(3))

    assert alike(log, rows_of(found)) is is_right


@pytest.mark.parametrize(
    ("found", "is_right"),
    [([6, 0, 1, 5, 0], True), ([6, 0], True), ([6, 0, 1, 0], False), ([6, 5, 0], False)],
)
def test_what_comes_behind_an_end_that_the_client_gave_up_is_not_masked(
    tmp_path: Path, found: list[int], *, is_right: bool
) -> None:
    log = log_of(
        tmp_path,
        join(1, "a new configuration"),
        answer("JOIN_GROUP", 1, 0),
        ("ask", "SYNC_GROUP", 2, "SyncGroupRequestData()"),
        ("cancel", "SYNC_GROUP", 2, ""),
        answer("HEARTBEAT", 3, 27),
        ("ask", "LEAVE_GROUP", 4, "LeaveGroupRequestData(reason='poll timeout has expired.')"),
        join(5, "need to re-join with the given member-id: c1-a"),
        synced(6),
    )

    assert alike(log, rows_of(found, source="wire")) is is_right


@pytest.mark.parametrize(("due_in_s", "asked"), [(0, 1), (4, 1), (5, 0), (600, 0)])
def test_a_probing_rebalance_is_in_doubt_only_long_behind_when_it_is_due(
    tmp_path: Path, due_in_s: int, asked: int
) -> None:
    beat = answer("HEARTBEAT", 1, 0)
    begun = read(log_of(tmp_path, beat))[0].at
    due_ms = round((begun + due_in_s) * 1000)
    raised = answer("HEARTBEAT", 3, 27)
    sync, later = read(log_of(tmp_path, synced(2, next_ms=due_ms), raised, client=_THREAD))

    about = [each.about for each in codes([sync, later._replace(at=begun + 604)]).questions]

    assert about == ["heeded"] + ["kept"] * asked


@pytest.mark.parametrize(
    ("raised_s", "lives"),
    [
        (604.3, {(11,), (11, 0), (11, 1, 0)}),  # the agent looks once a second
        (607.0, {(11,), (11, 1, 0)}),
    ],
)
def test_what_is_lost_may_be_lost_between_a_cause_and_its_end(
    tmp_path: Path, raised_s: float, lives: set[tuple[int, ...]]
) -> None:
    """An 11 of a thread that never came back, and a round of the one that did."""
    gone, beat = "s1-StreamThread-2-consumer", answer("HEARTBEAT", 1, 0)
    begun = read(log_of(tmp_path, beat))[0].at
    asked = synced(2, next_ms=round((begun + 4) * 1000))
    heeded: Said = ("heeded", "", 0, "")
    said = asked, heeded, _BEGIN, join(1), synced(2), answer("HEARTBEAT", 3, 27), synced(4)
    lines = read(log_of(tmp_path, *said, client=_THREAD, also={0: gone, 1: gone}))
    lines[-2:] = [
        lines[-2]._replace(at=begun + raised_s),
        lines[-1]._replace(at=begun + raised_s + 0.1),
    ]

    assert set(_all_lives(lines, "s1", {})) == lives


def _all_lives(
    lines: list[Line], name: str, fates: dict[Question, bool]
) -> Iterator[tuple[int, ...]]:
    """Yield the codes of a name for all combinations of answers to the open questions."""
    lives = codes(lines, fates)
    question = next((each for each in lives.questions if each not in fates), None)
    if question is None:
        yield tuple(lives.got[name])
        return
    for is_so in (True, False):
        yield from _all_lives(lines, name, fates | {question: is_so})


def test_a_streams_thread_asks_for_its_follow_up_before_the_client_does(tmp_path: Path) -> None:
    log = log_of(tmp_path, ("follow up", "", 0, ""), answer("HEARTBEAT", 1, 27), client=_THREAD)

    assert codes(read(log)).got == {_THREAD: [6], "s1": [6]}
