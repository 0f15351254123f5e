"""Growth of a group's lag in an incident, from the changes that group inspection recorded. Pure.

The changes of one disturbance follow each other: each begins at or above the lag after the change
before it, and the last one falls to the lag before the first one, or below. An incident has the
changes between its begin and the begin of the next incident. If the group caught up after that,
that time is still the end of this incident's lag: only then were its records read.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aggregation.incidents.attributes import LagStep

SLACK_S = 5.0
"""A poll may see a changed group shortly before the group's other members do."""


class LagGrowth(NamedTuple):
    """The lag before an incident, its highest value, and the end. Unix seconds."""

    before: int
    highest: int
    caught_up_at: float | None
    """None: not yet, or not seen."""


Disturbances = Sequence[Sequence[LagStep]]


def split_steps(steps: Iterable[LagStep]) -> Disturbances:
    """Split the steps into disturbances.

    A disturbance ends if the lag is back to its value before the first step, or if the next step
    begins below the end of the last one.
    """
    found: list[list[LagStep]] = []
    for step in sorted(steps):
        last = found[-1] if found else []
        is_over = not last or last[-1].after <= last[0].before
        is_joined = bool(last) and step.before >= last[-1].after
        if is_over or not is_joined:
            found.append([step])
        else:
            last.append(step)
    return found


def measure_growth(disturbances: Disturbances, since: float, until: float) -> LagGrowth | None:
    """Return the growth between two instants (Unix seconds); None if the lag did not grow."""
    for grown in disturbances:
        own = [each for each in grown if since - SLACK_S <= each.at < until - SLACK_S]
        if own and own[0].after > own[0].before:
            return LagGrowth(
                before=grown[0].before,
                highest=max(max(each.before, each.after) for each in own),
                caught_up_at=grown[-1].at if grown[-1].after <= grown[0].before else None,
            )
    return None
