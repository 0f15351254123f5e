"""Which episodes of a group's members are one rebalance of the group, and who began it.

Theory of operation. Episodes that overlap in time belong together. A member that left or was
dropped is out of the group from then on, however long its episode lasts; the others learn of it
with their next heartbeat, so it reaches them for a few seconds more. A cause that a higher status
masked (kind ``signal``) is no episode but can be what began the rebalance. The trigger is the
earliest cause that is no consequence; where none was seen, it is null.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.spark.rollups import Period, clip, culprit, seconds_between
from metrics.sample import Outcome, SampleKind, Scope
from metrics.status import RebalanceStatus

NOTICE_S = 4
"""How long a leave takes to reach the others: heartbeat.interval.ms, 3 s by default, and a bit."""

_GROUP = ("cluster", "group")


def group_rebalances(members: DataFrame, records: DataFrame) -> DataFrame:
    """Return one row per rebalance of a group, from `rollups.episodes` and the records.

    ``cause`` is the trigger's code, null where it was not seen; ``seconds`` is from the first
    member's start to the last member's end.
    """
    marks = _episode_marks(members).unionByName(_signal_marks(records))
    order = Window.partitionBy(*_GROUP).orderBy("started_at", "reaches_at")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    reached = F.max("reaches_at").over(before)
    begins = reached.isNull() | (F.col("started_at") > reached)
    islands = marks.withColumn("island", F.sum(begins.cast("int")).over(order))
    real = F.col("member").isNotNull()
    return (
        islands.groupBy(*_GROUP, "island")
        .agg(
            F.min("app").alias("app"),
            F.min(F.when(real, F.col("started_at"))).alias("started_at"),
            F.max(F.when(real, F.col("busy_until"))).alias("ended_at"),
            F.countDistinct("member").alias("members"),
            F.max("gravest").alias("gravest"),
            F.min("culprit").alias("trigger"),
        )
        .where(F.col("members") > 0)
        .select(
            *_GROUP,
            "app",
            "started_at",
            "ended_at",
            seconds_between("started_at", "ended_at").alias("seconds"),
            F.to_date("started_at").alias("day"),
            F.col("trigger.code").alias("cause"),
            "trigger.client_id",
            "trigger.host",
            "trigger.reason",
            "members",
            "gravest",
        )
    )


def busy_days(rebalances: DataFrame, period: Period) -> DataFrame:
    """Split group rebalances at midnight: ``day`` and the ``seconds`` within it."""
    days = F.sequence(F.to_date("started_at"), F.to_date("ended_at"))
    next_day = F.date_add("day", 1).cast("timestamp")
    return (
        clip(rebalances, period)
        .withColumn("day", F.explode(days))
        .withColumn("started_at", F.greatest("started_at", F.col("day").cast("timestamp")))
        .withColumn("ended_at", F.least("ended_at", next_day))
        .withColumn("seconds", seconds_between("started_at", "ended_at"))
        .where(F.col("day") <= F.lit(period.last))
    )


def _episode_marks(members: DataFrame) -> DataFrame:
    # 11 is raised after the zero: a probing rebalance is pending, none is going on
    pending = (F.col("scope") == Scope.STREAMS.value) & (
        F.col("cause") == RebalanceStatus.ASSIGNMENT_PROBING.value
    )
    left = F.col("dropped_at").isNotNull() | (
        F.coalesce("outcome", F.lit("")) == Outcome.LEFT.value
    )
    end = F.coalesce("ended_at", "last_at", "started_at")
    return (
        members.where(~pending)
        .withColumn("busy_until", F.least(end, F.coalesce("dropped_at", end)))
        .withColumn(
            "reaches_at", F.when(left, _noticed("busy_until")).otherwise(F.col("busy_until"))
        )
        .withColumn(
            "member", F.when(F.col("scope") == Scope.CONSUMER.value, F.struct("client_id", "host"))
        )
        .select(
            *_GROUP, "app", "started_at", "busy_until", "reaches_at", "member", "gravest", "culprit"
        )
    )


def _signal_marks(records: DataFrame) -> DataFrame:
    return (
        records.where(F.col("kind") == SampleKind.SIGNAL.value)
        .withColumn("culprit", culprit())
        .where(F.col("culprit").isNotNull())
        .select(
            *_GROUP,
            "app",
            F.col("ts").alias("started_at"),
            F.col("ts").alias("busy_until"),
            _noticed("ts").alias("reaches_at"),
            F.lit(None).cast("struct<client_id:string,host:string>").alias("member"),
            F.lit(None).cast("bigint").alias("gravest"),
            "culprit",
        )
    )


def _noticed(column: str) -> Column:
    return F.col(column) + F.expr(f"INTERVAL {NOTICE_S} SECONDS")
