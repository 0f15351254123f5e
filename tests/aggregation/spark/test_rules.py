"""Rules and objectives of the report: pure."""

import re
from datetime import date
from typing import Any

import pytest

from aggregation.spark.report.compare import compare_rates, count_observed
from aggregation.spark.report.news import ObservedSpan, find_observed
from aggregation.spark.report.objectives import (
    Objective,
    find_undecided,
    find_unused,
    objective_rows,
)
from aggregation.spark.report.report import count_days
from aggregation.spark.report.rules import format_figure, parse_rule
from aggregation.spark.report.significance import is_change
from aggregation.spark.tables.period import Period

KNOWN = frozenset({"unplanned", "worse", "poll_timeout"})


@pytest.mark.parametrize(
    ("rule", "value", "is_broken"),
    [
        ("worse", 1, True),
        ("worse", 0, False),
        ("unplanned>10", 10, False),
        ("unplanned >= 10", 10, True),
        ("poll_timeout=0", 0, True),
        ("unplanned<2.5", 3, False),
    ],
)
def test_rule_is_broken_by_its_figure(rule: str, value: float, is_broken: bool) -> None:
    found = parse_rule(rule, KNOWN)
    assert found.is_broken({found.figure: value}) is is_broken


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("unplanned>1234567", "unplanned>1234567"),
        ("unplanned >= 0.0000005", "unplanned>=0.0000005"),
        ("worse", "worse>0"),
    ],
)
def test_rule_is_named_as_it_was_given(rule: str, text: str) -> None:
    assert str(parse_rule(rule, KNOWN)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (0.25, "0.25"), (1234567.8, "1,234,567.8"), (12345678.0, "12,345,678")],
)
def test_value_of_a_figure_has_no_exponent(value: float, text: str) -> None:
    assert format_figure(value) == text


def test_figure_that_is_not_known_breaks_no_rule() -> None:
    assert not parse_rule("unplanned=0", KNOWN).is_broken({"unplanned": None})


def test_kind_that_did_not_happen_is_0() -> None:
    assert not parse_rule("poll_timeout>0", KNOWN).is_broken({})


@pytest.mark.parametrize("rule", ["", "unplanned>", "unplanned!3", "lag>3", "3>unplanned"])
def test_other_text_is_no_rule(rule: str) -> None:
    with pytest.raises(ValueError, match=r"is no rule|is none of"):
        parse_rule(rule, KNOWN)


def test_pattern_that_is_no_groups_objective_is_named() -> None:
    """A typing error would never fail a pipeline."""
    objectives = [
        Objective(pattern=text, groups=re.compile(text), target=0.999)
        for text in ("payments", "paymnets", ".*s", "orders")
    ]
    share: list[dict[str, Any]] = [{"group": "payments"}, {"group": "orders"}]
    assert find_unused(objectives, {"share": share}, "group") == ["paymnets", "orders"]


def test_objective_that_nothing_decides_is_named() -> None:
    """A pipeline that asks for missed ones would pass without a word."""
    rows: list[dict[str, Any]] = [
        {"group": "payments", "met": None},
        {"group": "orders", "met": True},
        {"group": "audit", "met": False},
    ]
    assert find_undecided(rows, "group") == ["payments"]


def test_objectives_are_of_the_first_pattern_and_scale_with_the_period() -> None:
    objectives = [
        Objective(pattern="payments", groups=re.compile("payments"), target=0.999, budget_s=3000.0),
        Objective(pattern=".*s", groups=re.compile(".*s"), target=0.5),
    ]
    share: list[dict[str, Any]] = [
        {"cluster": "eu", "group": name, "share": value}
        for name, value in (("payments", 0.0005), ("orders", None), ("audit", 0.5))
    ]
    cost = {"unread_s": 2000.0, "unread_at_least": True}
    groups: list[dict[str, Any]] = [{"cluster": "eu", "group": "payments"} | cost]
    period = Period(date(2026, 3, 1), date(2026, 3, 15))
    tables = {"share": share, "groups": groups}
    first, second = objective_rows(objectives, tables, period, "group")
    assert (first["group"], first["met"], first["budget_s"]) == ("payments", False, 1500.0)
    assert first["budget_used"] == pytest.approx(4 / 3)
    assert (second["group"], second["met"], second["level"]) == ("orders", None, None)


@pytest.mark.parametrize(
    ("share", "unread_s", "met"),
    [
        (0.0005, 10.0, True),
        (None, 10.0, None),
        (0.0005, None, None),
        (None, None, None),
        (None, 9000.0, False),
        (0.5, None, False),
    ],
)
def test_objective_that_is_known_in_part_is_missed_or_not_known(
    share: float | None, unread_s: float | None, met: bool | None
) -> None:
    objective = Objective(pattern="g", groups=re.compile("g"), target=0.99, budget_s=3000.0)
    own = {"cluster": "eu", "group": "g"}
    cost = {"unread_s": unread_s, "unread_at_least": unread_s is None}
    tables = {"share": [own | {"share": share}], "groups": [own | cost]}
    period = Period(date(2026, 3, 1), date(2026, 3, 15))
    (row,) = objective_rows([objective], tables, period, "group")
    assert row["met"] is met


