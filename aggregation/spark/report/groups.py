"""Groups by the time that their members lose."""

from aggregation.spark.report.plot import ACCENT, TOP, bars, format_seconds, time_axis
from aggregation.spark.report.section import Chart, Rows, Section, subject
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
WITH totals AS (
  SELECT $keys, sum(CASE WHEN what = 'rebalance' THEN times END) AS rebalances,
         sum(CASE WHEN what = 'rebalance' THEN seconds END) AS rebalancing_s,
         sum(CASE WHEN what = 'rebalance' THEN member_seconds END) AS lost_s,
         coalesce(sum(CASE WHEN what = 'status' THEN seconds END), 0D) AS out_of_group_s,
         sum(CASE WHEN what = 'moved' THEN times END) AS partitions_moved
  FROM rollups
  WHERE (what IN ('rebalance', 'moved')
         OR what = 'status' AND scope = 'consumer' AND code = 5) AND $period
  GROUP BY $keys
)
SELECT $keys, rebalances, rebalancing_s, lost_s,
       lost_s / nullif(sum(lost_s) OVER (), 0) AS share_of_lost, out_of_group_s,
       partitions_moved
FROM totals
WHERE rebalances > 0
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
    note="Lost is the time of members within rebalances: ten members that wait a minute lose ten "
    "minutes. Out of group is the time at DroppedGroup (5), in which a member is in no rebalance. "
    "Partitions moved are of the rebalances for which members or inspection report them.",
    empty="No rebalance began in this period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=chart,
)
