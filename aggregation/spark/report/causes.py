"""Rebalances over time, by cause."""

from collections import Counter
from datetime import timedelta

from aggregation.spark.report.plot import Panel, columns
from aggregation.spark.report.section import Chart, Rows, Section, cause_key
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
SELECT date_sub($last, $step * (CAST(floor(datediff($last, day) / $step) AS INT) + 1) - 1)
         AS since,
       $step AS days, r.code AS cause, name AS cause_name, sum(times) AS rebalances,
       sum(seconds) AS rebalancing_s, sum(member_seconds) AS lost_s
FROM rollups r LEFT JOIN codes ON r.code = codes.code
WHERE what = 'rebalance' AND $period
GROUP BY since, r.code, name
ORDER BY since DESC, cause
"""


def chart(rows: Rows) -> Chart | None:
    """Stack the causes of each day or week, the highest code on top."""
    if not rows:
        return None
    first, last = (pick(row["since"] for row in rows) for pick in (min, max))
    step = timedelta(days=rows[0]["days"])
    days = [first + n * step for n in range((last - first) // step + 1)]
    counts = {(row["cause"], row["since"]): row["rebalances"] for row in rows}
    causes = sorted({row["cause"] for row in rows}, key=lambda code: -1 if code is None else code)
    layers = [
        (cause_key(cause).colour, [counts.get((cause, day), 0) for day in days]) for cause in causes
    ]
    figure = columns([Panel("rebalances", layers, 14)], days)
    totals = by_cause(rows)
    by_name = ", ".join(f"{cause_key(cause).label} {totals[cause]:,}" for cause in causes)
    return Chart(
        figure,
        f"Rebalances stacked by cause: {by_name}.",
        tuple(cause_key(cause) for cause in causes),
    )


def by_cause(rows: Rows) -> Counter[int | None]:
    """Return the number of rebalances of each cause."""
    totals = Counter[int | None]()
    for row in rows:
        totals[row["cause"]] += row["rebalances"]
    return totals


SECTION = Section(
    name="causes",
    title="Causes over time",
    note="A rebalance of a group is what its members went through together, whole, and counts on "
    "the day (or the week, over two months) of its start. Its cause is the earliest that is not "
    "itself a consequence; without one, nobody knows it.",
    empty="No rebalance began in this period.",
    query=QUERY,
    preaggregation=PreAggregation.DAYS,
    chart=chart,
)
