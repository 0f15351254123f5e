"""The members that triggered the most rebalances."""

from matplotlib.ticker import MaxNLocator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.report.facts import Facts
from aggregation.spark.report.plot import TOP, bars
from aggregation.spark.report.section import Chart, Rows, Section, cause_key, name_of, subject


def table(facts: Facts) -> DataFrame:
    """Count the rebalances that each member triggered, with its most frequent cause."""
    who = [*facts.keys, "client_id", "host"]
    seen = facts.rebalances.where(F.col("cause").isNotNull())
    causes = seen.groupBy(*who, "cause").agg(
        F.count(F.lit(1)).alias("times"),
        F.max(F.struct("started_at", "reason")).alias("last"),
    )
    return (
        causes.groupBy(*who)
        .agg(
            F.sum("times").alias("triggered"),
            F.max(F.struct("times", "cause")).alias("main"),
            F.max("last").alias("last"),
        )
        .withColumn("main_cause", F.col("main.cause"))
        .select(
            *who,
            "triggered",
            "main_cause",
            name_of("main_cause").alias("main_cause_name"),
            F.col("main.times").alias("by_main_cause"),
            F.col("last.started_at").alias("last_at"),
            F.col("last.reason").alias("last_reason"),
        )
        .orderBy(F.desc("triggered"), *who)
    )


def chart(rows: Rows) -> Chart | None:
    """Draw a bar per member in the colour of its main cause."""
    if not rows:
        return None
    shown = rows[:TOP]
    figure, axes = bars(
        [f"{row['client_id'] or '(no client id)'} · {subject(row)}" for row in shown]
    )
    colours = [cause_key(row["main_cause"]).colour for row in shown]
    axes.barh(range(len(shown)), [row["triggered"] for row in shown], 0.66, color=colours)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_xlabel("rebalances triggered")
    causes = sorted({row["main_cause"] for row in shown})
    most = shown[0]
    alt = f"Rebalances triggered per member; {most['client_id']} has most, {most['triggered']}."
    return Chart(figure, alt, tuple(cause_key(code) for code in causes))


SECTION = Section(
    name="triggers",
    title="Members that triggered most",
    note="Only rebalances whose trigger an agent saw; the colour is the member's main cause.",
    empty="No rebalance of this period has a trigger that an agent saw.",
    table=table,
    chart=chart,
)
