"""Tests of a soak's strictness: changes that the oracle notices, and changes that it accepts."""

from pathlib import Path

import pytest

from tests.soak.said import answer, join, log_of, rows_of, synced
from tests.soak.strictness import Change, left_out, one_more, unnoticed


@pytest.mark.parametrize(("change", "place"), [(left_out, 0), (left_out, 1), (one_more, 1)])
def test_what_is_certain_is_noticed(tmp_path: Path, change: Change, place: int) -> None:
    log = log_of(tmp_path, answer("HEARTBEAT", 1, 27), join(2), synced(3))
    rows = rows_of([1, 0])

    assert list(unnoticed([log], rows, iter([rows[place]]), change)) == []


def test_what_a_killed_process_may_have_been_told_is_not(tmp_path: Path) -> None:
    killed = ("ask", "HEARTBEAT", 7, "HeartbeatRequestData()"), ("begin", "", 0, "")
    log = log_of(tmp_path, *killed, join(1), answer("JOIN_GROUP", 1, 79), synced(2))
    rows = rows_of([3, 2, 0])

    assert list(unnoticed([log], rows, iter(rows), left_out)) == rows[:2]
