"""How long rebalances took: of whole groups, and of single members."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.report.facts import Facts
from aggregation.spark.report.plot import ACCENT, TOP, bars, log_time_axis, say_seconds
from aggregation.spark.report.section import Chart, Key, Rows, Section, subject
from metrics.sample import Scope

_SHARES = {"p50_s": 0.5, "p95_s": 0.95, "p99_s": 0.99}
_LEAST_S = 0.001
"""A logarithmic axis has no place for 0."""


def table(facts: Facts) -> DataFrame:
    """Give exact percentiles in seconds per group."""
    whole = facts.rebalances.groupBy(*facts.keys).agg(
        F.count(F.lit(1)).alias("rebalances"), *_percentiles(""), F.max("seconds").alias("max_s")
    )
    ended = (F.col("scope") == Scope.CONSUMER.value) & F.col("seconds").isNotNull()
    members = (
        facts.episodes.where(ended)
        .groupBy(*facts.keys)
        .agg(F.count(F.lit(1)).alias("member_rebalances"), *_percentiles("member_"))
    )
    return whole.join(members, list(facts.keys), "left").orderBy(F.desc("p95_s"), *facts.keys)


def _percentiles(prefix: str) -> list[Column]:
    return [F.percentile("seconds", share).alias(prefix + name) for name, share in _SHARES.items()]


def chart(rows: Rows) -> Chart | None:
    """Draw p50 to p99 of each group as a line with three dots."""
    if not rows:
        return None
    shown = rows[:TOP]
    figure, axes = bars([subject(row) for row in shown])
    for y, row in enumerate(shown):
        values = [max(row[name], _LEAST_S) for name in _SHARES]
        axes.plot([values[0], values[-1]], [y, y], color=ACCENT, alpha=0.45, linewidth=3)
        for value, size in zip(values, (8, 6, 4), strict=True):
            axes.plot(value, y, "o", color=ACCENT, markersize=size)
    log_time_axis(axes)
    axes.margins(x=0.08)
    slowest = shown[0]
    longest = say_seconds(slowest["p95_s"])
    alt = f"Durations per group; {subject(slowest)} has the longest p95, {longest}."
    return Chart(figure, alt, (Key("var(--accent)", "large to small dot: p50, p95, p99"),))


SECTION = Section(
    name="durations",
    title="How long they took",
    note="From the first member's start to the last member's end, in seconds; the member columns "
    "are single members' episodes. Episodes whose start or end is missing have no length here.",
    empty="No rebalance began in this period.",
    table=table,
    chart=chart,
)
