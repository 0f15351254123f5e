"""Groups by the time that their members lose."""

from aggregation.spark.report.plot import ACCENT, TOP, bars, format_seconds, time_axis
from aggregation.spark.report.section import Chart, Rows, Section, subject
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
WITH totals AS (
  SELECT $keys, sum(times) AS rebalances, sum(seconds) AS rebalancing_s,
         sum(member_seconds) AS lost_s
  FROM rollups
  WHERE what = 'rebalance' AND $period
  GROUP BY $keys
)
SELECT $keys, rebalances, rebalancing_s, lost_s,
       lost_s / nullif(sum(lost_s) OVER (), 0) AS share_of_lost
FROM totals
ORDER BY lost_s DESC, $keys
"""


def chart(rows: Rows) -> Chart | None:
    """Draw the time that the members of each group lost."""
    shown = [row for row in rows[:TOP] if row["lost_s"] > 0]
    if not shown:
        return None
    figure, axes = bars([subject(row) for row in shown])
    axes.barh(range(len(shown)), [r["lost_s"] for r in shown], 0.66, color=ACCENT, alpha=0.85)
    time_axis(axes, shown[0]["lost_s"])
    most = format_seconds(shown[0]["lost_s"])
    return Chart(figure, f"Time lost by group; {subject(shown[0])} lost the most, {most}.")


SECTION = Section(
    name="groups",
    title="Who loses the most time",
    note="Lost is the time of all members that were not at 0: ten members that wait a minute lose "
    "ten minutes.",
    empty="No rebalance began in this period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=chart,
)
