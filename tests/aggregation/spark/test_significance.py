"""The title is silent about noise and names a change that is one."""

import random
from datetime import date

import pytest

from aggregation.spark.report.headline import Tables, change_of, title
from aggregation.spark.report.significance import binomial_p, is_change
from aggregation.spark.tables.period import Period

PERIOD = Period(date(2026, 3, 2), date(2026, 5, 10))


@pytest.mark.parametrize(
    ("successes", "trials", "share", "wanted"),
    [(0, 10, 0.5, 2 / 1024), (5, 10, 0.5, 1.0), (8, 10, 0.5, 112 / 1024), (3, 3, 1 / 3, 1 / 27)],
)
def test_probability_is_exact(successes: int, trials: int, share: float, wanted: float) -> None:
    assert binomial_p(successes, trials, share) == pytest.approx(wanted)


def poisson(rng: random.Random, mean: float) -> int:
    """Return how many events of a constant rate fall into one unit of time."""
    at, events = rng.expovariate(mean), 0
    while at < 1:
        at, events = at + rng.expovariate(mean), events + 1
    return events


def weeks(*counts: int) -> Tables:
    """Return the tables of a report; the last week comes first."""
    trend = [
        {"days": 7, "rebalances": here, "rebalances_before": before}
        for here, before in zip(counts, [*counts[1:], None], strict=True)
    ]
    group = {"cluster": "", "group": "g", "rebalances": sum(counts), "share_of_lost": 1.0}
    return {"trend": trend, "groups": [group]}


@pytest.mark.parametrize("mean", [1.0, 8.0, 60.0])
@pytest.mark.parametrize("weeks_before", [1, 8])
def test_constant_rate_gives_no_news_in_95_percent_of_titles(
    mean: float, weeks_before: int
) -> None:
    rng = random.Random(7)
    titles = [
        title(weeks(*(poisson(rng, mean) for _ in range(1 + weeks_before))), PERIOD, "group")
        for _ in range(600)
    ]
    assert sum("against" in text for text in titles) / len(titles) < 0.05


def test_doubled_rate_is_news_within_a_week() -> None:
    rng = random.Random(7)
    found = [
        change_of(weeks(poisson(rng, 60), *(poisson(rng, 30) for _ in range(8))))
        for _ in range(200)
    ]
    assert sum(change is not None and change.share > 0 for change in found) / len(found) > 0.95


def test_no_rebalance_at_all_is_no_change() -> None:
    assert not is_change(0, 0, 1)
    assert change_of({"trend": []}) is None
    assert change_of(weeks(5, 0)) is None


def test_a_single_week_is_compared_with_the_one_before_the_period() -> None:
    tables = weeks(40)
    tables["trend"][0]["rebalances_before"] = 10
    change = change_of(tables)
    assert change is not None
    assert change.text == "rose 300 % against the week before"
