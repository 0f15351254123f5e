"""The soak's oracle by itself: lives in the words of a DEBUG log."""

from collections.abc import Sequence
from pathlib import Path
from struct import pack

import pytest

from tests.soak.comparing import Row, compared
from tests.soak.debug_log import BEGINNING, Line, read
from tests.soak.oracle import codes

_HEADER = (
    "RequestHeader(apiKey=X, apiVersion=9, clientId={client}, correlationId={n}, headerVersion=2)"
)
_SENT = f"Sending {{api}} request with header {_HEADER} and timeout 1 to node 1: {{body}}"
_RECEIVED = f"Received {{api}} response from node 1 for request with header {_HEADER}: {{body}}"
_ENFORCED = (
    "[Consumer clientId={client}, groupId=g] Request joining group due to: a new configuration"
)
_FOLLOWED_UP = "stream-thread [s1-StreamThread-1] Triggering the followup rebalance scheduled"
_CLEARED = (
    "[Consumer clientId={client}, g] Generation data was cleared by heartbeat thread to x and state"
    " is now UNJOINED before receiving SyncGroup response, marking this rebalance as failed"
)
_CANCELLED = (
    "[Consumer clientId={client}, g] Cancelled in-flight {api} request with correlation id {n}"
)
_THREAD = "s1-StreamThread-1-consumer"
_AT = "2026-11-22 01:00"
_NEVER = (1 << 63) - 1

Said = tuple[str, str, int, str]


def _log(folder: Path, *said: Said, client: str = "c1") -> Path:
    log = folder / f"{client.partition('-')[0]}.log.debug"
    shapes = {
        "ask": _SENT,
        "answer": _RECEIVED,
        "enforce": _ENFORCED,
        "follow up": _FOLLOWED_UP,
        "cleared": _CLEARED,
        "begin": BEGINNING,
        "cancel": _CANCELLED,
    }
    lines = [shapes[w].format(api=api, n=n, body=body, client=client) for w, api, n, body in said]
    times = ("" if line == BEGINNING else f"[{_AT}:{n:02},000] " for n, line in enumerate(lines))
    log.write_text("".join(f"{time}{line}\n" for time, line in zip(times, lines, strict=True)))
    return log


def _told(folder: Path, *said: Said, fates: Sequence[bool] = ()) -> list[int]:
    return codes(read(_log(folder, *said)), fates).told["c1"]


def _join(number: int, reason: str = "", owned: Sequence[int] = ()) -> Said:
    topics = pack(">h1si", 1, b"t", len(owned)) + pack(f">{len(owned)}i", *owned)
    metadata = pack(">hii", 3, 0, 0) + pack(">i", 1) + topics
    protocol = f"JoinGroupRequestProtocol(name='p', metadata={[*metadata]})"
    return "ask", "JOIN_GROUP", number, f"JoinGroupRequestData([{protocol}], reason='{reason}')"


def _answer(api: str, number: int, error: int) -> Said:
    return "answer", api, number, f"SomeResponseData(errorCode={error}, memberId='m')"


def _synced(number: int, given: Sequence[int] = (), next_ms: int | None = None) -> Said:
    topics = pack(">ih1si", 1, 1, b"t", len(given)) + pack(f">{len(given)}i", *given)
    data = b"" if next_ms is None else pack(">q", next_ms)
    printed = [
        each - 256 * (each > 127) for each in pack(">h", 3) + topics + pack(">i", len(data)) + data
    ]
    body = f"SomeResponseData(errorCode=0, protocolName='p', assignment={printed})"
    return "answer", "SYNC_GROUP", number, body


def _rows(found: Sequence[int], kind: str = "transition", source: str = "logs") -> list[Row]:
    return [{"kind": kind, "client_id": "c1", "to": code, "source": source} for code in found]


_BEGIN: Said = ("begin", "", 0, "")
_ASK_SYNC: Said = ("ask", "SYNC_GROUP", 8, "SyncGroupRequestData()")


def test_a_life(tmp_path: Path) -> None:
    told = _told(
        tmp_path,
        _join(1),
        _answer("JOIN_GROUP", 1, 79),
        _join(2, "need to re-join with the given member-id: c1-a"),
        _answer("JOIN_GROUP", 2, 0),
        _answer("SYNC_GROUP", 3, 0),
        _join(4, "a new configuration"),
        _answer("HEARTBEAT", 5, 27),
        _answer("SYNC_GROUP", 6, 0),
        ("ask", "LEAVE_GROUP", 8, "LeaveGroupRequestData(reason='the consumer is being closed')"),
        _answer("HEARTBEAT", 7, 25),
        _BEGIN,
        _join(1),
        _answer("JOIN_GROUP", 1, 79),
    )

    assert told == [2, 0, 6, 0, 6, 0, 2]


