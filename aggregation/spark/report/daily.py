"""Daily counts, attributes that changed, and annotations: the input of news, and a table of data.

The query reaches back eight weeks before the period, so that a change in its first days is seen.
"""

from aggregation.spark.report.section import Section, no_chart
from aggregation.spark.rollups.preaggregations import PreAggregation

HISTORY_DAYS = 56

QUERY = """
SELECT day, $keys, what, kind, plan, sum(times) AS times, sum(unread_seconds) AS unread_s,
       coalesce(sum(unread_at_least), 0) > 0 AS unread_at_least,
       sum(member_seconds) AS lost_s, max(last_at) AS last_at, last_reason
FROM rollups
WHERE what IN ('incident', 'observed', 'change', 'annotation')
  AND day BETWEEN date_sub($first, 56) AND $last
GROUP BY day, $keys, what, kind, plan, last_reason
ORDER BY day DESC, $keys, what, kind, plan, last_reason
"""

SECTION = Section(
    name="daily",
    title="Day by day",
    note="The series behind the changes: incidents by day, group and kind, attributes of members "
    "that changed, and annotations, from eight weeks before the period on.",
    empty="Nothing happened in this period.",
    query=QUERY,
    preaggregation=PreAggregation.DAILY,
    chart=no_chart,
    rows_shown=0,
)
