"""Storms: many rebalances of one group within ten minutes."""

from aggregation.spark.report.section import Section, no_chart
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
WITH starts AS (
  SELECT cluster, app, `group`, unix_micros(last_at) AS at, last_at,
         sum(times) AS times, sum(member_seconds) AS lost_s
  FROM rollups
  WHERE what = 'storm' AND $period
  GROUP BY cluster, app, `group`, last_at
), windows AS (
  SELECT *, sum(times) OVER (PARTITION BY cluster, `group` ORDER BY at
                             RANGE BETWEEN CURRENT ROW AND 600000000 FOLLOWING) AS within
  FROM starts
), members AS (
  SELECT *, max(within) OVER (PARTITION BY cluster, `group` ORDER BY at
                              RANGE BETWEEN 600000000 PRECEDING AND CURRENT ROW) AS most
  FROM windows
), links AS (
  -- a later storm begins more than ten minutes after the last rebalance of the one before
  SELECT *, CASE WHEN at - lag(at) OVER (PARTITION BY cluster, `group` ORDER BY at) <= 600000000
                 THEN 0 ELSE 1 END AS begins
  FROM members WHERE most >= $storm
), storms AS (
  SELECT *, sum(begins) OVER (PARTITION BY cluster, `group` ORDER BY at) AS number FROM links
)
SELECT $keys, min(last_at) AS since, max(last_at) AS until, sum(times) AS rebalances,
       sum(lost_s) AS lost_s
FROM storms
GROUP BY cluster, app, `group`, number
ORDER BY rebalances DESC, since, $keys
"""

SECTION = Section(
    name="storms",
    title="Storms",
    note="Five rebalances or more of one group that began within ten minutes, at any time of the "
    "clock, rollouts, starts and stops aside; since and until are the starts of the first and the "
    "last one of the storm.",
    empty="There was no storm in this period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=no_chart,
)
