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
SELECT $keys, rebalances, rebalances_before,
       CASE WHEN rebalances_before > 0 THEN rebalances / rebalances_before - 1 END AS change,
       unplanned, unplanned_before, CAST(NULL AS BOOLEAN) AS is_significant,
       lost_s, lost_before_s,
       CASE WHEN lost_before_s > 0 THEN lost_s / lost_before_s - 1 END AS lost_change
FROM sums
ORDER BY abs(lost_s - lost_before_s) DESC, $keys
"""


def mark_significant(rows: Rows, days: int, days_before: int) -> Rows:
    """Return the rows with the test's result: whether unplanned incidents a day differ.

    The level is shared by all groups that had one: of many groups few differ by chance. A period
    without a day of records is no zero: then nothing is known.
    """
    if not days or not days_before:
        return [row | {"is_significant": None} for row in rows]
    weeks = days_before / days
    tested = sum(1 for row in rows if row["unplanned"] + row["unplanned_before"])
    level = LEVEL / max(tested, 1)
    return [
        row | {"is_significant": is_change(row["unplanned"], row["unplanned_before"], weeks, level)}
        for row in rows
    ]


SECTION = Section(
    name="compare",
    title="Against the other period",
    note="The same counts in the period that this one is compared with; the largest differences "
    "first. Unplanned are incidents. Significant is a difference of unplanned incidents a day that "
    "an exact test finds to be more than noise, after correction for the number of groups and "
    "whatever the lengths of the periods.",
    empty="There was no rebalance in either period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=no_chart,
)
