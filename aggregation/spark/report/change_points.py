"""Change points of daily counts: the days on which a rate changes. Pure.

Theory of operation. A series of days is split at the day that gives two constant rates the highest
likelihood (Poisson). If the rate did not change, the days could have any order. So the split counts
only if few random orders of the same days have a split that is as likely (a permutation test). That
test is exact for any scatter of the days: incidents in bursts need no model. If weekdays differ, a
day is compared with the share of its weekday, and changes places only with the same weekday. Both
sides of a split are searched again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
import numpy.typing as npt

from aggregation.spark.report.significance import binomial_p

LEVEL = 0.02
"""A constant rate gives a change in fewer than this share of series."""
MIN_DAYS = 2
"""A change is believed from its second day on; the first day of a history is no rate."""
_ORDERS = 2_000
_TAIL = 100
"""If no random order is as likely, this many of the most likely orders give the estimate."""
_ENOUGH = 20
"""As many orders give a share of their own."""
_RECENT_SPLITS = 7
"""As many splits, of the last eight days, are as likely as all others of two months together."""
_RECENT = 2.0
_SEASON_WEEKS = 3
_SEASON_F = 3.5
"""Weekdays differ from here on: the ratio of their variance and the variance within them."""
_NO_SEASON = 5.0
"""Events that each weekday gets for the estimate of its share, so that none has no share."""

_NONE = 1e-9
"""In the place of a count of 0, which has no logarithm; a mean of days may be below 1."""

_Numbers = npt.NDArray[np.float64]
_Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of a daily rate: the index of its first day, both rates, and the test's result.

    If weekdays differ, the rates are those of an average day of the week.
    """

    at: int
    before: float
    after: float
    p_value: float

    @property
    def change(self) -> float | None:
        """The relative change; None from a rate of 0."""
        return self.after / self.before - 1 if self.before else None


@dataclass(frozen=True, slots=True)
class _DailyCounts:
    counts: _Numbers
    shares: _Numbers
    """Share of each day in a constant rate; 1 on the average."""
    weekdays: _Places
    """Days of one number may change places."""

    @classmethod
    def of(cls, counts: Sequence[float], weekdays: Sequence[int] | None) -> "_DailyCounts":
        values = np.array(counts, dtype=np.float64)
        days = np.array(weekdays if weekdays is not None else [0] * len(counts), dtype=np.intp)
        if not _is_seasonal(values, days):
            return cls(values, np.ones(len(values)), np.zeros(len(values), dtype=np.intp))
        of_day = np.bincount(days, minlength=7)
        sums = np.bincount(days, weights=values, minlength=7) + _NO_SEASON
        shares = (sums / np.maximum(of_day, 1))[days]
        return cls(values, shares / shares.mean(), days)

    def between(self, start: int, end: int) -> "_DailyCounts":
        part = slice(start, end)
        return _DailyCounts(self.counts[part], self.shares[part], self.weekdays[part])

    def rate(self, start: int, end: int) -> float:
        part = slice(start, end)
        return float(self.counts[part].sum() / self.shares[part].sum()) if end > start else 0.0


def find_changes(
    counts: Sequence[float], level: float = LEVEL, weekdays: Sequence[int] | None = None
) -> list[ChangePoint]:
    """Return the changes of a series of daily counts, in the order of days.

    ``level`` is the share of constant series that may show one. ``weekdays`` are 0 to 6.
    """
    series = _DailyCounts.of(counts, weekdays)
    bounds = sorted(_split(series, 0, len(counts), level))
    edges = [0, *(at for at, _ in bounds), len(counts)]
    return [
        ChangePoint(at, series.rate(edges[n], at), series.rate(at, edges[n + 2]), p_value)
        for n, (at, p_value) in enumerate(bounds)
    ]


