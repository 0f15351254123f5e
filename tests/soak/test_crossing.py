"""Tests of responses with an open order: orders that the oracle accepts, or rejects."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.soak.comparing import Row, compared
from tests.soak.said import Said, alike, answer, join, log_of, rows_of, synced

_ONE, _TWO = "s1-StreamThread-1-consumer", "s1-StreamThread-2-consumer"
_BEAT: Said = ("ask", "HEARTBEAT", 7, "HeartbeatRequestData()")
_COMMIT: Said = ("ask", "OFFSET_COMMIT", 8, "OffsetCommitRequestData()")
_REMOVED, _REBALANCING = answer("HEARTBEAT", 7, 25), answer("HEARTBEAT", 9, 27)


def _log(folder: Path, *said: tuple[str, Said]) -> Path:
    """Write an instance's log, from pairs of a thread and one of its lines."""
    also = {place: thread for place, (thread, _) in enumerate(said)}
    return log_of(folder, *(each for _, each in said), client=_ONE, also=also)


def _rows(source: str, **got: Sequence[int]) -> list[Row]:
    names = {"one": _ONE, "two": _TWO, "instance": "s1"}
    return [
        rows_of([code], source=source)[0] | {"client_id": names[name]}
        for name, codes in got.items()
        for code in codes
    ]


@pytest.mark.parametrize(
    ("instance", "source", "crossed", "right"),
    [
        ([1, 3, 0], "wire", 0, 7),  # as it was read
        ([3, 0], "wire", 1, 6),  # as it was answered
        ([3, 0], "logs", 0, 6),  # logs tell what was read
        ([3, 1, 0], "wire", 1, 6),  # downward is neither
        ([1, 0], "wire", 0, 6),
    ],
)
def test_an_answer_that_is_read_late_may_have_been_given_first(
    tmp_path: Path, instance: list[int], source: str, crossed: int, right: int
) -> None:
    log = _log(
        tmp_path,
        (_ONE, _BEAT),
        (_ONE, _COMMIT),
        (_TWO, _REBALANCING),
        (_ONE, _REMOVED),
        (_ONE, synced(10)),
        (_TWO, synced(11)),
    )

    found = compared([log], _rows(source, one=[3, 0], two=[1, 0], instance=instance), "test")
    wanted = 7 - found["crossed"]
    assert (found["crossed"], found["wanted"]) == (crossed, wanted)
    assert found["recall"] * wanted == pytest.approx(right)


@pytest.mark.parametrize(
    "said",
    [
        [(_TWO, _REBALANCING), (_ONE, _BEAT), (_ONE, _REMOVED)],  # asked for behind it
        [(_ONE, _BEAT), (_TWO, _REBALANCING), (_ONE, answer("HEARTBEAT", 6, 0)), (_ONE, _REMOVED)],
        [(_ONE, _BEAT), (_TWO, _REBALANCING), (_ONE, join(8)), (_ONE, _REMOVED)],
        [(_ONE, _BEAT), (_TWO, _REBALANCING), (_TWO, ("begin", "", 0, "")), (_ONE, _REMOVED)],
    ],
)
def test_what_was_surely_read_first_was_answered_first(
    tmp_path: Path, said: list[tuple[str, Said]]
) -> None:
    rows = _rows("wire", one=[3], two=[1], instance=[3])

    found = compared([_log(tmp_path, *said)], rows, "test")
    assert (found["crossed"], found["recall"]) == (0, 3 / 4)


@pytest.mark.parametrize(("instance", "crossed"), [([1, 0], 0), ([1, 0, 1, 0], 1)])
def test_a_sync_that_is_read_late_may_have_ended_the_round(
    tmp_path: Path, instance: list[int], crossed: int
) -> None:
    log = _log(
        tmp_path,
        (_ONE, _REBALANCING),
        (_ONE, ("ask", "SYNC_GROUP", 10, "SyncGroupRequestData()")),
        (_TWO, _REBALANCING),
        (_ONE, synced(10)),
        (_TWO, synced(11)),
    )

    found = compared([log], _rows("wire", one=[1, 0], two=[1, 0], instance=instance), "test")
    assert (found["crossed"], found["precision"], found["recall"]) == (crossed, 1.0, 1.0)


def test_two_answers_may_be_read_late(tmp_path: Path) -> None:
    log = _log(
        tmp_path,
        (_ONE, _BEAT),
        (_TWO, _REBALANCING),
        (_ONE, _REMOVED),
        (_ONE, synced(10)),
        (_TWO, synced(11)),
        (_ONE, ("ask", "HEARTBEAT", 17, "HeartbeatRequestData()")),
        (_TWO, answer("HEARTBEAT", 19, 27)),
        (_ONE, answer("HEARTBEAT", 17, 25)),
    )

    rows = _rows("wire", one=[3, 0, 3], two=[1, 0, 1], instance=[3, 0, 3])
    found = compared([log], rows, "test")
    assert (found["crossed"], found["precision"], found["recall"]) == (2, 1.0, 1.0)


@pytest.mark.parametrize(
    ("one", "instance", "is_right"),
    [
        ([1, 0, 2, 0], [1, 0, 2, 0], True),
        ([1, 0, 2, 0], [1, 10, 0], True),  # the answer demanded that tasks move
        ([1, 0, 2, 0], [1, 0, 11, 0], True),  # or a probing rebalance
        ([1, 0, 2, 0], [1, 0, 9, 0], True),  # or it was none, and then asked again
        ([1, 0, 2, 0], [1, 0, 8, 0], False),
        ([1, 2, 0], [1, 2, 0], True),  # it never came
        ([1, 0, 2, 0], [1, 10, 0, 2, 0], False),
    ],
)
def test_what_a_killed_process_was_about_to_read_may_have_demanded_another(
    tmp_path: Path, one: list[int], instance: list[int], *, is_right: bool
) -> None:
    log = _log(
        tmp_path,
        (_ONE, answer("HEARTBEAT", 6, 27)),
        (_ONE, join(7, "group is already rebalancing")),
        (_ONE, answer("JOIN_GROUP", 7, 0)),
        (_ONE, ("ask", "SYNC_GROUP", 8, "SyncGroupRequestData()")),
        ("", ("begin", "", 0, "")),
        (_ONE, join(1)),
        (_ONE, answer("JOIN_GROUP", 1, 79)),
        (_ONE, synced(2)),
    )

    assert alike(log, _rows("wire", one=one, instance=instance)) is is_right
