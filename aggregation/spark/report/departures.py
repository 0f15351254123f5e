"""Departures of members: deploys and crashes separately."""

from aggregation.rebalances.departures import DepartureKind
from aggregation.spark.report.plot import GAP, TOP, bars, count_axis
from aggregation.spark.report.section import Chart, Key, Rows, Section, subject
from aggregation.spark.rollups.preaggregations import PreAggregation
from metrics.model.palette import ON_LIGHT
from metrics.model.status import RebalanceStatus as Status

QUERY = """
SELECT $keys,
       sum(CASE WHEN kind = 'rollout' THEN times ELSE 0 END) AS rollout,
       sum(CASE WHEN kind = 'scale-down' THEN times ELSE 0 END) AS scale_down,
       sum(CASE WHEN kind = 'left' THEN times ELSE 0 END) AS left,
       sum(CASE WHEN kind = 'dropped' THEN times ELSE 0 END) AS dropped,
       sum(CASE WHEN kind = 'expired' THEN times ELSE 0 END) AS expired,
       sum(CASE WHEN kind = 'removed' THEN times ELSE 0 END) AS removed
FROM rollups
WHERE what = 'departure' AND $period
GROUP BY $keys
ORDER BY sum(times) DESC, $keys
"""

KINDS = {
    "rollout": (DepartureKind.ROLLOUT, ON_LIGHT[Status.NONE]),
    "scale_down": (DepartureKind.SCALE_DOWN, ON_LIGHT[Status.NEW_MEMBER]),
    "left": (DepartureKind.LEFT, ON_LIGHT[Status.USER_REQUESTED]),
    "dropped": (DepartureKind.DROPPED, ON_LIGHT[Status.DROPPED_GROUP]),
    "expired": (DepartureKind.EXPIRED, ON_LIGHT[Status.REVOCATION_NEEDED]),
    "removed": (DepartureKind.REMOVED, ON_LIGHT[Status.ENDPOINT_UPDATE]),
}


def chart(rows: Rows) -> Chart | None:
    """Stack the kinds of departures."""
    if not rows:
        return None
    shown = rows[:TOP]
    figure, axes = bars([subject(row) for row in shown])
    left = [0] * len(shown)
    for name, (_, colour) in KINDS.items():
        widths = [row[name] for row in shown]
        axes.barh(range(len(shown)), widths, 0.66, left, color=colour, edgecolor=GAP, linewidth=0.7)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    count_axis(axes.xaxis)
    axes.set_xlabel("departures")
    totals = ", ".join(f"{kind} {sum(r[n] for r in rows):,}" for n, (kind, _) in KINDS.items())
    legend = tuple(Key(colour, kind.value) for kind, colour in KINDS.values())
    return Chart(figure, f"How members went: {totals}.", legend)


SECTION = Section(
    name="departures",
    title="Deploys and crashes",
    note="A member that went and whose place another of the same workload took within ten minutes "
    "is a rollout; fewer afterwards is a scale-down; expired is a crash, a kill or the network; "
    "dropped is a poll interval that was too short; removed is an admin's doing.",
    empty="No member went in this period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=chart,
)
