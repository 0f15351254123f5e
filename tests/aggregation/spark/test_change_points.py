"""Change points of simulated counts: none in noise, the right date for a real change."""

from collections.abc import Callable
from itertools import count
from math import exp, lgamma, log
from random import Random

import pytest

from aggregation.spark.report.change_points import find_changes, latest_change
from aggregation.spark.report.news import LEVEL_OF_ALL

SERIES = 100


def poisson(rng: Random, mean: float) -> int:
    """Draw a number of events."""
    limit, drawn, product = exp(-mean), 0, rng.random()
    while product > limit:
        drawn, product = drawn + 1, product * rng.random()
    return drawn


def days(rng: Random, *rates: tuple[int, float]) -> list[int]:
    return [poisson(rng, rate) for count, rate in rates for _ in range(count)]


@pytest.mark.parametrize("rate", [0.1, 0.5, 2.0, 10.0, 40.0])
@pytest.mark.parametrize("length", [7, 28, 63])
def test_constant_rate_is_no_news(rate: float, length: int) -> None:
    rng = Random(length)
    found = sum(latest_change(days(rng, (length, rate))) is not None for _ in range(SERIES))
    assert found / SERIES <= 0.05


@pytest.mark.parametrize(
    ("rate", "cluster", "share", "dated"),
    [
        (1.0, 1, 0.30, 0.80),
        (2.0, 1, 0.60, 0.90),
        (3.0, 1, 0.80, 0.90),
        (5.0, 1, 0.95, 0.95),
        (10.0, 1, 1.0, 0.95),
        (20.0, 1, 1.0, 0.95),
        (5.0, 3, 0.40, 0.85),
        (10.0, 3, 0.75, 0.90),
        (15.0, 3, 0.95, 0.95),
    ],
)
@pytest.mark.parametrize("weekend", [1.0, 0.3])
def test_doubled_rate_is_found_within_a_week_and_dated_to_two_days(
    rate: float, cluster: int, share: float, dated: float, weekend: float
) -> None:
    """The table of docs/report.md; so few series may differ by 10 %, few dates by 20 %.

    With quiet weekends fewer are found.
    """
    rng = Random(6)
    scale = 7 / (5 + 2 * weekend) / cluster
    weekdays = [n % 7 for n in range(63)]
    found = []
    for _ in range(SERIES):
        rates = [rate * scale * (weekend if day in {5, 6} else 1) for day in weekdays]
        counts = [
            cluster * poisson(rng, each * (2 if n >= 56 else 1)) for n, each in enumerate(rates)
        ]
        found.append(latest_change(counts, LEVEL_OF_ALL, weekdays))
    in_time = [each for each in found if each is not None and each.at >= 50]
    near = [each for each in in_time if abs(each.at - 56) <= 2]
    assert len(in_time) >= (share - (0.1 if weekend == 1.0 else 0.2)) * SERIES
    assert len(near) >= (dated - 0.2) * len(in_time)
    assert sum(each.after > each.before for each in in_time) >= 0.95 * len(in_time)


def test_rise_and_fall_are_two_changes() -> None:
    found = find_changes(days(Random(1), (21, 3.0), (14, 12.0), (21, 3.0)))
    assert [abs(each.at - day) <= 2 for each, day in zip(found, (21, 35), strict=True)] == [
        True
    ] * 2
    assert found[0].after == found[1].before


def weekend_off(rng: Random, n: int) -> int:
    return 0 if n % 7 in {5, 6} else poisson(rng, 6.0)


def deploys(rng: Random, n: int) -> int:
    return 20 * (rng.random() < 0.05) + poisson(rng, 0.2) + 0 * n


def weekly_deploys(rng: Random, n: int) -> int:
    return 20 * (n % 7 == 1 and rng.random() < 0.7) + poisson(rng, 0.5)


def clusters(rng: Random, n: int) -> int:
    return 5 * poisson(rng, 0.6) + 0 * n


@pytest.mark.parametrize("day", [weekend_off, deploys, weekly_deploys, clusters])
@pytest.mark.parametrize("knows_weekdays", [True, False])
def test_weekends_and_bursts_are_no_news(
    day: Callable[[Random, int], int], knows_weekdays: bool
) -> None:
    rng = Random(3)
    series = [[day(rng, n) for n in range(63)] for _ in range(SERIES)]
    weekdays = [n % 7 for n in range(63)] if knows_weekdays else None
    found = sum(latest_change(counts, weekdays=weekdays) is not None for counts in series)
    assert found <= 0.05 * len(series)


def test_rates_are_of_an_average_day_where_weekdays_differ() -> None:
    """The last weekend is busy for one, and no day of it is above a Monday."""
    counts = [9, 9, 9, 9, 9, 1, 1] * 9 + [27, 27, 27, 27, 27, 3, 3]
    change = latest_change(counts[:-2], weekdays=[n % 7 for n in range(68)])
    assert change is not None
    assert change.at == 63
    assert change.after == pytest.approx(3 * change.before, rel=0.1)
    assert change.before == pytest.approx(47 / 7, rel=0.2)


def test_same_days_give_the_same_answer() -> None:
    counts = days(Random(2), (40, 3.0), (10, 6.0))
    assert latest_change(counts) == latest_change(counts)


def test_first_day_on_which_all_members_start_is_no_change() -> None:
    assert find_changes([30] + [0, 0, 1] * 19) == []


def test_change_from_nothing_has_no_ratio() -> None:
    change = latest_change([0] * 20 + [3, 4, 2, 5])
    assert change is not None
    assert (change.at, change.before, change.change) == (20, 0.0, None)


@pytest.mark.parametrize("counts", [[], [5], [0] * 30, [3, 2]])
def test_too_little_to_know_is_no_news(counts: list[int]) -> None:
    assert find_changes(counts) == []


@pytest.mark.parametrize(
    ("rate", "limit"), [(1.0, 0.65), (2.0, 0.90), (3.0, 0.97), (5.0, 1.0), (10.0, 1.0)]
)
def test_no_test_can_find_more_of_doubled_rates(rate: float, limit: float) -> None:
    """One that knows the rate before and the day counts the week: docs/report.md's last column."""

    def tail(least: int, mean: float) -> float:
        """Return the chance of at least so many events."""
        return 1.0 - sum(exp(k * log(mean) - mean - lgamma(k + 1)) for k in range(least))

    least = next(n for n in count() if tail(n, 7 * rate) <= LEVEL_OF_ALL)
    assert tail(least, 14 * rate) == pytest.approx(limit, abs=0.015)
