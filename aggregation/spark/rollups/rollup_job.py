"""The rollups of some days, computed together: DataFrames to DataFrames."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.rollups.closed_episodes import summed
from aggregation.spark.rollups.group_rebalances import CARRIED, REBALANCES, explained_by_day, heard
from aggregation.spark.rollups.member_episodes import CHAIN, MEMBER, merged_parts, parts
from aggregation.spark.rollups.open_episodes import at_midnights, finished, going_on
from aggregation.spark.rollups.rollups import (
    fault_rows,
    held_by_code,
    in_shape,
    length_rows,
    member_rows,
    observed_rows,
    rebalance_rows,
    single,
    stamps,
    status_rows,
    union,
)
from metrics.model.sample import Scope


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
    sums = summed(span.transitions).persist()
    rest = parts(sums.where(F.col("what") == "rest"))
    older = span.parts.drop("batch").withColumn("day", F.lit(span.before))
    episodes = at_midnights(rest.unionByName(older), span.days, span.before).persist()
    singles = single(finished(episodes, span.days[-1]).where(wanted)).persist()
    rebalances = groups.where(F.col("id").isNotNull()).select(REBALANCES.fieldNames())
    yield Computed(
        rollups=union(
            member_rollups(sums, singles), rebalance_rows(rebalances), observed_rows(seen)
        ),
        rebalances=rebalances,
        carried=groups.where(F.col("id").isNull()).select(CARRIED.fieldNames()),
        parts=going_on(episodes),
    )
    for frame in (seen, groups, sums, episodes, singles):
        frame.unpersist()


def all_member_rollups(transitions: DataFrame) -> DataFrame:
    """Return the rollups of the episodes of a whole history, each in the batch of its last day."""
    sums = summed(transitions).persist()
    rest = parts(sums.where(F.col("what") == "rest"))
    labels = [F.max(name).alias(name) for name in (*MEMBER, "agent", "day") if name not in CHAIN]
    episodes = rest.groupBy(*CHAIN).agg(*labels, *merged_parts())
    singles = single(episodes.withColumnRenamed("day", "batch")).persist()
    return member_rollups(sums, singles)


def member_rollups(sums: DataFrame, singles: DataFrame) -> DataFrame:
    """Return the rollups of members' episodes: sums, and those that are no part of them."""
    is_length = F.col("what") == "duration"
    of_consumers = F.col("scope") == Scope.CONSUMER.value
    wanted = (F.col("what") != "rest") & (~is_length | of_consumers)
    whole = (
        sums.where(wanted)
        .withColumn("batch", F.col("day"))
        .withColumn("scope", F.when(~is_length, F.col("scope")))
    )
    lengths = singles.where(of_consumers & F.col("bucket").isNotNull())
    return union(
        in_shape(whole),
        member_rows(singles),
        length_rows(lengths, "member"),
        status_rows(held_by_code(singles)),
        fault_rows(singles),
    )