def test_a_drop_holds_until_the_next_sync(tmp_path: Path) -> None:
    told = _told(
        tmp_path,
        ("ask", "LEAVE_GROUP", 1, "LeaveGroupRequestData(reason='poll timeout has expired.')"),
        _join(2, "consumer pro-actively leaving the group"),
        _answer("JOIN_GROUP", 2, 79),
        _answer("SYNC_GROUP", 3, 0),
    )

    assert told == [5, 0]


def test_what_is_asked_for_while_a_join_is_under_way_counts(tmp_path: Path) -> None:
    told = _told(
        tmp_path,
        ("ask", "LEAVE_GROUP", 1, "LeaveGroupRequestData(reason='poll timeout has expired.')"),
        _join(2, "need to re-join with the given member-id: c1-a"),
        ("enforce", "", 0, ""),
        _answer("JOIN_GROUP", 2, 0),
        _answer("SYNC_GROUP", 3, 0),
    )

    assert told == [5, 6, 0]


def test_a_thread_that_is_added_may_have_the_name_of_one_that_was_removed(tmp_path: Path) -> None:
    told = _told(
        tmp_path,
        ("ask", "LEAVE_GROUP", 9, "LeaveGroupRequestData(reason='unsubscribed')"),
        _join(1),
        _answer("JOIN_GROUP", 1, 79),
        _synced(2),
    )

    assert told == [6, 0, 2, 0]


def test_what_a_cooperative_member_has_to_give_up_is_no_end(tmp_path: Path) -> None:
    told = _told(
        tmp_path,
        _answer("HEARTBEAT", 1, 27),
        _join(2, "group is already rebalancing", owned=(0, 1)),
        _synced(3, given=(0,)),
        _join(4, "need to revoke partitions and re-join", owned=(0,)),
        _synced(5, given=(0, 200)),
    )

    assert told == [1, 10, 0]


@pytest.mark.parametrize(
    ("next_ms", "wanted"),
    [(0, [1, 10, 0]), (1_800_000_000_000, [1, 0, 11, 0]), (_NEVER, [1, 0])],
)
def test_what_an_assignment_demands_is_the_instance_s(
    tmp_path: Path, next_ms: int, wanted: list[int]
) -> None:
    log = _log(
        tmp_path,
        _answer("HEARTBEAT", 1, 27),
        _synced(3, next_ms=next_ms),
        _synced(5, next_ms=_NEVER),
        client=_THREAD,
    )

    assert codes(read(log)).told == {_THREAD: [1, 0], "s1": wanted}


@pytest.mark.parametrize(
    ("fates", "wanted"),
    [((True,), [6, 0, 2, 0]), ((False, True), [6, 0]), ((False, False), [6, 2, 0])],
)
def test_a_killed_process_leaves_open_how_it_ended(
    tmp_path: Path, fates: tuple[bool, ...], wanted: list[int]
) -> None:
    said = (
        _join(7, "a new configuration"),
        _ASK_SYNC,
        _BEGIN,
        _join(1),
        _answer("JOIN_GROUP", 1, 79),
        _answer("SYNC_GROUP", 2, 0),
    )

    lives = codes(read(_log(tmp_path, *said)), fates)
    assert (lives.told, lives.asked) == ({"c1": wanted}, len(fates))


def test_a_process_that_was_killed_at_rest_leaves_nothing_open(tmp_path: Path) -> None:
    lines: list[Line] = read(_log(tmp_path, _BEGIN, _join(7, "mine"), _synced(8), _BEGIN))

    assert (codes(lines).told, codes(lines).asked) == ({"c1": [6, 0]}, 0)


@pytest.mark.parametrize(
    ("found", "precision", "recall"),
    [([6, 2, 0], 1.0, 1.0), ([6, 0], 1.0, 1.0), ([6, 0, 7, 0], 0.75, 0.75), ([6], 1.0, 0.5)],
)
def test_what_was_found_decides_only_what_is_open(
    tmp_path: Path, found: list[int], precision: float, recall: float
) -> None:
    log = _log(
        tmp_path,
        _join(7, "a new configuration"),
        _ASK_SYNC,
        _BEGIN,
        _answer("JOIN_GROUP", 1, 79),
        _answer("SYNC_GROUP", 2, 0),
    )
    rows = _rows(found)

    counts = compared([log], rows, "test")
    assert (counts["precision"], counts["recall"]) == (precision, recall)


@pytest.mark.parametrize(
    ("found", "precision", "recall"),
    [([6, 0], 1.0, 1.0), ([1, 6, 0], 1.0, 1.0), ([1, 0], 1.0, 2 / 3), ([6, 1, 0], 2 / 3, 1.0)],
)
def test_a_masked_cause_may_have_been_met_first_and_nothing_else(
    tmp_path: Path, found: list[int], precision: float, recall: float
) -> None:
    log = _log(tmp_path, ("enforce", "", 0, ""), _answer("HEARTBEAT", 1, 27), _synced(2))
    rows = _rows(found)

    counts = compared([log], rows, "test")
    assert (counts["precision"], counts["recall"]) == (precision, recall)


