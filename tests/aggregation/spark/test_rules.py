"""Rules and objectives of the report: pure."""

import re
from datetime import date
from typing import Any

import pytest

from aggregation.spark.report.objectives import Objective, objective_rows
from aggregation.spark.report.rules import parse_rule
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


def test_kind_that_did_not_happen_is_0() -> None:
    assert not parse_rule("poll_timeout>0", KNOWN).is_broken({})


@pytest.mark.parametrize("rule", ["", "unplanned>", "unplanned!3", "lag>3", "3>unplanned"])
def test_other_text_is_no_rule(rule: str) -> None:
    with pytest.raises(ValueError, match=r"is no rule|is none of"):
        parse_rule(rule, KNOWN)


def test_objectives_are_of_the_first_pattern_and_scale_with_the_period() -> None:
    objectives = [
        Objective(groups=re.compile("payments"), target=0.999, budget_s=3000.0),
        Objective(groups=re.compile(".*s"), target=0.5),
    ]
    share: list[dict[str, Any]] = [
        {"cluster": "eu", "group": name, "share": value}
        for name, value in (("payments", 0.0005), ("orders", None), ("audit", 0.5))
    ]
    groups: list[dict[str, Any]] = [{"cluster": "eu", "group": "payments", "unread_s": 2000.0}]
    period = Period(date(2026, 3, 1), date(2026, 3, 15))
    tables = {"share": share, "groups": groups}
    first, second = objective_rows(objectives, tables, period, "group")
    assert (first["group"], first["met"], first["budget_s"]) == ("payments", False, 1500.0)
    assert first["budget_used"] == pytest.approx(4 / 3)
    assert (second["group"], second["met"], second["level"]) == ("orders", None, None)


def test_periods_of_unequal_length_are_compared_by_day() -> None:
    assert not is_change(10, 100, 10.0)
    assert is_change(40, 100, 10.0)
