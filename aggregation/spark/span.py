"""The rollups of some days, computed together: DataFrames to DataFrames."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.group_rebalances import CARRIED, REBALANCES, explained_by_day, heard
from aggregation.spark.member_episodes import MEMBER, PARTS, parts
from aggregation.spark.rollups import (
    HELD,
    fault_rows,
    length_rows,
    member_rows,
    observed_rows,
    rebalance_rows,
    single,
    stamps,
    summed,
    union,
)
from aggregation.spark.unfinished import at_midnights, finished, going_on
from metrics.sample import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What the rollups of some days are made of."""

    days: tuple[date, ...]
    before: date
    """The batch that carries on into the first of them."""
    carried: DataFrame
    parts: DataFrame
    transitions: DataFrame
    samples: DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """The rows of all tables."""

    rollups: DataFrame
    rebalances: DataFrame
    carried: DataFrame
    parts: DataFrame


@contextmanager
def compute(span: Span, batches: Sequence[date]) -> Iterator[Computed]:
    """Compute the rows of some batches: the days, and where they are the last ones, one more.

    What several tables are made of is held until the end.
    """
    wanted = F.col("batch").isin(list(batches))
    seen = stamps(span.transitions).unionByName(stamps(span.samples)).persist()
    told = heard(seen.withColumnRenamed("last_at", "ts"))
    groups = (
        explained_by_day(span.transitions, span.carried, span.days, told).where(wanted).persist()
    )
    sums = summed(parts(span.transitions)).persist()
    rest = sums.where(F.col("part") == "rest").select("day", *MEMBER, "rest.*", *PARTS)
    older = span.parts.drop("batch").withColumn("day", F.lit(span.before))
    episodes = at_midnights(rest.unionByName(older), span.days, span.before).persist()
    singles = single(finished(episodes, span.days[-1]).where(wanted)).persist()
    rebalances = groups.where(F.col("id").isNotNull()).select(REBALANCES.fieldNames())
    yield Computed(
        rollups=union(_member_rows(sums, singles), rebalance_rows(rebalances), observed_rows(seen)),
        rebalances=rebalances,
        carried=groups.where(F.col("id").isNull()).select(CARRIED.fieldNames()),
        parts=going_on(episodes),
    )
    for frame in (seen, groups, sums, episodes, singles):
        frame.unpersist()


def _member_rows(sums: DataFrame, singles: DataFrame) -> DataFrame:
    by_day = sums.withColumn("batch", F.col("day")).withColumn("kind", F.lit("ended"))
    columns = ["batch", "day", *MEMBER, "kind", "code", "times", "seconds", *HELD]
    whole = by_day.where(F.col("part") == "member").select(columns)
    of_lengths = ["batch", "day", "cluster", "app", "group", "bucket", "times"]
    lengths = [
        rows.where((F.col("scope") == Scope.CONSUMER.value) & F.col("bucket").isNotNull()).select(
            of_lengths
        )
        for rows in (by_day.where(F.col("part") == "length"), singles)
    ]
    return union(
        member_rows(whole.unionByName(singles.select(columns))),
        length_rows(union(*lengths), "member"),
        fault_rows(singles),
    )
