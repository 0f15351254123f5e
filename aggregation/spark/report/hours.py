"""Rebalances by hour of the week."""

from aggregation.spark.report.plot import AxisTick, Box, boxes, lanes
from aggregation.spark.report.section import Chart, Rows, Section
from aggregation.spark.rollups.preaggregations import PreAggregation
from metrics.model.palette import AMOUNTS

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_HOURS = 24
_CELL = (0.92 / _HOURS, 0.86 / len(_DAYS))
"""Width and height of an hour's rectangle."""

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
    places: dict[str, list[Box]] = {}
    for day, hours in enumerate(counts):
        for hour, count in enumerate(hours):
            if count:
                place = Box((hour + 0.04) / _HOURS, (day + 0.07) / len(_DAYS), *_CELL)
                places.setdefault(_shade(count / most["unplanned"]), []).append(place)
    shapes = [boxes(colour, own) for colour, own in places.items()]
    ticks = [AxisTick(hour / _HOURS, f"{hour}:00") for hour in range(0, _HOURS + 1, 3)]
    figure = lanes(_DAYS, shapes, ticks)
    at = f"{_DAYS[most['weekday']]} {most['hour']}:00"
    return Chart(figure, f"Unplanned rebalances by hour; most on {at}: {most['unplanned']:,}.")


def _shade(share: float) -> str:
    """Return a colour of the ramp, from 0 (its first) to 1 (its last)."""
    at = share * (len(AMOUNTS) - 1)
    first = min(int(at), len(AMOUNTS) - 2)
    ends = (bytes.fromhex(AMOUNTS[n][1:]) for n in (first, first + 1))
    mixed = (round(low + (high - low) * (at - first)) for low, high in zip(*ends, strict=True))
    return f"#{bytes(mixed).hex()}"


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
