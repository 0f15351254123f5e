"""Changes in one sentence each, with what they would have saved. Pure.

Alerts have the same sentence: `dashboards/prometheus/rules.yaml` writes it from metrics.
"""

from math import floor

from aggregation.counterfactuals.change import Change
from aggregation.counterfactuals.lines import (
    ASSIGNOR,
    GROUP_ID,
    GROUP_PROTOCOL,
    INITIAL_DELAY,
    LEAVE_ON_CLOSE,
    PACING,
    STATIC_ID,
)

_MINUTE_S, _HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
_NAMES = {
    STATIC_ID: "static membership",
    ASSIGNOR: "the cooperative assignor",
    INITIAL_DELAY: "a longer initial delay",
    GROUP_ID: "a group for each program",
    LEAVE_ON_CLOSE: "internal.leave.group.on.close=true",
    PACING: "a rollout in fewer steps",
}


def describe_change(change: Change, rebalances: int, seconds: float) -> str:
    """Return what a change would have avoided, of all rebalances of a group in a period."""
    avoided, unread = change.rebalances_avoided, change.unread_avoided_s
    parts = [f"{avoided} of {rebalances} rebalances"] if avoided else []
    parts += [f"{format_span(unread)} unread"] if unread else []
    if not parts:
        number = len(change.savings)
        parts = [f"{number} incident{'' if number == 1 else 's'}"]
    return f"{name_of(change)} would have avoided {', '.join(parts)} {_within(seconds)}"


def name_of(change: Change) -> str:
    """Name a change for people: its common name, else the setting with its new value."""
    name = _NAMES.get(change.setting, change.setting)
    if change.setting == STATIC_ID and change.now is not None:
        return f"{STATIC_ID} ({change.proposed})"  # its members are static already
    if change.setting in {STATIC_ID, INITIAL_DELAY}:
        return f"{name} ({change.setting}: {change.proposed})"
    if change.setting in _NAMES:
        return name
    is_value = change.proposed.isdigit() or change.setting == GROUP_PROTOCOL
    return f"{name}={change.proposed}" if is_value else f"{name} ({change.proposed})"


def format_span(seconds: float) -> str:
    """Write a time in one unit: 41 min, 5.8 h.

    It is rounded down: what a setting saves is never more than there was.
    """
    if seconds >= 2 * _HOUR_S:
        return f"{floor(10 * seconds / _HOUR_S + _SLACK) / 10:g} h"
    if seconds >= 2 * _MINUTE_S:
        return f"{floor(seconds / _MINUTE_S + _SLACK)} min"
    return f"{seconds:.2g} s" if seconds < 10 else f"{floor(seconds + _SLACK)} s"


_SLACK = 1e-6
"""Sums of parts differ from a whole number by rounding."""


def _within(seconds: float) -> str:
    if seconds >= 2 * DAY_S:
        return f"in {seconds / DAY_S:.0f} days"
    return f"in {format_span(seconds)}"


def how_often(times: int) -> str:
    """Write how often something happened."""
    return "once" if times == 1 else f"{times} times"
