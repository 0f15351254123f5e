"""Service level objectives of groups: a target, a budget, and whether both were kept. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aggregation.spark.report.section import Row, Rows
from aggregation.spark.tables.period import Period

BUDGET_DAYS = 30
"""A budget is given for as many days; a report of other days gets its share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Objective of some groups."""

    pattern: str
    """As the user wrote it."""
    groups: re.Pattern[str]
    target: float | None = None
    """Share of the observed time in which a group does not rebalance."""
    budget_s: float | None = None
    """Partition seconds that nobody reads, in `BUDGET_DAYS`."""

    def matches(self, name: str) -> bool:
        """Check whether a group, or an application, has this objective."""
        return self.groups.fullmatch(name) is not None


def objective_rows(
    objectives: Sequence[Objective], tables: Mapping[str, Rows], period: Period, by: str
) -> Rows:
    """Return each group that has an objective: the first one that matches; missed ones first.

    ``tables`` holds the rows of `share` and `groups`.
    """
    costs = {(row["cluster"], row[by]): row for row in tables["groups"]}
    found = []
    for row in tables["share"]:
        objective = next((each for each in objectives if each.matches(row[by] or "")), None)
        if objective is not None:
            cost = costs.get((row["cluster"], row[by]))
            found.append(_row(objective, row, cost, period, by))
    return sorted(found, key=lambda row: (row["met"] is not False, -(row["budget_used"] or 0.0)))


def find_unused(objectives: Sequence[Objective], tables: Mapping[str, Rows], by: str) -> list[str]:
    """Return patterns without a group: they match none, or an earlier pattern has precedence."""
    names = [row[by] or "" for row in tables["share"]]
    used = {next((n for n, o in enumerate(objectives) if o.matches(name)), None) for name in names}
    return [each.pattern for n, each in enumerate(objectives) if n not in used]


def find_undecided(rows: Rows, by: str) -> list[str]:
    """Return the groups whose objective is neither met nor missed: a figure of it is not known."""
    return [row[by] or "" for row in rows if row["met"] is None]


def _is_within(budget: float, spent: float | None, *, is_more: bool) -> bool | None:
    """Return whether a budget was kept; a lower bound can only show that it was not."""
    if spent is None:
        return None
    return False if spent > budget else None if is_more else True


def _row(objective: Objective, share: Row, cost: Row | None, period: Period, by: str) -> Row:
    """Check a group; an objective without a known value is neither met nor missed."""
    rebalancing = share["share"]
    level = None if rebalancing is None else 1 - rebalancing
    spent = cost["unread_s"] if cost else 0.0  # nothing happened
    is_more = bool(cost and cost["unread_at_least"])
    budget = None
    if objective.budget_s is not None:
        budget = objective.budget_s * period.days / BUDGET_DAYS
    kept: list[bool | None] = []
    if objective.target is not None:
        kept.append(None if level is None else level >= objective.target)
    if budget is not None:
        kept.append(_is_within(budget, spent, is_more=is_more))
    return {
        "cluster": share["cluster"],
        by: share[by],
        "target": objective.target,
        "level": level,
        "budget_s": budget,
        "unread_s": spent,
        "unread_at_least": is_more,
        "budget_used": spent / budget if budget and spent is not None else None,
        "met": False if False in kept else None if None in kept or not kept else True,
    }
