"""The exact test of counts."""

import pytest

from aggregation.spark.report.significance import binomial_p, is_change


@pytest.mark.parametrize(
    ("successes", "trials", "share", "wanted"),
    [(0, 10, 0.5, 2 / 1024), (5, 10, 0.5, 1.0), (8, 10, 0.5, 112 / 1024), (3, 3, 1 / 3, 1 / 27)],
)
def test_probability_is_exact(successes: int, trials: int, share: float, wanted: float) -> None:
    assert binomial_p(successes, trials, share) == pytest.approx(wanted)


def test_no_rebalance_at_all_is_no_change() -> None:
    assert not is_change(0, 0, 1)
    assert not is_change(5, 0, 1)


def test_doubled_count_against_eight_weeks_is_one() -> None:
    assert is_change(60, 8 * 30, 8)
    assert not is_change(36, 8 * 30, 8)
