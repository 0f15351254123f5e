"""Objectives of groups, for the report: a YAML file of patterns, targets and budgets.

    slo:
      "re:^payments-.*": {target: 99.9, budget: 2h}
      audit: {target: 99}

``target`` is the per cent of the observed time in which a group does not rebalance. ``budget`` is
the time of partitions that nobody reads, in 30 days: two partitions for an hour are 2h. The first
pattern that matches counts.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from agent.config.codec import parse_duration
from agent.config.group_patterns import compile_pattern
from agent.config.yaml_loader import read_yaml
from agent.errors import ConfigError

_DIGITS = 12
"""99.99 / 100 is a little less than 0.9999."""
_KEYS = {"target", "budget"}
_ALL = 100.0
EXAMPLE = "slo: {payments: {target: 99.9, budget: 2h}}"
"""A file of one group: the per cent of the time, and unread time of partitions in 30 days."""


class ObjectiveConfig(NamedTuple):
    """The objective of the groups that match a pattern."""

    pattern: str
    """As it is written."""
    groups: re.Pattern[str]
    target: float | None
    """A share, of 1."""
    budget_s: float | None


def read_objectives(path: Path) -> list[ObjectiveConfig]:
    """Read a file of objectives.

    Raises:
        ConfigError: it is no such file; the text names the place and the wanted form.

    """
    document = read_yaml(path)
    unknown = sorted(set(document) - {"slo"})
    entries = document.get("slo")
    if unknown or not isinstance(entries, dict) or not entries:
        raise ConfigError(f"{path}: wanted objectives by group, such as {EXAMPLE}")
    return [_read(str(name), value, f"{path}: slo.{name}") for name, value in entries.items()]


def _read(pattern: str, value: object, where: str) -> ObjectiveConfig:
    if not isinstance(value, Mapping) or not value or set(value) - _KEYS:
        raise ConfigError(f"{where}: wanted target, budget or both, such as {{target: 99.9}}")
    target, budget = value.get("target"), value.get("budget")
    is_number = isinstance(target, int | float) and not isinstance(target, bool)
    if target is not None and not (is_number and 0 < float(target) <= _ALL):
        raise ConfigError(f"{where}.target: found {target!r}, wanted per cent, such as 99.9")
    return ObjectiveConfig(
        pattern,
        compile_pattern(pattern, where),
        None if target is None else round(float(target) / _ALL, _DIGITS),
        None if budget is None else parse_duration(budget, f"{where}.budget"),
    )
