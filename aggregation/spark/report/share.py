"""The share of a group's observed time that its rebalances took."""

from math import floor, log10

from aggregation.spark.report.plot import ACCENT, TOP, Bar, bars, share_axis
from aggregation.spark.report.section import Chart, Rows, Section, subject
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
WITH groups AS (
  SELECT $keys, day,
         coalesce(sum(CASE WHEN what = 'rebalance' THEN seconds END), 0D) AS rebalancing_s,
         coalesce(sum(CASE WHEN what = 'rebalance' AND plan = 'planned' THEN seconds END), 0D)
           AS planned_s,
         sum(CASE WHEN what = 'observed' THEN seconds END) AS observed_s
  FROM rollups
  WHERE what IN ('rebalance', 'observed') AND $period
  GROUP BY $keys, `group`, day
), days AS (
  SELECT $keys, day, sum(CASE WHEN observed_s > 0 THEN rebalancing_s END) AS rebalancing_s,
         sum(CASE WHEN observed_s > 0 THEN planned_s END) AS planned_s,
         sum(observed_s) AS observed_s
  FROM groups
  GROUP BY $keys, day
), ratios AS (
  SELECT *, CASE WHEN observed_s > 0 THEN least(rebalancing_s / observed_s, 1D) END AS share
  FROM days
)
SELECT $keys, sum(rebalancing_s) AS rebalancing_s, sum(planned_s) AS planned_s,
       sum(observed_s) AS observed_s,
       CASE WHEN sum(observed_s) > 0 THEN least(sum(rebalancing_s) / sum(observed_s), 1D) END
         AS share,
       max(share) AS share_worst_day, max_by(day, share) AS worst_day
FROM ratios
GROUP BY $keys
ORDER BY share DESC NULLS LAST, $keys
"""


def chart(rows: Rows) -> Chart | None:
    """Draw each group's share of the period."""
    top = {subject(row): row["share"] for row in rows[:TOP] if row["share"] is not None}
    if not any(top.values()):
        return None
    drawn = [Bar(name, [(ACCENT, value)], format_share(value)) for name, value in top.items()]
    figure = bars(drawn, share_axis(max(top.values())))
    name, most = next(iter(top.items()))
    return Chart(figure, f"Share of time rebalancing; {name} has most, {format_share(most)}.")


def format_share(value: float) -> str:
    """Write a share as a percentage that does not round something down to nothing."""
    percent = 100 * value
    if 0 < percent < 0.01:
        return "<0.01 %"
    return f"{percent:.2g} %" if abs(percent) < 10 else f"{percent:.0f} %"


_MOST_DIGITS = 9
"""Of a percentage; a year has 31,536,000,000 ms."""


def format_level(value: float, beside: float | None = None) -> str:
    """Write a service level with two digits of what is missing to 100 %.

    It has more digits if it would look like another level ``beside`` it.
    """
    missing = 1 - value
    digits = 0 if missing <= 0 else max(0, -1 - floor(log10(missing)))
    other = value if beside is None else beside
    while (
        other != value
        and digits < _MOST_DIGITS
        and round(100 * value, digits) == round(100 * other, digits)
    ):
        digits += 1
    text = f"{100 * value:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


SECTION = Section(
    name="share",
    title="Share of time rebalancing",
    note="Time in which the group was rebalancing, of the time in which it was observed: each day "
    "from the first to the last record of the agents that report it. It is not known for days "
    "without a periodic sample, and rebalances of these days do not count. The times of an "
    "application are sums over its groups. One minus the share is the service level.",
    empty="No group was observed in this period, or none had a periodic sample.",
    query=QUERY,
    preaggregation=PreAggregation.WORST,
    chart=chart,
    speaks=lambda row: row["share"] is not None,
)
