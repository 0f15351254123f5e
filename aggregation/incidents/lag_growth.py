"""Growth of a group's lag in an incident, from the changes that group inspection recorded. Pure.

The changes of one disturbance follow each other: each begins at the height where the last one
ended, and the last one falls to the lag before the first, or below. An incident has the changes
from its begin to the begin of the next one. Where the group caught up later than that, the end is
still its own: what it had to read again was read by then.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aggregation.incidents.attributes import LagStep

SLACK_S = 5.0
"""A poll may see a changed group shortly before the others of its members hear of it."""


class LagGrowth(NamedTuple):
    """The lag before an incident, its highest value, and the end. Unix seconds."""

    before: int
    highest: int
    caught_up_at: float | None
    """None: not yet, or not seen."""


Disturbances = Sequence[Sequence[LagStep]]


def split_steps(steps: Iterable[LagStep]) -> Disturbances:
    """Split the steps where the lag is as before its first one, or where they do not join."""
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
    """Return the growth between two instants; None where the lag did not grow."""
    for grown in disturbances:
        own = [each for each in grown if since - SLACK_S <= each.at < until - SLACK_S]
        if own and own[0].after > own[0].before:
            return LagGrowth(
                before=grown[0].before,
                highest=max(max(each.before, each.after) for each in own),
                caught_up_at=grown[-1].at if grown[-1].after <= grown[0].before else None,
            )
    return None
