"""Time of members in each status."""

from aggregation.spark.report.plot import TOP, Bar, bars, format_seconds, time_axis
from aggregation.spark.report.section import Chart, Rows, Section, cause_key, subject
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
WITH held AS (
  SELECT $keys, scope, code AS status, sum(seconds) AS seconds
  FROM rollups
  WHERE what = 'status' AND $period
  GROUP BY $keys, scope, code
), ranked AS (
  SELECT *, sum(seconds) OVER (PARTITION BY $keys, scope) AS total FROM held
)
SELECT $keys, scope, status, name AS status_name, seconds
FROM ranked LEFT JOIN codes ON status = codes.code
ORDER BY total DESC, $keys, scope, status
"""


def chart(rows: Rows) -> Chart | None:
    """Stack the time above 0 of the groups that spent the most."""
    held: dict[str, dict[int, float]] = {}
    for row in rows:
        held.setdefault(f"{subject(row)} ({row['scope']})", {})[row["status"]] = row["seconds"]
    if not held:
        return None
    names = sorted(held, key=lambda name: -sum(held[name].values()))[:TOP]
    codes = sorted({code for name in names for code in held[name]})
    most = sum(held[names[0]].values())
    drawn = [
        Bar(
            name,
            [(cause_key(code).colour, held[name].get(code, 0.0)) for code in codes],
            format_seconds(sum(held[name].values())),
        )
        for name in names
    ]
    figure = bars(drawn, time_axis(most))
    alt = f"Time in each status above 0; {names[0]} spent the most, {format_seconds(most)}."
    return Chart(figure, alt, tuple(cause_key(code) for code in codes))


SECTION = Section(
    name="status_time",
    title="Time in each status",
    note="Summed over members, of episodes whose start and end were seen, by the day of their "
    "start. A member that two agents see counts once. Scope streams "
    "are Streams instances, whose status repeats their consumers' and has 10 to 13 of its own.",
    empty="No member was above 0 in this period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=chart,
)
