"""Rebalances per group and day, by what caused them."""

from collections import Counter
from datetime import timedelta

from matplotlib.ticker import MaxNLocator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.report.facts import Facts
from aggregation.spark.report.plot import GAP, canvas
from aggregation.spark.report.section import Chart, Rows, Section, cause_key, name_of

_SLOTS = 12
"""Bars of a few days are not drawn wider than those of so many."""
_TICKS = 10


def table(facts: Facts) -> DataFrame:
    """Count the group rebalances by day of their start and by cause; no cause was seen: null."""
    return (
        facts.rebalances.groupBy("day", *facts.keys, "cause")
        .agg(F.count(F.lit(1)).alias("rebalances"))
        .withColumn("cause_name", name_of("cause"))
        .select("day", *facts.keys, "cause", "cause_name", "rebalances")
        .orderBy(F.desc("rebalances"), "day", *facts.keys, "cause")
    )


def chart(rows: Rows) -> Chart | None:
    """Stack the causes of each day, the gravest on top."""
    if not rows:
        return None
    first, last = (pick(row["day"] for row in rows) for pick in (min, max))
    days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    counts = Counter[tuple[int | None, object]]()
    for row in rows:
        counts[row["cause"], row["day"]] += row["rebalances"]
    causes = sorted({row["cause"] for row in rows}, key=lambda code: -1 if code is None else code)
    figure, axes = canvas(2.9)
    floor = [0] * len(days)
    for cause in causes:
        heights = [counts[cause, day] for day in days]
        colour = cause_key(cause).colour
        axes.bar(range(len(days)), heights, 0.8, floor, color=colour, edgecolor=GAP, linewidth=0.7)
        floor = [below + height for below, height in zip(floor, heights, strict=True)]
    margin = max(0.6, (_SLOTS - len(days)) / 2)
    axes.set_xlim(-margin, len(days) - 1 + margin)
    shown = range(0, len(days), len(days) // _TICKS + 1)
    axes.set_xticks(list(shown), [f"{days[n]:%-d %b}" for n in shown])
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y")
    axes.set_ylabel("rebalances")
    totals = [f"{cause_key(c).label} {sum(counts[c, day] for day in days)}" for c in causes]
    alt = f"Rebalances per day, stacked by cause: {', '.join(totals)}."
    return Chart(figure, alt, tuple(cause_key(cause) for cause in causes))


SECTION = Section(
    name="rebalances",
    title="Rebalances by cause",
    note="A rebalance of a group is what its members went through at the same time, whole. Its "
    "cause is the earliest that any agent saw and that is not itself a consequence.",
    empty="No rebalance began in this period.",
    table=table,
    chart=chart,
)
