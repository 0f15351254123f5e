"""The share of the observed time in which a group was rebalancing."""

from matplotlib.ticker import PercentFormatter
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.group_rebalances import busy_days
from aggregation.spark.report.facts import Facts
from aggregation.spark.report.plot import ACCENT, TOP, bars
from aggregation.spark.report.section import Chart, Rows, Section, subject
from aggregation.spark.rollups import seconds_between


def table(facts: Facts) -> DataFrame:
    """Give seconds rebalancing and observed per group and day."""
    by = [*facts.keys, "day"]
    busy = (
        busy_days(facts.rebalances, facts.period)
        .groupBy(*by)
        .agg(F.sum("seconds").alias("rebalancing_s"))
    )
    seen = (
        facts.observed.groupBy("cluster", "app", "group", "day")
        .agg(F.min("started_at").alias("started_at"), F.max("ended_at").alias("ended_at"))
        .withColumn("seconds", seconds_between("started_at", "ended_at"))
        .groupBy(*by)
        .agg(F.sum("seconds").alias("observed_s"))
    )
    rebalancing_s = F.coalesce("rebalancing_s", F.lit(0.0))
    share = F.least(rebalancing_s / F.col("observed_s"), F.lit(1.0))
    return (
        seen.join(busy, by, "left")
        .select(
            *by,
            rebalancing_s.alias("rebalancing_s"),
            "observed_s",
            F.when(F.col("observed_s") > 0, share).alias("share"),
        )
        .orderBy(F.desc("share"), *by)
    )


def shares(rows: Rows) -> dict[str, float]:
    """Return each group's share of the whole period, the largest first."""
    busy, seen = dict[str, float](), dict[str, float]()
    for row in rows:
        name = subject(row)
        busy[name] = busy.get(name, 0.0) + row["rebalancing_s"]
        seen[name] = seen.get(name, 0.0) + row["observed_s"]
    found = {name: min(busy[name] / seen[name], 1.0) for name in busy if seen[name] > 0}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def chart(rows: Rows) -> Chart | None:
    """Draw each group's share of the period."""
    top = dict(list(shares(rows).items())[:TOP])
    if not any(top.values()):
        return None
    figure, axes = bars(list(top))
    drawn = axes.barh(range(len(top)), list(top.values()), 0.66, color=ACCENT, alpha=0.85)
    axes.bar_label(drawn, [say_share(value) for value in top.values()], padding=4)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.margins(x=0.1)
    name, most = next(iter(top.items()))
    return Chart(figure, f"Share of time rebalancing; {name} has most, {say_share(most)}.")


def say_share(value: float) -> str:
    """Write a share as a percentage that does not round something down to nothing."""
    percent = 100 * value
    if 0 < percent < 0.01:
        return "<0.01 %"
    return f"{percent:.2g} %" if percent < 10 else f"{percent:.0f} %"


SECTION = Section(
    name="share",
    title="Share of time rebalancing",
    note="Time in which at least one member of the group was rebalancing, of the time in which the "
    "group was observed: each day from its first to its last record.",
    empty="No group was observed in this period.",
    table=table,
    chart=chart,
)
