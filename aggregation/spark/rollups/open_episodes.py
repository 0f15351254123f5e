"""Members' episodes that are not whole within one day: DataFrame to DataFrame.

They are few: what crosses a midnight, is still going on, was lost, or misses a record. Their parts
(`aggregation.spark.rollups.member_episodes`) of all days are put together for each midnight.
"""

from collections.abc import Sequence
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812

from aggregation.spark.rollups.daily_rebalances import CARRY_S, day_after
from aggregation.spark.rollups.member_episodes import CHAIN, MEMBER, PARTS, merge_aggregates
from aggregation.spark.tables.period import MICROS, ends_at

_FLAGS = ("lost", "headed")
CARRIED_PARTS = T.StructType(
    [
        T.StructField("batch", T.DateType()),
        *(T.StructField(name, T.StringType()) for name in (*MEMBER, "agent", "episode")),
        *(
            T.StructField(name, T.IntegerType() if name in _FLAGS else T.LongType())
            for name in PARTS
        ),
    ]
)
_CARRY_MICROS = int(CARRY_S * MICROS)


def at_midnights(rest: DataFrame, days: Sequence[date], before: date) -> DataFrame:
    """Return what is known of each episode at the end of each of the days (``batch``).

    ``rest`` are parts with the ``day`` that they are of; those of ``before`` were carried.
    """
    ends = [int(ends_at(day) * MICROS) for day in (before, *days)]
    rows = list(zip(days, ends[1:], ends[:-1], strict=True))
    midnights = rest.sparkSession.createDataFrame(
        rows, "batch date, midnight bigint, midnight_before bigint"
    )
    return (
        rest.join(F.broadcast(midnights), F.col("day") <= F.col("batch"))
        .groupBy(*CHAIN, "batch", "midnight", "midnight_before")
        .agg(
            *(F.max(name).alias(name) for name in ("app", "host", "agent")),
            F.max("day").alias("newest"),
            *merge_aggregates(),
        )
    )


def select_finished(episodes: DataFrame, last: date) -> DataFrame:
    """Return each episode once, with the batch in which it was over or given up.

    What is still going on at the end of the last day is in the batch after it.
    """
    given_up = ~_is_over() & _is_old("midnight") & ~_is_old("midnight_before")
    pending = ~_is_over() & ~_is_old("midnight") & (F.col("batch") == F.lit(last))
    at_its_end = _is_over() & (F.col("newest") == F.col("batch"))
    return episodes.where(at_its_end | given_up | pending).withColumn(
        "batch", F.when(pending, F.lit(day_after(last))).otherwise(F.col("batch"))
    )


def select_open(episodes: DataFrame) -> DataFrame:
    """Return what each day leaves to the next one."""
    return episodes.where(~_is_over() & ~_is_old("midnight")).select(CARRIED_PARTS.fieldNames())


def _is_over() -> Column:
    return F.col("ended").isNotNull() | (F.col("lost") == 1)


def _is_old(midnight: str) -> Column:
    return F.col("last_seen") < F.col(midnight) - F.lit(_CARRY_MICROS)
