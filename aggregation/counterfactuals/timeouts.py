"""Curves over a timeout: what each candidate saves, against members that are missed later. Pure.

Both sides are seconds of members: those that incidents cost, and those that a member that is gone
for good stays unnoticed. The point with the largest difference is chosen: of equal ones the one
that avoids more rebalances, then the shortest. Where each costs more than it saves, none is.
A candidate is `MARGIN` times the time that was needed, rounded up.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from aggregation.counterfactuals.savings import Saving, sum_unread

MARGIN = 1.5
_MINUTE_S = 60.0
_LONG_STEP_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutPoint:
    """One candidate of a curve."""

    timeout_s: float
    savings: tuple[Saving, ...]
    losses: tuple[Saving, ...] = ()
    """Incidents that happen all the same, and for which the group would have waited longer."""
    later_s: float
    """Seconds for which members that are gone would have been missed later, in sum."""

    @property
    def rebalances(self) -> int:
        """Rebalances avoided."""
        return sum(each.rebalances for each in self.savings)

    @property
    def unread_s(self) -> float | None:
        """Unread seconds of partitions that it saves; None where not known."""
        return sum_unread((*self.savings, *self.losses))

    @property
    def net_s(self) -> float:
        """Seconds of members that it saves."""
        return sum(each.member_s for each in self.savings) - self.later_s


Curve = tuple[TimeoutPoint, ...]


def round_up(needed_s: float) -> float:
    """Return a round time with the margin: whole seconds, from a minute on tens of them."""
    with_margin = MARGIN * needed_s
    step = 1.0 if with_margin < _MINUTE_S else _LONG_STEP_S
    return max(1.0, -(-with_margin // step) * step)


def draw_curve(
    candidates_s: Iterable[float],
    save_within: Callable[[float], Sequence[Saving]],
    count_later: Callable[[float], float],
    lose_beyond: Callable[[float], Sequence[Saving]] = lambda _: (),
) -> Curve:
    """Return the points of a curve, by timeout."""
    return tuple(
        TimeoutPoint(
            timeout_s=timeout_s,
            savings=tuple(save_within(timeout_s)),
            losses=tuple(lose_beyond(timeout_s)),
            later_s=count_later(timeout_s),
        )
        for timeout_s in sorted(set(candidates_s))
    )


def choose(curve: Curve) -> TimeoutPoint | None:
    """Return the best point of a curve; None where nothing is worth it.

    A timeout with which partitions are unread for longer than without it is none.
    """
    fit = [point for point in curve if (point.unread_s or 0.0) >= 0.0]
    best = max(fit, key=lambda p: (p.net_s, p.rebalances, -p.timeout_s), default=None)
    return best if best is not None and best.savings and best.net_s >= 0.0 else None
