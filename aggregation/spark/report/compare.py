"""Two periods, side by side."""

from collections.abc import Collection, Mapping
from datetime import date, timedelta

from aggregation.spark.report.daily import HISTORY_DAYS
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
       CAST(NULL AS DOUBLE) AS lost_change
FROM sums
ORDER BY abs(lost_s - lost_before_s) DESC, $keys
"""


_Subject = tuple[str, str]
"""Cluster, and group or application."""


def find_absent(
    seen: Mapping[_Subject, tuple[date, date]], period: Period, other: Period
) -> set[_Subject]:
    """Return groups that one of two periods has not observed: they are new, or gone.

    ``seen`` has the first and the last observed day of each group, since `HISTORY_DAYS` before the
    period, and up to its end. Of another period outside of that nothing is known.
    """
    since = period.first - timedelta(HISTORY_DAYS)
    if other.first > period.last or other.last < since:
        return set()
    return {
        group
        for group, (first, last) in seen.items()
        if first > min(period.last, other.last) or last < max(period.first, other.first)
    }


def compare_rates(
    rows: Rows, days: int, days_before: int, by: str = "group", absent: Collection[_Subject] = ()
) -> Rows:
    """Return the rows with changes a day, and whether unplanned incidents a day differ.

    ``days`` are those with records. The test's level is shared by all groups that had an incident:
    of many groups few differ by chance. A period without a day of records is no zero: then nothing
    is known. Neither is it for an ``absent`` group, which one of the periods has not observed.
    """
    known = {"days": days, "days_before": days_before}
    if not days or not days_before:
        return [row | known for row in rows]
    weeks = days_before / days
    both = [not absent or _subject(row, by) not in absent for row in rows]
    tested = sum(
        1
        for row, is_in_both in zip(rows, both, strict=True)
        if is_in_both and row["unplanned"] + row["unplanned_before"]
    )
    level = LEVEL / max(tested, 1)
    return [
        row | known | (_changes(row, weeks, level) if is_in_both else {})
        for row, is_in_both in zip(rows, both, strict=True)
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
    "first. Changes are of the counts a day, over days with records. Unplanned are incidents. "
    "Significant is a difference of unplanned incidents a day that an exact test finds to be more "
    "than noise, after correction for the number of groups and whatever the lengths of the "
    "periods. It is empty for groups that one of the periods has not observed.",
    empty="There was no rebalance in either period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=no_chart,
)
