"""Two periods, side by side."""

from aggregation.spark.report.section import Section, no_chart
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
WITH sums AS (
  SELECT $keys,
         sum(CASE WHEN $period THEN times ELSE 0 END) AS rebalances,
         sum(CASE WHEN $before THEN times ELSE 0 END) AS rebalances_before,
         sum(CASE WHEN $period THEN member_seconds ELSE 0D END) AS lost_s,
         sum(CASE WHEN $before THEN member_seconds ELSE 0D END) AS lost_before_s
  FROM rollups
  WHERE what = 'rebalance' AND ($period OR $before)
  GROUP BY $keys
)
SELECT $keys, rebalances, rebalances_before,
       CASE WHEN rebalances_before > 0 THEN rebalances / rebalances_before - 1 END AS change,
       lost_s, lost_before_s,
       CASE WHEN lost_before_s > 0 THEN lost_s / lost_before_s - 1 END AS lost_change
FROM sums
ORDER BY abs(lost_s - lost_before_s) DESC, $keys
"""

SECTION = Section(
    name="compare",
    title="Against the other period",
    note="The same counts in the period that this one is compared with; the largest differences "
    "first. Periods of unequal length are compared as they are.",
    empty="There was no rebalance in either period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=no_chart,
)
