"""Departures of members: deploys and crashes separately."""

from aggregation.rebalances.departures import DepartureKind
from aggregation.spark.report.plot import TOP, Bar, bars, count_axis
from aggregation.spark.report.section import Chart, Key, Rows, Section, subject
from aggregation.spark.rollups.preaggregations import PreAggregation
from metrics.model.palette import ON_LIGHT
from metrics.model.status import RebalanceStatus as Status

QUERY = """
SELECT $keys,
       sum(CASE WHEN kind = 'rollout' THEN times ELSE 0 END) AS rollout,
       sum(CASE WHEN kind = 'scale-down' THEN times ELSE 0 END) AS scale_down,
       sum(CASE WHEN what = 'stop' THEN times ELSE 0 END) AS stops,
       sum(CASE WHEN kind = 'stop' THEN times ELSE 0 END) AS stopped,
       sum(CASE WHEN kind = 'left' THEN times ELSE 0 END) AS left,
       sum(CASE WHEN kind = 'dropped' THEN times ELSE 0 END) AS dropped,
       sum(CASE WHEN kind = 'expired' THEN times ELSE 0 END) AS expired,
       sum(CASE WHEN kind = 'removed' THEN times ELSE 0 END) AS removed
FROM rollups
WHERE what IN ('departure', 'stop') AND $period
GROUP BY $keys
ORDER BY sum(CASE WHEN what = 'departure' THEN times END) DESC, $keys
"""

KINDS = {
    "rollout": (DepartureKind.ROLLOUT, ON_LIGHT[Status.NONE]),
    "scale_down": (DepartureKind.SCALE_DOWN, ON_LIGHT[Status.NEW_MEMBER]),
    "stopped": (DepartureKind.STOPPED, ON_LIGHT[Status.METADATA_CHANGED]),
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
    parts = [[(colour, row[name]) for name, (_, colour) in KINDS.items()] for row in shown]
    sums = [sum(number for _, number in each) for each in parts]
    drawn = [
        Bar(subject(row), each, f"{number:,}")
        for row, each, number in zip(shown, parts, sums, strict=True)
    ]
    figure = bars(drawn, count_axis(max(sums)), "departures")
    totals = ", ".join(f"{kind} {sum(r[n] for r in rows):,}" for n, (kind, _) in KINDS.items())
    legend = tuple(Key(colour, kind.value) for kind, colour in KINDS.values())
    return Chart(figure, f"How members went: {totals}.", legend)


SECTION = Section(
    name="departures",
    title="Deploys and crashes",
    note="A member that went and whose place another of the same workload took within ten minutes "
    "is a rollout; fewer afterwards is a scale-down. Stops are of whole groups, whose members left "
    "within a minute: stopped counts these members. Expired is a crash, a kill or the network; "
    "dropped is a poll interval that was too short; removed is an admin's doing.",
    empty="No member went in this period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=chart,
)
