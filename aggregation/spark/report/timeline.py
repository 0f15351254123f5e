"""Incidents over time: planned and unplanned ones on separate axes, with marks of changes."""

from collections.abc import Sequence
from datetime import date, timedelta

from aggregation.spark.report.kinds import PLAN_COLOURS, plan_keys
from aggregation.spark.report.plot import AxisTick, Panel, columns
from aggregation.spark.report.section import Chart, Mark, Rows, Section
from aggregation.spark.rollups.preaggregations import PreAggregation

_MARKS = 8
"""More marks would hide the days."""

QUERY = """
SELECT date_sub($last, $step * (CAST(floor(datediff($last, day) / $step) AS INT) + 1) - 1)
         AS since,
       $step AS days, plan,
       sum(CASE WHEN what = 'incident' THEN times ELSE 0 END) AS incidents,
       sum(CASE WHEN what = 'rebalance' THEN times ELSE 0 END) AS rebalances,
       sum(CASE WHEN what = 'incident' THEN unread_seconds END) AS unread_s,
       coalesce(sum(unread_at_least), 0) > 0 AS unread_at_least,
       sum(CASE WHEN what = 'rebalance' THEN member_seconds ELSE 0D END) AS lost_s
FROM rollups
WHERE what IN ('incident', 'rebalance') AND plan IS NOT NULL AND $period
GROUP BY since, plan
ORDER BY since DESC, plan
"""


def chart(rows: Rows, marks: Sequence[Mark] = ()) -> Chart | None:
    """Draw planned and unplanned incidents above each other, each with its own scale."""
    if not rows:
        return None
    step = timedelta(days=rows[0]["days"])
    first, last = rows[-1]["since"], rows[0]["since"]
    days = [first + n * step for n in range((last - first) // step + 1)]
    panels = [
        Panel(plan, [(colour, _heights(days, rows, plan))], 8)
        for plan, colour in PLAN_COLOURS.items()
    ]
    shown = [mark for mark in marks if first <= mark.day < last + step][:_MARKS]
    places = [AxisTick((mark.day - first) / step, f"{n}") for n, mark in enumerate(shown, start=1)]
    totals = ", ".join(
        f"{sum(row['incidents'] for row in rows if row['plan'] == plan):,} {plan}"
        for plan in PLAN_COLOURS
    )
    notes = tuple(f"{number} {mark.day}: {mark.text}" for number, mark in enumerate(shown, start=1))
    figure = columns(panels, days, places)
    return Chart(figure, f"Incidents over time: {totals}.", plan_keys(), notes)


def _heights(days: Sequence[date], rows: Rows, plan: str) -> list[float]:
    counts = {row["since"]: row["incidents"] for row in rows if row["plan"] == plan}
    return [counts.get(day, 0) for day in days]


SECTION = Section(
    name="timeline",
    title="Incidents over time",
    note="By day, or by week over two months. Unplanned and planned incidents have scales of their "
    "own, so a rollout does not hide a poll timeout. Numbered marks are changes of a rate, of "
    "settings and versions, and posted annotations.",
    empty="No incident began in this period.",
    query=QUERY,
    preaggregation=PreAggregation.DAYS,
    chart=chart,
    marked_chart=chart,
)
