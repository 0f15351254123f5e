"""A day with a removed source keeps its rollups, whatever arrives late."""

from datetime import date, timedelta
from typing import Any

import pytest

from aggregation.spark.rollups.final_days import final_entries, find_changed_days
from aggregation.spark.rollups.rollup_manifest import LAYOUT, RollupBatch
from aggregation.spark.rollups.rollup_store import _spans, _stale

DAYS = [date(2026, 3, day) for day in (1, 2, 3)]
WHOLE = RollupBatch(files="whole")
KNOWN = dict.fromkeys(DAYS, WHOLE)


def final(late: int = 0) -> RollupBatch:
    return RollupBatch(files="whole", is_final=True, late=late)


@pytest.mark.parametrize(
    ("batch", "present", "horizon", "wanted"),
    [
        (WHOLE, 70, None, None),
        (WHOLE, 68, None, None),
        (WHOLE, 4, None, final(4)),
        (WHOLE, 70, date(2026, 3, 3), final(70)),
        (WHOLE, 70, date(2026, 3, 2), None),
        (final(), 4, None, final(4)),
        (final(4), 70, None, final(70)),
    ],
    ids=["more", "as many", "fewer", "horizon", "kept", "final", "many late"],
)
def test_changed_day_is_final_if_a_part_of_its_source_is_gone(
    batch: RollupBatch, present: int, horizon: date | None, wanted: RollupBatch | None
) -> None:
    day = DAYS[1]
    files = dict.fromkeys(DAYS, "whole") | {day: "late"}
    known = KNOWN | {day: batch}
    assert find_changed_days(known, files) == [day]
    entries = final_entries(known, files, ({day: present}, {day: 68}), horizon)
    assert entries == ({} if wanted is None else {day: wanted})


def test_day_without_files_is_final() -> None:
    files: dict[date, str] = {DAYS[0]: "whole"}
    entries = final_entries(KNOWN, files, ({}, {}), None)
    assert entries == dict.fromkeys(DAYS[1:], final())
    assert final_entries(KNOWN | entries, files, ({}, {}), None) == {}


def test_removed_day_has_its_late_records_once() -> None:
    files: dict[date, str] = {DAYS[0]: "whole"}
    counts = {DAYS[1]: 70, DAYS[2]: 68}, {DAYS[1]: 68, DAYS[2]: 68}
    entries = final_entries(KNOWN, files, counts, None)
    assert entries == {DAYS[1]: final(2), DAYS[2]: final()}
    assert final_entries(KNOWN | entries, files, ({}, {}), None) == {}


@pytest.mark.parametrize(
    ("changes", "stale"),
    [
        ({}, []),
        ({DAYS[1]: "late"}, []),
        ({DAYS[2]: "late"}, [DAYS[2]]),
        ({date(2026, 2, 28): "new"}, [date(2026, 2, 28)]),
        ({date(2026, 3, 4): "new"}, [date(2026, 3, 4)]),
    ],
    ids=["nothing", "final day", "day with a source", "day before", "day after"],
)
def test_final_days_are_never_stale_and_hold_up_no_other(changes: Any, stale: list[date]) -> None:
    carried = RollupBatch(files="whole", carries="state", carried_in="other", layout=LAYOUT)
    known = {DAYS[0]: final(), DAYS[1]: final(), DAYS[2]: carried}
    known[DAYS[1]] = RollupBatch(files="whole", is_final=True, carried_in="lost", carries="other")
    assert _stale(known, {DAYS[2]: "whole"} | changes) == stale


def test_state_that_differs_for_weeks_is_computed_in_growing_spans() -> None:
    """A late record of the first day changes what each of 30 days passes on."""
    days = [DAYS[0] + timedelta(days=number) for number in range(30)]
    known = {
        day: RollupBatch(
            files="f", carried_in=f"c{n - 1}" if n else "", carries=f"c{n}", layout=LAYOUT
        )
        for n, day in enumerate(days)
    }
    files = dict.fromkeys(days, "f") | {days[0]: "late"}
    lengths = []
    for span in _spans(lambda: known, files):
        lengths.append(len(span))
        for day in span:
            before = known.get(day - timedelta(days=1))
            came = "" if before is None else before.carries
            known[day] = RollupBatch(
                files=files[day], carried_in=came, carries=f"late {day}", layout=LAYOUT
            )
    assert lengths == [1, 1, 2, 4, 7, 7, 7, 1]


def test_day_of_an_older_layout_is_stale_while_it_has_a_source() -> None:
    known = {DAYS[0]: final(), DAYS[1]: RollupBatch(files="whole", layout=LAYOUT - 1)}
    assert _stale(known, {DAYS[0]: "whole", DAYS[1]: "whole"}) == [DAYS[1]]
    assert _stale(known, {}) == []
