"""Members that the others waited for."""

from aggregation.spark.report.plot import ACCENT, TOP, Bar, bars, format_seconds, time_axis
from aggregation.spark.report.section import Chart, Rows, Section, member, member_in_words
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
SELECT $keys, client_id, host, sum(times) AS held_up, sum(seconds) AS waited_s,
       sum(seconds) / sum(times) AS mean_wait_s
FROM rollups
WHERE what = 'straggler' AND $period
GROUP BY $keys, client_id, host
ORDER BY waited_s DESC, $keys, client_id, host
"""


def chart(rows: Rows) -> Chart | None:
    """Draw how long groups waited for each member."""
    if not rows:
        return None
    shown = rows[:TOP]
    drawn = [
        Bar(member(row, rows), [(ACCENT, row["waited_s"])], format_seconds(row["waited_s"]))
        for row in shown
    ]
    figure = bars(drawn, time_axis(shown[0]["waited_s"]))
    most = f"{member_in_words(shown[0], rows)}, {format_seconds(shown[0]['waited_s'])}"
    return Chart(figure, f"How long groups waited for members; longest for {most}.")


SECTION = Section(
    name="stragglers",
    title="Members that all waited for",
    note="The last to join, where it came at least a second after all others, or who fell silent.",
    empty="No group waited for a single member in this period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=chart,
)
