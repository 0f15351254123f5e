"""Rules that make a pipeline fail: each compares a figure of the report with a number. Pure."""

import operator
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

FigureValues = dict[str, float | None]
"""Figures by name; None: no source shows it."""
_RULE = re.compile(r"\s*([a-z_]+)\s*(?:(>=|<=|>|<|=)\s*([0-9]+(?:\.[0-9]+)?))?\s*")
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
FIGURES = (
    *("incidents", "unplanned", "planned", "rebalances", "unread_s", "unplanned_unread_s"),
    *("lost_s", "storms", "faults", "worse", "slo_missed"),
)
"""Names of the report's own figures; kinds of incidents are figures too."""


class FailureRule(NamedTuple):
    """A rule such as ``poll_timeout>3``; a name alone means more than 0."""

    figure: str
    sign: str
    limit: float
    text: str
    """The limit as it was given."""

    def is_broken(self, figures: FigureValues) -> bool:
        """Check the rule; a kind of incident that did not happen is 0."""
        value = figures.get(self.figure, 0)
        return value is not None and _COMPARE[self.sign](value, self.limit)

    def __str__(self) -> str:
        """Write the rule as it was given."""
        return f"{self.figure}{self.sign}{self.text}"


def parse_rule(text: str, known: frozenset[str]) -> FailureRule:
    """Parse a rule over figures and kinds of incidents.

    Raises:
        ValueError: it is no rule; the text names the fault.

    """
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no rule such as 'unplanned>10' or 'slo_missed'")
    name, sign, limit = found.groups()
    if name not in known:
        raise ValueError(f"{name!r} is none of {', '.join(sorted(known))}")
    text = limit or "0"
    return FailureRule(name, sign or ">", float(text), text)


def format_figure(value: float) -> str:
    """Write a figure's value with all digits that matter, and never with an exponent."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")
