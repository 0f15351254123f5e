"""How far the data can be trusted."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.report.facts import Facts
from aggregation.spark.report.section import Chart, Rows, Section
from metrics.sample import SampleKind

GAPS = "gaps"
QUARANTINED = "quarantined lines"


def table(facts: Facts) -> DataFrame:
    """Count what is there and what is missing, one check a row."""
    in_period = facts.chained.where(facts.period.holds("ts"))
    ended = F.col("state") == "ended"
    counts = [
        _count(facts.records, "records", "events in the period, periodic samples not counted"),
        _count(in_period, GAPS, "a transition does not leave where the one before arrived", "gap"),
        _count(
            in_period,
            "starts not seen",
            "the first record of an episode does not leave 0",
            "headless",
        ),
        _count(facts.episodes, "episodes with start and end", "only these have a length", ended),
        _count(
            facts.episodes,
            "episodes cut short",
            "start or end is missing, still going on, or lost",
            ~ended,
        ),
        _count(
            facts.records,
            "dropped as stale",
            "nothing confirmed the status: recorded as lost, never as an end",
            F.col("kind") == SampleKind.LOST.value,
        ),
        facts.quarantine.groupBy()
        .agg(F.coalesce(F.sum("lines"), F.lit(0)).alias("found"))
        .select(
            F.lit(QUARANTINED).alias("check"),
            "found",
            F.lit("lines that are no record; the table quarantine has them").alias("meaning"),
        ),
    ]
    return reduce(DataFrame.unionByName, counts)


def _count(
    rows: DataFrame, check: str, meaning: str, where: Column | str | None = None
) -> DataFrame:
    chosen = rows if where is None else rows.where(where)
    return chosen.agg(F.count(F.lit(1)).alias("found")).select(
        F.lit(check).alias("check"), "found", F.lit(meaning).alias("meaning")
    )


def chart(rows: Rows) -> Chart | None:
    """Draw nothing: the table says it."""
    del rows
    return None


SECTION = Section(
    name="quality",
    title="Data quality",
    note="Missing records make durations fewer, never longer.",
    empty="",
    table=table,
    chart=chart,
)
