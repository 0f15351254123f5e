"""Rebalances by hour of the week."""

from matplotlib.colors import LinearSegmentedColormap

from aggregation.spark.report.plot import canvas, most_ticks
from aggregation.spark.report.section import Chart, Rows, Section
from aggregation.spark.rollups.preaggregations import PreAggregation
from metrics.model.palette import AMOUNTS

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_HOURS = 24

QUERY = """
SELECT weekday(day) AS weekday, date_format(day, 'E') AS weekday_label, bucket AS hour,
       sum(times) AS rebalances,
       sum(CASE WHEN plan = 'planned' THEN 0 ELSE times END) AS unplanned,
       sum(member_seconds) AS lost_s
FROM rollups
WHERE what = 'hour' AND $period
GROUP BY 1, 2, 3
ORDER BY weekday, hour
"""


def chart(rows: Rows) -> Chart | None:
    """Draw a square for each hour of the week; darker means more."""
    if not rows:
        return None
    counts = [[0] * _HOURS for _ in _DAYS]
    for row in rows:
        counts[row["weekday"]][row["hour"]] = row["unplanned"]
    most = max(rows, key=lambda row: row["unplanned"])
    if not most["unplanned"]:
        return None
    shades = LinearSegmentedColormap.from_list("hours", AMOUNTS)
    figure, axes = canvas(2.7)
    for day, hours in enumerate(counts):
        for hour, count in enumerate(hours):
            if count:
                share = count / most["unplanned"]
                axes.barh(day, 0.92, 0.86, hour + 0.04, color=shades(share))
    axes.set_yticks(range(len(_DAYS)), _DAYS)
    axes.set_ylim(len(_DAYS) - 0.4, -0.6)
    axes.set_xlim(0, _HOURS)
    shown = range(0, _HOURS + 1, _HOURS // (most_ticks() + 1))
    axes.set_xticks(shown, [f"{hour}:00" for hour in shown])
    at = f"{_DAYS[most['weekday']]} {most['hour']}:00"
    return Chart(figure, f"Unplanned rebalances by hour; most on {at}: {most['unplanned']:,}.")


SECTION = Section(
    name="hours",
    title="Hours of the week",
    note="The figure shows unplanned rebalances by the hour and weekday of their start, in the "
    "report's time zone: the darker, the more.",
    empty="No rebalance began in this period.",
    query=QUERY,
    preaggregation=PreAggregation.DAYS,
    chart=chart,
)