@pytest.mark.parametrize(("unread_s", "met"), [(10.0, None), (9000.0, False)])
def test_lower_bound_of_unread_time_keeps_no_budget(unread_s: float, met: bool | None) -> None:
    objective = Objective(pattern="g", groups=re.compile("g"), budget_s=3000.0)
    own = {"cluster": "eu", "group": "g"}
    cost = {"unread_s": unread_s, "unread_at_least": True}
    tables = {"share": [own | {"share": 0.0}], "groups": [own | cost]}
    period = Period(date(2026, 3, 1), date(2026, 3, 15))
    (row,) = objective_rows([objective], tables, period, "group")
    assert (row["met"], row["unread_at_least"]) == (met, True)


def test_group_without_an_incident_keeps_its_budget() -> None:
    objective = Objective(pattern="g", groups=re.compile("g"), budget_s=3000.0)
    tables = {"share": [{"cluster": "eu", "group": "g", "share": 0.0}], "groups": []}
    period = Period(date(2026, 3, 1), date(2026, 3, 15))
    (row,) = objective_rows([objective], tables, period, "group")
    assert (row["unread_s"], row["met"]) == (0.0, True)


ROW: dict[str, Any] = {
    "cluster": "eu",
    "group": "a",
    "rebalances": 105,
    "rebalances_before": 154,
    "unplanned": 0,
    "unplanned_before": 0,
    "lost_s": 150.0,
    "lost_before_s": 110.0,
    "change": None,
    "is_significant": None,
    "lost_change": None,
}


def test_change_between_periods_of_unequal_length_is_of_a_day() -> None:
    """15 and 22 days of 7 rebalances each were a fall by a third."""
    (row,) = compare_rates([ROW], 15, 22)
    assert row["change"] == pytest.approx(0.0)
    assert row["lost_change"] == pytest.approx(1.0)
    assert (row["days"], row["days_before"]) == (15, 22)
    (new,) = compare_rates([ROW | {"rebalances_before": 0, "lost_before_s": 0.0}], 15, 22)
    assert (new["change"], new["lost_change"]) == (None, None)


@pytest.mark.parametrize(("days", "days_before"), [(7, 0), (0, 7)])
def test_period_without_records_is_no_zero(days: int, days_before: int) -> None:
    rows = [ROW | {"unplanned": 40, "unplanned_before": 0}]
    (row,) = compare_rates(rows, days, days_before)
    assert [row[name] for name in ("is_significant", "change", "lost_change")] == [None] * 3


@pytest.mark.parametrize(
    ("first", "last", "is_known"),
    [
        (date(2026, 2, 1), date(2026, 3, 14), True),
        (date(2026, 3, 9), date(2026, 3, 14), False),  # it is new
        (date(2026, 2, 1), date(2026, 3, 7), False),  # it is gone
        (date(2026, 3, 7), date(2026, 3, 8), True),
    ],
)
def test_group_that_one_period_has_not_observed_is_no_zero(
    first: date, last: date, is_known: bool
) -> None:
    period = Period(date(2026, 3, 8), date(2026, 3, 14))
    own = {"cluster": "eu", "group": "g"}
    row = own | {"what": "observed", "kind": None, "day": first, "times": (last - first).days + 1}
    observed = count_observed(find_observed([row], "group"), MARCH, period, period.before)
    (row,) = compare_rates([ROW | own | {"unplanned": 40}], 7, 7, observed=observed)
    assert (row["is_significant"], row["change"] is not None) == (is_known or None, is_known)


MARCH = [date(2026, 3, day) for day in range(1, 32)]


def test_group_is_compared_over_the_days_on_which_it_was_observed() -> None:
    """It came on the last day of the period before, or its agent was away until then."""
    period, own = Period(date(2026, 3, 8), date(2026, 3, 14)), {"cluster": "eu", "group": "g"}
    seen = {("eu", "g"): [ObservedSpan(date(2026, 3, 7), date(2026, 3, 14), is_sampled=True)]}
    observed = count_observed(seen, MARCH, period, period.before)
    given = {"unplanned": 21, "unplanned_before": 3, "rebalances": 21, "rebalances_before": 3}
    (row,) = compare_rates([ROW | own | given], 7, 7, observed=observed)
    assert (row["change"], row["is_significant"]) == (pytest.approx(0.0), False)
    assert (row["observed_days"], row["observed_days_before"]) == (7, 1)


def test_group_of_days_that_are_not_known_is_compared() -> None:
    """The days behind a period are not read, and those long before it neither."""
    period = Period(date(2026, 3, 8), date(2026, 3, 14))
    seen = {("eu", "g"): [ObservedSpan(date(2026, 3, 9), date(2026, 3, 14), is_sampled=True)]}
    for other in (
        Period(date(2026, 4, 1), date(2026, 4, 7)),
        Period(date(2025, 1, 1), date(2025, 1, 7)),
    ):
        assert not count_observed(seen, MARCH, period, other)


def test_days_of_a_comparison_are_those_with_records() -> None:
    days = [date(2026, 3, day) for day in (1, 2, 9)]
    assert count_days(days, Period(date(2026, 3, 1), date(2026, 3, 8))) == 2


def test_one_of_many_groups_differs_by_chance() -> None:
    rows = [ROW | {"unplanned": count, "unplanned_before": 2} for count in (12, *[2] * 39)]
    assert [row["is_significant"] for row in compare_rates(rows[:1], 7, 7)] == [True]
    assert not any(row["is_significant"] for row in compare_rates(rows, 7, 7))


def test_periods_of_unequal_length_are_compared_by_day() -> None:
    assert not is_change(10, 100, 10.0)
    assert is_change(40, 100, 10.0)
