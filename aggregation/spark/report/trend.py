"""Weeks, each with the change against the week before."""

from aggregation.spark.report.plot import ACCENT, Panel, columns
from aggregation.spark.report.section import Chart, Rows, Section
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
WITH weeks AS (
  SELECT date_sub($last, 7 * CAST(floor(datediff($last, day) / 7) AS INT) + 6) AS week,
         count(DISTINCT CASE WHEN what = 'observed' THEN day END) AS days,
         coalesce(sum(CASE WHEN what = 'incident' AND plan = 'unplanned' THEN times END), 0)
           AS unplanned,
         coalesce(sum(CASE WHEN what = 'incident' AND plan = 'planned' THEN times END), 0)
           AS planned,
         sum(CASE WHEN what = 'incident' THEN unread_seconds END) AS unread_s,
         coalesce(sum(unread_at_least), 0) > 0 AS unread_at_least,
         coalesce(sum(CASE WHEN what = 'rebalance' THEN times END), 0) AS rebalances,
         coalesce(sum(CASE WHEN what = 'rebalance' THEN member_seconds END), 0D) AS lost_s,
         coalesce(sum(CASE WHEN what = 'rebalance' THEN seconds END), 0D) AS rebalancing_s,
         CASE WHEN count_if(what = 'observed' AND kind = 'unknown') = 0
              THEN sum(CASE WHEN what = 'observed' THEN seconds END) END AS observed_s
  FROM rollups
  WHERE what IN ('incident', 'rebalance', 'observed') AND day BETWEEN date_sub($first, 7) AND $last
  GROUP BY 1
), changes AS (
  SELECT week, days, unplanned, planned, unread_s, unread_at_least, rebalances,
         CASE WHEN lag(days) OVER w = days THEN lag(rebalances) OVER w END AS rebalances_before,
         CASE WHEN lag(days) OVER w = days AND lag(rebalances) OVER w > 0
              THEN rebalances / lag(rebalances) OVER w - 1 END AS change,
         lost_s,
         CASE WHEN lag(days) OVER w = days AND lag(lost_s) OVER w > 0
              THEN lost_s / lag(lost_s) OVER w - 1 END AS lost_change,
         CASE WHEN observed_s > 0 THEN least(rebalancing_s / observed_s, 1D) END AS share_of_time
  FROM weeks WINDOW w AS (ORDER BY week)
)
SELECT * FROM changes WHERE date_add(week, 6) >= $first ORDER BY week DESC
"""


def chart(rows: Rows) -> Chart | None:
    """Draw a bar for each week."""
    if len(rows) <= 1:
        return None
    weeks = rows[::-1]
    heights = [row["rebalances"] for row in weeks]
    panel = Panel("rebalances in the seven days from each date", [(ACCENT, heights)], 11)
    figure = columns([panel], [row["week"] for row in weeks])
    alt = f"Rebalances a week: {', '.join(f'{height:,}' for height in heights[-12:])}."
    return Chart(figure, alt)


SECTION = Section(
    name="trend",
    title="Week by week",
    note="The last week first; weeks are counted back from the last day. A change is against the "
    "week before, and only where both have data on as many days. Incidents stand apart "
    "as unplanned and planned. Lost is the time "
    "of all members that were not at 0.",
    empty="Nothing was observed in this period.",
    query=QUERY,
    preaggregation=PreAggregation.DAYS,
    chart=chart,
)
