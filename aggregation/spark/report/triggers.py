"""The members that triggered the most rebalances."""

from aggregation.spark.report.plot import TOP, Bar, bars, count_axis
from aggregation.spark.report.section import (
    Chart,
    Rows,
    Section,
    cause_key,
    member,
    member_in_words,
)
from aggregation.spark.rollups.preaggregations import PreAggregation

QUERY = """
WITH causes AS (
  SELECT $keys, client_id, host, code, sum(times) AS times, sum(member_seconds) AS lost_s
  FROM rollups
  WHERE what = 'trigger' AND $period
  GROUP BY $keys, client_id, host, code
), told AS (
  SELECT $keys, client_id, host, times, lost_s, struct(times, code) AS main, NULL AS last
  FROM causes
  UNION ALL
  SELECT $keys, client_id, host, 0, 0D, NULL, struct(last_at, last_reason)
  FROM rollups
  WHERE what = 'trigger' AND last_at IS NOT NULL AND $period
), members AS (
  SELECT $keys, client_id, host, sum(times) AS triggered, sum(lost_s) AS lost_s,
         max(main) AS main, max(last) AS last
  FROM told
  GROUP BY $keys, client_id, host
)
SELECT $keys, client_id, host, triggered, lost_s, main.code AS main_cause,
       name AS main_cause_name, main.times AS by_main_cause, last.last_at AS last_at,
       last.last_reason AS last_reason
FROM members LEFT JOIN codes ON main.code = codes.code
ORDER BY triggered DESC, $keys, client_id, host
"""


def chart(rows: Rows) -> Chart | None:
    """Draw a bar for each member in the colour of its main cause."""
    if not rows:
        return None
    shown = rows[:TOP]
    drawn = [
        Bar(
            member(row, rows),
            [(cause_key(row["main_cause"]).colour, row["triggered"])],
            f"{row['triggered']:,}",
        )
        for row in shown
    ]
    figure = bars(drawn, count_axis(shown[0]["triggered"]), "rebalances triggered")
    causes = sorted({row["main_cause"] for row in shown})
    most = shown[0]
    name = member_in_words(most, rows)
    alt = f"Rebalances triggered per member; {name} has most, {most['triggered']}."
    return Chart(figure, alt, tuple(cause_key(code) for code in causes))


SECTION = Section(
    name="triggers",
    title="Members that triggered most",
    note="With the host, the main cause (its colour) and the client's last reason. Rebalances "
    "whose trigger nobody knows are not here.",
    empty="No rebalance of this period has a known trigger.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=chart,
)
