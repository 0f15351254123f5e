"""Two periods, side by side."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta

from aggregation.spark.report.daily import HISTORY_DAYS
from aggregation.spark.report.news import ObservedSpan
from aggregation.spark.report.section import Row, Rows, Section, no_chart
from aggregation.spark.report.significance import LEVEL, is_change
from aggregation.spark.rollups.preaggregations import PreAggregation
from aggregation.spark.tables.period import Period

QUERY = """
WITH sums AS (
  SELECT $keys,
         sum(CASE WHEN $period AND what = 'rebalance' THEN times ELSE 0 END) AS rebalances,
         sum(CASE WHEN $before AND what = 'rebalance' THEN times ELSE 0 END) AS rebalances_before,
         sum(CASE WHEN $period AND what = 'incident' AND plan = 'unplanned' THEN times ELSE 0 END)
           AS unplanned,
         sum(CASE WHEN $before AND what = 'incident' AND plan = 'unplanned' THEN times ELSE 0 END)
           AS unplanned_before,
         sum(CASE WHEN $period AND what = 'rebalance' THEN member_seconds ELSE 0D END) AS lost_s,
         sum(CASE WHEN $before AND what = 'rebalance' THEN member_seconds ELSE 0D END)
           AS lost_before_s
  FROM rollups
  WHERE what IN ('rebalance', 'incident') AND ($period OR $before)
  GROUP BY $keys
)
SELECT $keys, CAST(NULL AS INT) AS days, CAST(NULL AS INT) AS days_before,
       rebalances, rebalances_before, CAST(NULL AS DOUBLE) AS change,
       unplanned, unplanned_before, CAST(NULL AS BOOLEAN) AS is_significant,
       lost_s, lost_before_s,
       CAST(NULL AS DOUBLE) AS lost_change,
       CAST(NULL AS INT) AS observed_days, CAST(NULL AS INT) AS observed_days_before
FROM sums
ORDER BY abs(lost_s - lost_before_s) DESC, $keys
"""


_Subject = tuple[str, str]
"""Cluster, and group or application."""


def count_observed(
    seen: Mapping[_Subject, Sequence[ObservedSpan]],
    days: Sequence[date],
    period: Period,
    other: Period,
) -> dict[_Subject, tuple[int, int]]:
    """Return the number of days on which each group was observed, in both periods.

    ``seen`` are its spans since `HISTORY_DAYS` before the period, and up to its end. If the other
    period is not all within, nothing is known of its days.
    """
    since = period.first - timedelta(HISTORY_DAYS)
    if other.last > period.last or other.first < since:
        return {}
    both = [[day for day in days if each.first <= day <= each.last] for each in (period, other)]
    return {
        group: (_count(spans, both[0]), _count(spans, both[1])) for group, spans in seen.items()
    }


def _count(spans: Sequence[ObservedSpan], days: Iterable[date]) -> int:
    return sum(1 for day in days if any(each.first <= day <= each.last for each in spans))


def compare_rates(
    rows: Rows,
    days: int,
    days_before: int,
    by: str = "group",
    observed: Mapping[_Subject, tuple[int, int]] | None = None,
) -> Rows:
    """Return the rows with changes a day, and whether unplanned incidents a day differ.

    ``days`` are those with records, ``observed`` those of each group where they are known: a group
    has a rate only on days on which it was observed. The test's level is shared by all groups that
    had an incident: of many groups few differ by chance. A period without a day of records is no
    zero: then nothing is known.
    """
    own = [(observed or {}).get(_subject(row, by), (days, days_before)) for row in rows]
    tested = sum(
        1
        for row, of_group in zip(rows, own, strict=True)
        if all(of_group) and row["unplanned"] + row["unplanned_before"]
    )
    level = LEVEL / max(tested, 1)
    return [
        row
        | {"days": days, "days_before": days_before}
        | {"observed_days": of_group[0], "observed_days_before": of_group[1]}
        | (_changes(row, of_group[1] / of_group[0], level) if all(of_group) else {})
        for row, of_group in zip(rows, own, strict=True)
    ]


def _changes(row: Row, weeks: float, level: float) -> Row:
    return {
        "change": _change(row["rebalances"], row["rebalances_before"], weeks),
        "is_significant": is_change(row["unplanned"], row["unplanned_before"], weeks, level),
        "lost_change": _change(row["lost_s"], row["lost_before_s"], weeks),
    }


def _subject(row: Row, by: str) -> _Subject:
    return row["cluster"] or "", row[by] or ""


def _change(value: float, before: float, weeks: float) -> float | None:
    """Return the relative change of a rate; None if it was 0."""
    return weeks * value / before - 1 if before else None


SECTION = Section(
    name="compare",
    title="Against the other period",
    note="The same counts in the period that this one is compared with; the largest differences "
    "first. Changes are of the counts a day, over the days on which the group was observed if they "
    "are known, else over days with records. Unplanned are incidents. Significant is a "
    "difference of unplanned incidents a day that an exact test finds to be more "
    "than noise, after correction for the number of groups and whatever the lengths of the "
    "periods. It is empty for groups that one of the periods has not observed.",
    empty="There was no rebalance in either period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=no_chart,
)
