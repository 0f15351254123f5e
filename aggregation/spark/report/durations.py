"""Durations of rebalances: of whole groups, and of single members."""

from aggregation.spark.report.plot import ACCENT, TOP, bars, format_seconds, log_time_axis
from aggregation.spark.report.section import Chart, Key, Rows, Section, subject
from aggregation.spark.rollups.preaggregations import PreAggregation

_SHARES = ("p50_s", "p95_s", "p99_s")

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
    figure, axes = bars([subject(row) for row in shown])
    for y, row in enumerate(shown):
        values = [row[name] for name in _SHARES]
        axes.plot([values[0], values[-1]], [y, y], color=ACCENT, alpha=0.45, linewidth=3)
        for value, size in zip(values, (8, 6, 4), strict=True):
            axes.plot(value, y, "o", color=ACCENT, markersize=size)
    log_time_axis(axes)
    axes.margins(x=0.08)
    slowest = shown[0]
    longest = format_seconds(slowest["p95_s"])
    alt = f"Durations per group; {subject(slowest)} has the longest p95, {longest}."
    return Chart(figure, alt, (Key("var(--accent)", "large to small dot: p50, p95, p99"),))


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
