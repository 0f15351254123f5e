"""The period of a report, whatever days the tables hold."""

from datetime import date

from aggregation.spark.report.context import past_days

MARCH = [date(2026, 3, day) for day in (1, 2, 3)]
WRONG = date(2038, 1, 19)


def test_days_of_a_wrong_clock_stretch_no_report() -> None:
    said: list[str] = []
    assert past_days([*MARCH, WRONG], MARCH[-1], said.append) == MARCH
    assert said == [
        "left out, since the clock of their host was wrong: records of 2038-01-19 and later"
    ]


def test_tomorrow_is_no_wrong_clock_and_a_wrong_clock_here_hides_nothing() -> None:
    said: list[str] = []
    assert past_days(MARCH, MARCH[1], said.append) == MARCH
    assert past_days(MARCH, date(2020, 1, 1), said.append) == MARCH
    assert said == []