def latest_change(
    counts: Sequence[float], level: float = LEVEL, weekdays: Sequence[int] | None = None
) -> ChangePoint | None:
    """Return the last significant change of a series; None: there is none."""
    changes = find_changes(counts, level, weekdays)
    return changes[-1] if changes else None


def _is_seasonal(counts: _Numbers, weekdays: _Places) -> bool:
    """Check whether weekdays differ by more than days of the same weekday do."""
    of_day = np.bincount(weekdays)
    classes = np.count_nonzero(of_day)
    free = len(counts) - classes
    if classes < 2 or len(counts) < 7 * _SEASON_WEEKS:
        return False
    means = np.bincount(weekdays, weights=counts) / np.maximum(of_day, 1)
    between = float((of_day * (means - counts.mean()) ** 2).sum()) / (classes - 1)
    within = float(((counts - means[weekdays]) ** 2).sum()) / free
    return bool(between > _SEASON_F * max(within, 1e-9))


def _split(series: _DailyCounts, start: int, end: int, level: float) -> list[tuple[int, float]]:
    found = _best_split(series.between(start, end), level)
    if found is None:
        return []
    at, p_value = start + found[0], found[1]
    left, right = _split(series, start, at, level), _split(series, at, end, level)
    return [*left, (at, p_value), *right]


def _best_split(series: _DailyCounts, level: float) -> tuple[int, float] | None:
    """Return the most likely split and its p-value, if that is below the level."""
    counts, shares = series.counts, series.shares
    if len(counts) < 2 * MIN_DAYS or not counts.any():
        return None
    gains = _gains(counts[np.newaxis], shares)[0]
    at = int(gains.argmax()) + MIN_DAYS
    late, total = round(float(counts[at:].sum())), round(float(counts.sum()))
    # scatter makes it only less sure: most series end here, without random orders
    if binomial_p(late, total, float(shares[at:].sum() / shares.sum())) >= level:
        return None
    p_value = _p_value(float(gains.max()), _gains(_orders(series), shares).max(axis=1))
    return (at, p_value) if p_value < level else None


def _gains(counts: _Numbers, shares: _Numbers) -> _Numbers:
    """Return the log-likelihood of each split of each row, without the part common to all splits.

    Recent splits get a bonus: a daily report has already named the older changes.
    """
    days = counts.shape[1]
    first = slice(MIN_DAYS - 1, days - MIN_DAYS)
    sums, exposed = counts.cumsum(axis=1)[:, first], shares.cumsum()[first]
    rest = counts.sum(axis=1, keepdims=True) - sums
    gains: _Numbers = _xlogx(sums, exposed) + _xlogx(rest, shares.sum() - exposed)
    gains[:, -_RECENT_SPLITS:] += _RECENT
    return gains


def _xlogx(counts: _Numbers, exposed: _Numbers) -> _Numbers:
    gains: _Numbers = counts * np.log(np.maximum(counts, _NONE) / exposed)
    return gains


def _orders(series: _DailyCounts) -> _Numbers:
    """Return random orders of the days; if weekdays differ, a day keeps its weekday."""
    days = len(series.counts)
    rng = np.random.default_rng(days)  # the same days give the same report
    drawn = np.argsort(rng.random((_ORDERS, days)) + series.weekdays, axis=1)
    orders = np.empty((_ORDERS, days))
    orders[:, np.argsort(series.weekdays, kind="stable")] = series.counts[drawn]
    return orders


def _p_value(gain: float, gains: _Numbers) -> float:
    """Return the share of orders that are as likely; beyond them an exponential tail."""
    slack = 1e-9  # equally likely results differ by rounding
    as_likely = int((gains >= gain - slack).sum())
    if as_likely >= _ENOUGH:
        return (as_likely + 1) / (len(gains) + 1)
    top = np.sort(gains)[-_TAIL:]
    excess = float(top.mean() - top[0])
    beyond = exp(-(gain - float(top[0])) / excess) if excess > 0 else 0.0
    return max(as_likely, _TAIL * beyond, slack) / len(gains)
