"""Storms: windows with many rebalances of one group."""

from aggregation.spark.report.section import Section, no_chart
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
SELECT $keys, last_at AS since, sum(times) AS rebalances, sum(member_seconds) AS lost_s
FROM rollups
WHERE what = 'storm' AND $period
GROUP BY $keys, last_at
HAVING sum(times) >= $storm
ORDER BY rebalances DESC, since, $keys
"""

SECTION = Section(
    name="storms",
    title="Storms",
    note="Windows of ten minutes in which one group began five rebalances or more.",
    empty="There was no storm in this period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=no_chart,
)
