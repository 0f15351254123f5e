"""How much time members spent in each status."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.report.facts import Facts
from aggregation.spark.report.plot import GAP, TOP, bars, say_seconds, time_axis
from aggregation.spark.report.section import (
    Chart,
    Rows,
    Section,
    cause_key,
    name_of,
    subject,
)
from aggregation.spark.rollups import clip, seconds_between, status_spans


def table(facts: Facts) -> DataFrame:
    """Sum the seconds of all members by status, 0 included: what is left of the observed time."""
    by = [*facts.keys, "scope"]
    held = (
        clip(status_spans(facts.chained), facts.period)
        .groupBy(*by, "status")
        .agg(F.sum("seconds").alias("seconds"))
    )
    seen = (
        facts.observed.withColumn("seconds", seconds_between("started_at", "ended_at"))
        .groupBy(*by)
        .agg(F.sum("seconds").alias("observed_s"))
    )
    busy = held.groupBy(*by).agg(F.sum("seconds").alias("busy_s"))
    rest = F.greatest(F.col("observed_s") - F.coalesce("busy_s", F.lit(0.0)), F.lit(0.0))
    none = seen.join(busy, by, "left").select(
        *by, F.lit(0).cast("bigint").alias("status"), rest.alias("seconds")
    )
    share = F.when(F.col("observed_s") > 0, F.col("seconds") / F.col("observed_s"))
    return (
        held.unionByName(none)
        .join(seen, by, "left")
        .withColumn("status_name", name_of("status"))
        .select(*by, "status", "status_name", "seconds", share.alias("share_of_observed"))
        .orderBy(*by, "status")
    )


def chart(rows: Rows) -> Chart | None:
    """Stack the time above 0 of the groups that spent the most."""
    held: dict[str, dict[int, float]] = {}
    for row in rows:
        if row["status"] > 0 and row["seconds"] > 0:
            name = f"{subject(row)} ({row['scope']})"
            held.setdefault(name, {})[row["status"]] = row["seconds"]
    if not held:
        return None
    names = sorted(held, key=lambda name: -sum(held[name].values()))[:TOP]
    codes = sorted({code for name in names for code in held[name]})
    figure, axes = bars(names)
    left = [0.0] * len(names)
    for code in codes:
        widths = [held[name].get(code, 0.0) for name in names]
        colour = cause_key(code).colour
        axes.barh(range(len(names)), widths, 0.66, left, color=colour, edgecolor=GAP, linewidth=0.7)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    time_axis(axes, max(left))
    alt = f"Time in each status above 0; {names[0]} spent the most, {say_seconds(max(left))}."
    return Chart(figure, alt, tuple(cause_key(code) for code in codes))


SECTION = Section(
    name="status_time",
    title="Time in each status",
    note="Summed over members, so ten members that wait a minute are ten minutes. Scope streams "
    "are Streams instances, whose status repeats their consumers' and has 10 to 13 of its own. "
    "The plot leaves status 0 out.",
    empty="No member was seen in this period.",
    table=table,
    chart=chart,
)
