"""Kafka Streams: probing and other follow-up rebalances."""

from aggregation.spark.report.section import Section, no_chart
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
WITH found AS (
  SELECT $keys, code,
         sum(CASE WHEN what = 'rebalance' THEN times ELSE 0 END) AS rebalances,
         sum(CASE WHEN what = 'follow_up' THEN times ELSE 0 END) AS follow_ups,
         sum(CASE WHEN what = 'status' THEN seconds ELSE 0D END) AS instance_s
  FROM rollups
  WHERE code >= 10 AND $period
    AND (what IN ('rebalance', 'follow_up') OR (what = 'status' AND scope = 'streams'))
  GROUP BY $keys, code
)
SELECT $keys, found.code, name AS code_name, rebalances, follow_ups, instance_s
FROM found LEFT JOIN codes ON found.code = codes.code
WHERE found.code > 10 OR instance_s > 0
ORDER BY rebalances DESC, instance_s DESC, $keys, code
"""

SECTION = Section(
    name="streams",
    title="Kafka Streams",
    note="Rebalances that a probing assignment (11), version probing (12) or an endpoint (13) "
    "began, those of them that follow from an earlier one, and for how long instances were in "
    "these statuses and in 10.",
    empty="No Streams instance was seen in a status of its own.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=no_chart,
)
