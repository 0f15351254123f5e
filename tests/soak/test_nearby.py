"""Tests of a difference's place, time, and context in records and DEBUG log."""

from pathlib import Path

from tests.soak.comparing import compared
from tests.soak.nearby import about
from tests.soak.said import answer, join, log_of, rows_of, synced


def test_a_difference_tells_where_it_is(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        answer("HEARTBEAT", 1, 27),
        join(2),
        answer("JOIN_GROUP", 2, 0),
        ("ask", "SYNC_GROUP", 3, "SomeRequestData()"),
        synced(3),
    )
    rows = [
        {**row, "ts": f"2026-11-22T01:00:0{place}Z", "scope": "consumer", "from": 0, "reason": "r"}
        for place, row in enumerate(rows_of([1, 4, 0]))
    ]

    (difference,) = compared([log], rows, "test")["differences"]
    got = "\n".join(about(difference, log, rows))

    assert (difference["wanted"], difference["found"], difference["at"]) == ([], [4], 1)
    assert "01:00:01.000000 transition of consumer c1 0>4 by logs: r" in got
    assert "01:00:00.000000 log of c1: Received HEARTBEAT 1" in got
