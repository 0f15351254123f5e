"""Two periods, side by side."""

from aggregation.spark.report.section import Rows, Section, no_chart
from aggregation.spark.report.significance import LEVEL, is_change
from aggregation.spark.rollups.preaggregations import PreAggregation

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


def compare_rates(rows: Rows, days: int, days_before: int) -> Rows:
    """Return the rows with changes a day, and whether unplanned incidents a day differ.

    ``days`` are those with records. The test's level is shared by all groups that had an incident:
    of many groups few differ by chance. A period without a day of records is no zero: then nothing
    is known.
    """
    known = {"days": days, "days_before": days_before}
    if not days or not days_before:
        return [row | known for row in rows]
    weeks = days_before / days
    tested = sum(1 for row in rows if row["unplanned"] + row["unplanned_before"])
    level = LEVEL / max(tested, 1)
    return [
        row
        | known
        | {
            "change": _change(row["rebalances"], row["rebalances_before"], weeks),
            "is_significant": is_change(row["unplanned"], row["unplanned_before"], weeks, level),
            "lost_change": _change(row["lost_s"], row["lost_before_s"], weeks),
        }
        for row in rows
    ]


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
    "periods.",
    empty="There was no rebalance in either period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=no_chart,
)
