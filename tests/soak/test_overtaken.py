"""Tests of own reasons that a client logs after the wire has reported the end or a higher cause."""

from pathlib import Path

import pytest

from tests.soak.said import Said, alike, answer, join, log_of, rows_of, synced


@pytest.mark.parametrize(
    ("source", "signals", "is_right"),
    [("wire", [6], True), ("wire", [], False), ("logs", [6], False)],
)
def test_what_the_end_has_overtaken_is_a_signal(
    tmp_path: Path, source: str, signals: list[int], *, is_right: bool
) -> None:
    log = log_of(tmp_path, answer("HEARTBEAT", 1, 27), ("enforce", "", 0, ""), synced(2))

    assert (
        alike(log, rows_of([1, 0], source=source) + rows_of(signals, "signal", source)) is is_right
    )


@pytest.mark.parametrize(
    ("masked", "found", "is_right"),
    [([answer("HEARTBEAT", 1, 27)], [1, 0], True), ([], [], False)],
)
def test_so_it_is_where_what_it_masks_was_met_first(
    tmp_path: Path, masked: list[Said], found: list[int], *, is_right: bool
) -> None:
    log = log_of(tmp_path, ("enforce", "", 0, ""), *masked, synced(2))
    another = [row | {"client_id": "c2"} for row in rows_of([1], source="wire")]
    rows = another + rows_of(found, source="wire") + rows_of([6], "signal", "wire")

    assert alike(log, rows) is is_right


@pytest.mark.parametrize(
    ("source", "signals", "is_right"),
    [("wire", [6], True), ("wire", [], False), ("logs", [6], False)],
)
def test_what_a_higher_cause_has_overtaken_is_a_signal(
    tmp_path: Path, source: str, signals: list[int], *, is_right: bool
) -> None:
    """The wire tells a join's reason before the log is read that tells another one of before it."""
    rejoin = join(1, "subscription has changed from [a] to [b]")
    log = log_of(tmp_path, ("enforce", "", 0, ""), rejoin, synced(2))

    assert alike(log, rows_of([6, 8, 0], source=source))
    got = rows_of([8, 0], source=source) + rows_of(signals, "signal", source)
    assert alike(log, got) is is_right


@pytest.mark.parametrize(("source", "is_right"), [("wire", True), ("logs", False)])
def test_or_it_begins_and_ends_behind_the_end(
    tmp_path: Path, source: str, *, is_right: bool
) -> None:
    log = log_of(tmp_path, answer("HEARTBEAT", 1, 27), ("enforce", "", 0, ""), synced(2))

    assert alike(log, rows_of([1, 6, 0], source=source))
    assert alike(log, rows_of([1, 0, 6, 0], source=source)) is is_right
