"""Incidents over time: planned and unplanned ones on separate axes, with marks of changes."""

from collections.abc import Sequence
from datetime import date, timedelta

from matplotlib.axes import Axes

from aggregation.spark.report.kinds import PLAN_COLOURS, plan_keys
from aggregation.spark.report.plot import ACCENT, INK, canvas_of_two, count_axis, most_days
from aggregation.spark.report.section import Chart, Mark, Row, Rows, Section
from aggregation.spark.rollups.preaggregations import PreAggregation

_SLOTS = 12
_MARKS = 8
"""More marks would hide the days."""

QUERY = """
SELECT date_sub($last, $step * (CAST(floor(datediff($last, day) / $step) AS INT) + 1) - 1)
         AS since,
       $step AS days, plan,
       sum(CASE WHEN what = 'incident' THEN times ELSE 0 END) AS incidents,
       sum(CASE WHEN what = 'rebalance' THEN times ELSE 0 END) AS rebalances,
       sum(CASE WHEN what = 'incident' THEN unread_seconds END) AS unread_s,
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
    figure, panels = canvas_of_two(3.6)
    for axes, plan in zip(panels, PLAN_COLOURS, strict=True):
        _draw(axes, plan, days, [row for row in rows if row["plan"] == plan])
    shown = [mark for mark in marks if first <= mark.day < last + step][:_MARKS]
    for number, mark in enumerate(shown, start=1):
        _draw_mark(panels, (mark.day - first) / step, str(number))
    ticks = range(0, len(days), len(days) // most_days() + 1)
    panels[-1].set_xticks(list(ticks), [f"{days[n]:%-d %b}" for n in ticks])
    totals = ", ".join(
        f"{sum(row['incidents'] for row in rows if row['plan'] == plan):,} {plan}"
        for plan in PLAN_COLOURS
    )
    notes = tuple(f"{number} {mark.day}: {mark.text}" for number, mark in enumerate(shown, start=1))
    return Chart(figure, f"Incidents over time: {totals}.", plan_keys(), notes)


def _draw(axes: Axes, plan: str, days: Sequence[date], rows: Sequence[Row]) -> None:
    counts = {row["since"]: row["incidents"] for row in rows}
    axes.bar(range(len(days)), [counts.get(day, 0) for day in days], 0.8, color=PLAN_COLOURS[plan])
    margin = max(0.6, (_SLOTS - len(days)) / 2)
    axes.set_xlim(-margin, len(days) - 1 + margin)
    count_axis(axes.yaxis)
    axes.grid(axis="y")
    axes.set_ylabel(plan)


def _draw_mark(panels: Sequence[Axes], at: float, label: str) -> None:
    for axes in panels:
        axes.axvline(at, color=ACCENT, linewidth=1.6, linestyle="--")
    top = panels[0]
    top.text(at, 1.02, label, transform=top.get_xaxis_transform(), ha="center", color=INK)


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