def test_a_cause_that_is_masked_for_long_was_not_met_first(tmp_path: Path) -> None:
    later = [_answer("HEARTBEAT", 1, 0)] * 2
    lines = read(_log(tmp_path, ("enforce", "", 0, ""), *later, _answer("HEARTBEAT", 1, 27)))

    assert codes(lines).possible == []


@pytest.mark.parametrize(
    ("found", "precision"), [([3, 3, 0], 1.0), ([3, 0], 1.0), ([8, 3, 0], 2 / 3)]
)
def test_an_answer_that_the_client_has_given_up_may_have_been_told(
    tmp_path: Path, found: list[int], precision: float
) -> None:
    gone: Said = ("cancel", "HEARTBEAT", 1, "")
    log = _log(tmp_path, gone, gone, _answer("HEARTBEAT", 2, 25), _synced(3))
    rows = _rows(found)

    counts = compared([log], rows, "test")
    assert (counts["precision"], counts["recall"]) == (precision, 1.0)


def _alike(log: Path, rows: list[Row]) -> bool:
    counts = compared([log], rows, "test")
    return counts["precision"] == counts["recall"] == 1.0


@pytest.mark.parametrize(
    ("found", "is_right"),
    [([6, 0], True), ([1, 6, 0], True), ([6, 0, 1], False), ([3, 6, 0], False)],
)
def test_an_answer_that_crossed_a_leave_may_have_been_met_first(
    tmp_path: Path, found: list[int], *, is_right: bool
) -> None:
    leave = "ask", "LEAVE_GROUP", 8, "LeaveGroupRequestData(reason='the consumer is being closed')"
    log = _log(tmp_path, leave, _answer("HEARTBEAT", 7, 27))

    assert _alike(log, _rows(found)) is is_right


@pytest.mark.parametrize(
    ("found", "is_right"), [([2, 0], True), ([3, 2, 0], True), ([2, 3, 0], False)]
)
def test_what_a_killed_process_had_asked_may_have_been_answered(
    tmp_path: Path, found: list[int], *, is_right: bool
) -> None:
    asked: Said = ("ask", "HEARTBEAT", 7, "HeartbeatRequestData()")
    log = _log(tmp_path, asked, _BEGIN, _join(1), _answer("JOIN_GROUP", 1, 79), _synced(2))

    assert _alike(log, _rows(found)) is is_right


@pytest.mark.parametrize(
    ("found", "is_right"), [([1, 0, 5], True), ([1, 5], True), ([1, 0], False)]
)
def test_a_sync_behind_which_the_heartbeat_thread_has_left_is_none_to_the_client(
    tmp_path: Path, found: list[int], *, is_right: bool
) -> None:
    drop = "ask", "LEAVE_GROUP", 3, "LeaveGroupRequestData(reason='poll timeout has expired.')"
    log = _log(tmp_path, _answer("HEARTBEAT", 1, 27), _synced(2), drop, ("cleared", "", 0, ""))

    assert _alike(log, _rows(found)) is is_right


@pytest.mark.parametrize(
    ("silent_s", "found", "is_right"),
    [(16, [2, 1, 0], True), (16, [2, 0], True), (15, [2, 1, 0], False), (15, [2, 0], True)],
)
def test_what_nothing_confirms_for_long_may_be_lost(
    tmp_path: Path, silent_s: int, found: list[int], *, is_right: bool
) -> None:
    silence = [_answer("HEARTBEAT", 1, 0)] * (silent_s - 1)
    begun, later = _answer("JOIN_GROUP", 1, 79), _answer("HEARTBEAT", 2, 27)
    log = _log(tmp_path, begun, *silence, later, _synced(3))

    assert _alike(log, _rows(found)) is is_right


@pytest.mark.parametrize(
    ("source", "signals", "is_right"),
    [("wire", [6], True), ("wire", [], False), ("logs", [6], False)],
)
def test_what_the_end_has_overtaken_is_a_signal(
    tmp_path: Path, source: str, signals: list[int], *, is_right: bool
) -> None:
    log = _log(tmp_path, _answer("HEARTBEAT", 1, 27), ("enforce", "", 0, ""), _synced(2))

    assert _alike(log, _rows([1, 0], source=source) + _rows(signals, "signal", source)) is is_right


def test_a_streams_thread_asks_for_its_follow_up_before_the_client_does(tmp_path: Path) -> None:
    log = _log(tmp_path, ("follow up", "", 0, ""), _answer("HEARTBEAT", 1, 27), client=_THREAD)

    assert codes(read(log)).told == {_THREAD: [6], "s1": [6]}
