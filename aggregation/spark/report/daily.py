"""Daily counts, attributes that changed, and annotations: the input of news, and a table of data.

The query reaches back eight weeks before the period, so that a change in its first days is seen.
"""

from aggregation.spark.report.section import Section, no_chart
from aggregation.spark.rollups.preaggregations import PreAggregation

HISTORY_DAYS = 56

QUERY = """
WITH named AS (
  SELECT DISTINCT cluster, app, `group`
  FROM rollups
  WHERE what = 'observed' AND `group` IS NOT NULL
), notes AS (
  SELECT note.day, coalesce(named.cluster, note.cluster) AS cluster,
         CASE WHEN note.`group` IS NULL THEN coalesce(named.app, nullif(note.app, ''))
              ELSE coalesce(named.app, note.app, '') END AS app,
         coalesce(named.`group`, note.`group`) AS `group`,
         note.what, note.kind, note.plan, note.last_at, note.last_reason
  FROM rollups AS note LEFT JOIN named
    ON (note.`group` IS NOT NULL OR note.app <> '')
   AND named.`group` = coalesce(note.`group`, named.`group`)
   AND named.app = coalesce(nullif(note.app, ''), named.app)
   AND named.cluster = coalesce(nullif(note.cluster, ''), named.cluster)
  WHERE note.what = 'annotation' AND note.day BETWEEN date_sub($first, 56) AND $last
), counts AS (
  SELECT day, $keys, what, kind, plan,
         CASE WHEN what = 'observed' THEN max(times) ELSE sum(times) END AS times,
         sum(unread_seconds) AS unread_s,
         coalesce(sum(unread_at_least), 0) > 0 AS unread_at_least,
         sum(member_seconds) AS lost_s, max(last_at) AS last_at, last_reason
  FROM rollups
  WHERE what IN ('incident', 'observed', 'change') AND day BETWEEN date_sub($first, 56) AND $last
  GROUP BY day, $keys, what, kind, plan, last_reason
  UNION ALL
  SELECT day, $keys, what, kind, plan, 1 AS times, CAST(NULL AS DOUBLE) AS unread_s,
         false AS unread_at_least, CAST(NULL AS DOUBLE) AS lost_s, max(last_at) AS last_at,
         last_reason
  FROM notes
  GROUP BY day, $keys, what, kind, plan, last_reason
)
SELECT *
FROM counts
ORDER BY day DESC, $keys, what, kind, plan, last_reason
"""
"""A posted annotation names a group, an application, or nothing, and perhaps no cluster: it is one
of each group, or application, that is meant."""

SECTION = Section(
    name="daily",
    title="Day by day",
    note="The series behind the changes: incidents by day, group and kind, attributes of members "
    "that changed, and annotations, from eight weeks before the period on. The times "
    "of an observed group are consecutive days, from that day on.",
    empty="Nothing happened in this period.",
    query=QUERY,
    preaggregation=PreAggregation.DAILY,
    chart=no_chart,
    rows_shown=0,
)
