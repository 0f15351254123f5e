"""Causes by cost: incidents by their kind."""

from aggregation.spark.report.plot import TOP, Bar, bars, format_seconds, time_axis
from aggregation.spark.report.section import Chart, Key, Rows, Section
from aggregation.spark.rollups.preaggregations import PreAggregation
from metrics.model.palette import ON_LIGHT
from metrics.model.status import RebalanceStatus as Status

QUERY = """
WITH totals AS (
  SELECT kind, plan, sum(times) AS incidents, sum(unread_seconds) AS unread_s,
         coalesce(sum(unread_at_least), 0) > 0 AS unread_at_least,
         sum(member_seconds) AS lost_s
  FROM rollups
  WHERE what = 'incident' AND $period
  GROUP BY kind, plan
), places AS (
  SELECT *, lost_s / nullif(sum(lost_s) OVER (), 0) AS share_of_lost,
         least(rank() OVER (ORDER BY coalesce(unread_s, 0) DESC),
               CASE WHEN unread_at_least
                    THEN rank() OVER (ORDER BY coalesce(lost_s, 0) DESC) END) AS place
  FROM totals
)
SELECT kind, plan, incidents, unread_s, unread_at_least, lost_s, share_of_lost
FROM places
ORDER BY place, coalesce(unread_s, 0) DESC, lost_s DESC, kind, plan
"""

PLAN_COLOURS = {
    "unplanned": ON_LIGHT[Status.DROPPED_GROUP],
    "planned": ON_LIGHT[Status.NONE],
}

LOST_AXIS = "time lost by members"
"""The tables beside are in the order of unread time, which not every row has."""


def plan_keys() -> tuple[Key, ...]:
    """Return the legend of planned and unplanned."""
    return tuple(Key(colour, plan) for plan, colour in PLAN_COLOURS.items())


def chart(rows: Rows) -> Chart | None:
    """Draw the time that each kind cost."""
    by_cost = sorted(rows, key=lambda row: -(row["lost_s"] or 0.0))
    shown = [row for row in by_cost[:TOP] if row["lost_s"]]
    if not shown:
        return None
    lost = [row["lost_s"] for row in shown]
    drawn = [
        Bar(
            f"{row['kind']} ({row['incidents']:,})",
            [(PLAN_COLOURS[row["plan"]], row["lost_s"])],
            format_seconds(row["lost_s"]),
        )
        for row in shown
    ]
    figure = bars(drawn, time_axis(lost[0]), LOST_AXIS)
    alt = f"Time lost by kind of incident; {shown[0]['kind']} cost most, {format_seconds(lost[0])}."
    return Chart(figure, alt, plan_keys())


SECTION = Section(
    name="kinds",
    title="Causes by cost",
    note="An incident is everything that follows from one thing that happened: a rollout of twelve "
    "members is one. Unread is the time of partitions that nobody could read, where a source shows "
    "assignments; lost is the time of members that were not at 0. The order is by unread time. "
    "Where more was unread than is known, a cause stands as high as its time lost puts it, if that "
    "is higher. Starts, stops, deploys and changed topics are planned.",
    empty="No incident began in this period.",
    query=QUERY,
    preaggregation=PreAggregation.DAYS,
    chart=chart,
)
