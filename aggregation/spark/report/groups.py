"""Groups by the cost of their incidents."""

from aggregation.spark.report.kinds import LOST_AXIS, PLAN_COLOURS, plan_keys
from aggregation.spark.report.plot import TOP, Bar, bars, format_seconds, time_axis
from aggregation.spark.report.section import Chart, Row, Rows, Section, subject
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
WITH totals AS (
  SELECT $keys, sum(CASE WHEN what = 'rebalance' THEN times END) AS rebalances,
         sum(CASE WHEN what = 'rebalance' THEN seconds END) AS rebalancing_s,
         sum(CASE WHEN what = 'incident' THEN times END) AS incidents,
         sum(CASE WHEN what = 'incident' AND plan = 'unplanned' THEN times END) AS unplanned,
         sum(CASE WHEN what = 'incident' THEN unread_seconds END) AS unread_s,
         sum(CASE WHEN what = 'incident' AND plan = 'unplanned' THEN unread_seconds END)
           AS unplanned_unread_s,
         coalesce(sum(unread_at_least), 0) > 0 AS unread_at_least,
         coalesce(sum(CASE WHEN plan = 'unplanned' THEN unread_at_least END), 0) > 0
           AS unplanned_unread_at_least,
         sum(CASE WHEN what = 'rebalance' THEN member_seconds END) AS lost_s,
         sum(CASE WHEN what = 'rebalance' AND plan = 'unplanned' THEN member_seconds END)
           AS unplanned_lost_s,
         coalesce(sum(CASE WHEN what = 'status' THEN seconds END), 0D) AS out_of_group_s,
         sum(CASE WHEN what = 'moved' THEN times END) AS partitions_moved
  FROM rollups
  WHERE (what IN ('rebalance', 'moved', 'incident')
         OR what = 'status' AND scope = 'consumer' AND code = 5) AND $period
  GROUP BY $keys
), places AS (
  SELECT *, lost_s / nullif(sum(lost_s) OVER (), 0) AS share_of_lost,
         least(rank() OVER (ORDER BY coalesce(unread_s, 0) DESC),
               CASE WHEN unread_at_least
                    THEN rank() OVER (ORDER BY coalesce(lost_s, 0) DESC) END) AS place
  FROM totals
  WHERE rebalances > 0 OR incidents > 0
)
SELECT $keys, coalesce(incidents, 0) AS incidents, coalesce(unplanned, 0) AS unplanned,
       unread_s, unread_at_least, unplanned_unread_s, unplanned_unread_at_least,
       coalesce(rebalances, 0) AS rebalances,
       coalesce(rebalancing_s, 0D) AS rebalancing_s, coalesce(lost_s, 0D) AS lost_s,
       coalesce(unplanned_lost_s, 0D) AS unplanned_lost_s,
       share_of_lost, out_of_group_s, partitions_moved
FROM places
ORDER BY place, coalesce(unread_s, 0) DESC, coalesce(lost_s, 0) DESC, $keys
"""


def chart(rows: Rows) -> Chart | None:
    """Draw the time that the members of each group lost, unplanned and in all."""
    by_lost = sorted(rows, key=lambda row: -row["lost_s"])
    shown = [row for row in by_lost[:TOP] if row["lost_s"] > 0]
    if not shown:
        return None
    drawn = [Bar(subject(row), _parts(row), format_seconds(row["lost_s"])) for row in shown]
    figure = bars(drawn, time_axis(shown[0]["lost_s"]), LOST_AXIS)
    most = format_seconds(shown[0]["lost_s"])
    alt = f"Time lost by group; {subject(shown[0])} lost the most, {most}."
    return Chart(figure, alt, plan_keys())


def _parts(row: Row) -> list[tuple[str, float]]:
    unplanned = min(row["unplanned_lost_s"], row["lost_s"])
    lost = {"unplanned": unplanned, "planned": row["lost_s"] - unplanned}
    return [(colour, lost[plan]) for plan, colour in PLAN_COLOURS.items()]


SECTION = Section(
    name="groups",
    title="Groups by cost",
    note="The costliest first, by unread partition seconds. Where more was unread than is known, "
    "as no source shows a timeout or assignments, a group stands as high as its time lost puts it, "
    "if that is higher. Lost is the time of members that were not at 0: ten members that wait "
    "a minute lose ten minutes. The part of it at DroppedGroup (5), in which a member is in no "
    "rebalance, is out of group. Partitions moved are of the rebalances for which members or "
    "inspection report them.",
    empty="No incident began in this period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=chart,
)
