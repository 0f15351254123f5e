"""Durations of rebalances: of whole groups, and of single members."""

from aggregation.spark.report.plot import (
    TOP,
    format_seconds,
    lanes,
    log_share,
    log_time_axis,
    strokes,
)
from aggregation.spark.report.section import Chart, Key, Rows, Section, subject
from aggregation.spark.rollups.preaggregations import PreAggregation

_SHARES = ("p50_s", "p95_s", "p99_s")
_DOTS_PX = (12, 9, 6)

QUERY = """
WITH buckets AS (
  SELECT $keys, kind, bucket, sum(times) AS times, max(longest) AS longest
  FROM rollups
  WHERE what = 'duration' AND $period
  GROUP BY $keys, kind, bucket
), lengths AS (
  SELECT *, CASE WHEN times = 1 AND longest IS NOT NULL THEN longest
                 ELSE least(power(2, (bucket + 0.5) / 8), longest) END AS middle_s
  FROM buckets
), ranks AS (
  SELECT *, sum(times) OVER (PARTITION BY $keys, kind ORDER BY bucket) AS up_to,
         sum(times) OVER (PARTITION BY $keys, kind) AS total,
         max(coalesce(longest, middle_s)) OVER (PARTITION BY $keys, kind) AS max_s
  FROM lengths
)
SELECT $keys,
       max(CASE WHEN kind = 'group' THEN total END) AS rebalances,
       min(CASE WHEN kind = 'group' AND 0.50 * total > total - 1 THEN max_s
                WHEN kind = 'group' AND up_to >= 0.50 * total THEN middle_s END) AS p50_s,
       min(CASE WHEN kind = 'group' AND 0.95 * total > total - 1 THEN max_s
                WHEN kind = 'group' AND up_to >= 0.95 * total THEN middle_s END) AS p95_s,
       min(CASE WHEN kind = 'group' AND 0.99 * total > total - 1 THEN max_s
                WHEN kind = 'group' AND up_to >= 0.99 * total THEN middle_s END) AS p99_s,
       max(CASE WHEN kind = 'group' THEN max_s END) AS max_s,
       max(CASE WHEN kind = 'member' THEN total END) AS member_rebalances,
       min(CASE WHEN kind = 'member' AND 0.50 * total > total - 1 THEN max_s
                WHEN kind = 'member' AND up_to >= 0.50 * total THEN middle_s END) AS member_p50_s,
       min(CASE WHEN kind = 'member' AND 0.95 * total > total - 1 THEN max_s
                WHEN kind = 'member' AND up_to >= 0.95 * total THEN middle_s END) AS member_p95_s,
       min(CASE WHEN kind = 'member' AND 0.99 * total > total - 1 THEN max_s
                WHEN kind = 'member' AND up_to >= 0.99 * total THEN middle_s END) AS member_p99_s
FROM ranks
GROUP BY $keys
ORDER BY p95_s DESC NULLS LAST, $keys
"""


def chart(rows: Rows) -> Chart | None:
    """Draw p50 to p99 of each group as a line with three dots."""
    shown = [row for row in rows[:TOP] if row["p50_s"] is not None]
    if not shown:
        return None
    ends = [row[name] for row in shown for name in _SHARES]
    first, last, ticks = log_time_axis(min(ends), max(ends))
    at = [[log_share(row[name], first, last) for name in _SHARES] for row in shown]
    middles = [(lane + 0.5) / len(shown) for lane in range(len(shown))]
    shapes = [
        strokes("span", 3, ((x[0], y, x[-1], y) for x, y in zip(at, middles, strict=True))),
        *(
            strokes("dot", size, ((x[n], y, x[n], y) for x, y in zip(at, middles, strict=True)))
            for n, size in enumerate(_DOTS_PX)
        ),
    ]
    longest_of = [format_seconds(row["p95_s"]) for row in shown]
    figure = lanes([subject(row) for row in shown], shapes, ticks, values=longest_of)
    slowest = shown[0]
    longest = format_seconds(slowest["p95_s"])
    alt = f"Durations per group; {subject(slowest)} has the longest p95, {longest}."
    return Chart(
        figure, alt, (Key("var(--accent)", "large to small dot: p50, p95, p99; the text is p95"),)
    )


SECTION = Section(
    name="durations",
    title="How long they took",
    note="From the first member's start to the last member's end, in seconds; the member columns "
    "are single members' episodes. The longest is exact, and so is each percentile that only the "
    "longest reaches, or that is alone in its bucket. Other lengths are in buckets that grow by "
    "9 %, and the middle of one is shown, or the longest in it if that is less. What has no start "
    "or end has no length here.",
    empty="No rebalance began in this period.",
    query=QUERY,
    preaggregation=PreAggregation.GROUPS,
    chart=chart,
)
