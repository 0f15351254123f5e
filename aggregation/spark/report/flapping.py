"""Members that join and leave often."""

from aggregation.spark.report.section import Section, no_chart
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
WITH days AS (
  SELECT $keys, client_id, host, sum(times) AS times,
         -- rows with a bucket are of several days, each without a flapping
         CASE WHEN bucket IS NULL THEN sum(times) END AS a_day,
         sum(CASE WHEN kind IN ('expired', 'removed') THEN times ELSE 0 END) AS crashes,
         sum(CASE WHEN kind = 'dropped' THEN times ELSE 0 END) AS drops
  FROM rollups
  WHERE what = 'departure' AND $period
  GROUP BY $keys, client_id, host, day, bucket
)
SELECT $keys, client_id, host, count_if(a_day >= $flapping) AS days,
       max(a_day) AS most_a_day, sum(times) AS departures, sum(crashes) AS crashes,
       sum(drops) AS drops
FROM days
GROUP BY $keys, client_id, host
HAVING max(a_day) >= $flapping
ORDER BY departures DESC, $keys, client_id, host
"""

SECTION = Section(
    name="flapping",
    title="Members that flap",
    note="Members that were gone three times or more on one day: expired or removed (crashes), "
    "dropped for their poll interval, or left.",
    empty="No member was gone three times on one day.",
    query=QUERY,
    preaggregation=PreAggregation.FLAPPING,
    chart=no_chart,
)
