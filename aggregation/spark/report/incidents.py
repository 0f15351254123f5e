"""The incidents themselves, the costliest first."""

from aggregation.spark.report.section import Section, no_chart
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
WITH places AS (
  SELECT *, least(rank() OVER (ORDER BY coalesce(unread_partition_seconds, 0) DESC),
                  CASE WHEN unread_at_least
                       THEN rank() OVER (ORDER BY coalesce(member_seconds, 0) DESC) END) AS place
  FROM incidents
  WHERE $period
)
SELECT $keys, kind, plan, started_at, ended_at, is_ongoing,
       unix_micros(ended_at) / 1000000D - unix_micros(started_at) / 1000000D AS length_s,
       client_id, host, size(members) AS members, rebalances,
       unread_partition_seconds AS unread_s, coalesce(unread_at_least, false) AS unread_at_least,
       member_seconds AS lost_s, reason, certainty, id
FROM places
ORDER BY place, coalesce(unread_partition_seconds, 0) DESC, member_seconds DESC, started_at, id
"""

SECTION = Section(
    name="incidents",
    title="Incidents",
    note="The costliest first, in the order of causes; the files have them all. The id is that of "
    "the explain command and of the API, and of the tables beside the rollups: one row an "
    "incident, with its rebalances.",
    empty="No incident began in this period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=no_chart,
    rows_shown=40,
)
