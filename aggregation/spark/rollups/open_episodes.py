"""Members' episodes that are incomplete within one day: DataFrame to DataFrame.

They are few: an episode crosses midnight, is still open, was lost, or misses a record. Their parts
of all days (`aggregation.spark.rollups.member_episodes`) are merged for each midnight.
"""

from collections.abc import Sequence
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812

from aggregation.spark.rollups.daily_rebalances import day_after
from aggregation.spark.rollups.member_episodes import CHAIN, MEMBER, PARTS, merge_aggregates
from aggregation.spark.tables.period import MICROS, ends_at

_FLAGS = ("lost", "headed")
CARRIED_PARTS = T.StructType(
    [
        T.StructField("batch", T.DateType()),
        *(
            T.StructField(name, T.StringType())
            for name in (*MEMBER, "member_id", "agent", "episode")
        ),
        *(
            T.StructField(name, T.IntegerType() if name in _FLAGS else T.LongType())
            for name in PARTS
        ),
    ]
)
_CARRY_MICROS = 7 * 86_400 * MICROS
"""If a member's episode is open for longer, its next record counts as a start."""


def at_midnights(rest: DataFrame, days: Sequence[date], before: date) -> DataFrame:
    """Return the state of each episode at the end of each day (``batch``).

    ``rest`` are parts with their ``day``; parts of ``before`` were carried.
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
            *(F.max(name).alias(name) for name in ("app", "host", "member_id", "agent")),
            F.max("day").alias("newest"),
            *merge_aggregates(),
        )
    )


def select_finished(episodes: DataFrame, last: date) -> DataFrame:
    """Return each episode once, with the batch in which it ended or was given up.

    An episode that is open at the end of the last day is in the batch after that day.
    """
    given_up = ~_is_over() & _is_old("midnight") & ~_is_old("midnight_before")
    pending = ~_is_over() & ~_is_old("midnight") & (F.col("batch") == F.lit(last))
    at_its_end = _is_over() & (F.col("newest") == F.col("batch"))
    return episodes.where(at_its_end | given_up | pending).withColumn(
        "batch", F.when(pending, F.lit(day_after(last))).otherwise(F.col("batch"))
    )


def select_open(episodes: DataFrame) -> DataFrame:
    """Return the open episodes that each day passes to the next day."""
    return episodes.where(~_is_over() & ~_is_old("midnight")).select(CARRIED_PARTS.fieldNames())


def _is_over() -> Column:
    return F.col("ended").isNotNull() | (F.col("lost") == 1)


def _is_old(midnight: str) -> Column:
    return F.col("last_seen") < F.col(midnight) - F.lit(_CARRY_MICROS)
