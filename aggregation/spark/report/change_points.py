"""Change points of daily counts: since when a rate is another one. Pure.

Theory of operation. A series of days is split where the likelihood of two constant rates is highest
(Poisson). The split counts only if an exact binomial test finds it significant, after correction
for the number of days at which it could lie, and if no single day makes it: it must stand without
the highest day. Both sides are searched again. Incidents come in clusters: where days scatter more
than Poisson's, counts are divided by that scatter first. So noise and weekends give no news.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log, sqrt

from aggregation.spark.report.significance import binomial_p

LEVEL = 0.02
"""A constant rate gives a change in fewer than this share of series."""
MIN_DAYS = 2
"""A change is believed from its second day on; the first day of a history is no rate."""
_NOISE_SIGMAS = 2.0
"""Scatter that Poisson's own does not explain."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of a daily rate: the index of its first day, both rates, and the test's result."""

    at: int
    before: float
    after: float
    p_value: float

    @property
    def change(self) -> float | None:
        """The relative change; None from a rate of 0."""
        return self.after / self.before - 1 if self.before else None


def find_changes(counts: Sequence[int], level: float = LEVEL) -> list[ChangePoint]:
    """Return the changes of a series of daily counts, in the order of days.

    ``level`` is the share of constant series that may show one.
    """
    bounds = sorted(_split(counts, 0, len(counts), level))
    edges = [0, *(at for at, _ in bounds), len(counts)]
    return [
        ChangePoint(
            at,
            _mean(counts[edges[n] : at]),
            _mean(counts[at : edges[n + 2]]),
            p_value,
        )
        for n, (at, p_value) in enumerate(bounds)
    ]


def latest_change(counts: Sequence[int], level: float = LEVEL) -> ChangePoint | None:
    """Return the last change of a series; None: its rate is constant, as far as one can know."""
    changes = find_changes(counts, level)
    return changes[-1] if changes else None


def _split(counts: Sequence[int], start: int, end: int, level: float) -> list[tuple[int, float]]:
    found = _best_split(counts[start:end])
    if found is None:
        return []
    at, p_value = start + found[0], found[1]
    if p_value >= level:
        return []
    left, right = _split(counts, start, at, level), _split(counts, at, end, level)
    return [*left, (at, p_value), *right]


def _best_split(counts: Sequence[int]) -> tuple[int, float] | None:
    """Return the most likely split and its corrected p-value."""
    days, total = len(counts), sum(counts)
    candidates = range(MIN_DAYS, days - MIN_DAYS + 1)
    if not total or not candidates:
        return None
    sums = [0, *accumulate(counts)]
    at = max(candidates, key=lambda t: _gain(sums[t], t) + _gain(total - sums[t], days - t))
    scatter = _scatter(counts, at)
    alone = _test(*_without_highest(counts, at), scatter)
    return at, min(1.0, max(alone, len(candidates) * _test(counts[:at], counts[at:], scatter)))


def _test(before: Sequence[int], after: Sequence[int], scatter: float) -> float:
    late, of_all = sum(after) / scatter, (sum(before) + sum(after)) / scatter
    return binomial_p(round(late), round(of_all), len(after) / (len(before) + len(after)))


def _without_highest(counts: Sequence[int], at: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return both sides without the highest day of the side with the higher rate."""
    sides = [list(counts[:at]), list(counts[at:])]
    higher = max(sides, key=_mean)
    if len(higher) > 1:
        higher.remove(max(higher))
    return sides[0], sides[1]


def _gain(count: int, days: int) -> float:
    """Return the logarithm of the likelihood of a constant rate, without what all splits share."""
    return count * log(count / days) if count else 0.0


def _scatter(counts: Sequence[int], at: int) -> float:
    """Return the ratio of variance and mean within both sides: 1 unless it is clearly more."""
    free = len(counts) - 2
    if free < 1:
        return 1.0
    squares = 0.0
    for side in (counts[:at], counts[at:]):
        mean = _mean(side)
        squares += sum((count - mean) ** 2 for count in side) / mean if mean else 0.0
    ratio = squares / free
    return ratio if ratio > 1 + _NOISE_SIGMAS * sqrt(2 / free) else 1.0


def _mean(counts: Sequence[int]) -> float:
    return sum(counts) / len(counts) if counts else 0.0
