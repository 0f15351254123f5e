"""Exact test of counts, so that the report is silent about noise.

Theory of operation. If the rate is constant, the split of all incidents between a week and the
weeks before it is binomial (counts of a Poisson process, given their sum). The test is two-sided.
Incidents are not fully independent, so the level is stricter than the usual five per cent.
"""

from math import exp, lgamma, log

LEVEL = 0.02
"""A constant rate gives news in fewer than this share of reports."""


def is_change(count: int, before: int, weeks_before: float, level: float = LEVEL) -> bool:
    """Return whether a week's count differs from the weeks before by more than noise.

    It can be any period instead of a week; that period is then the unit of ``weeks_before``.
    """
    total = count + before
    return total > 0 and binomial_p(count, total, 1 / (1 + weeks_before)) < level


def binomial_p(successes: int, trials: int, share: float) -> float:
    """Return the probability of a result that is as unlikely or more unlikely, on either side."""
    seen = _log_probability(successes, trials, share)
    slack = 1e-9  # equally likely results differ by rounding
    probabilities = (_log_probability(k, trials, share) for k in range(trials + 1))
    return min(1.0, sum(exp(p) for p in probabilities if p <= seen + slack))


def _log_probability(successes: int, trials: int, share: float) -> float:
    ways = lgamma(trials + 1) - lgamma(successes + 1) - lgamma(trials - successes + 1)
    return ways + successes * log(share) + (trials - successes) * log(1 - share)
