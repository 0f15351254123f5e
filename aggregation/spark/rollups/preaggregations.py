"""Pre-aggregations of a month's rollups, each for some sections of the report.

Theory of operation. A section needs days, or groups and members, seldom both. A pre-aggregation
serves sections with the same needs, and rows that do not differ in them are summed. A query has the
same result on the pre-aggregation as on the rows. A rebalance that began in another month keeps its
day. So does the last day if its sum decides something, since a part of it may be in the next
month's batches.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from enum import StrEnum
from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812

from aggregation.spark.rollups.incident_rows import PLANNED
from aggregation.spark.rollups.rollups import ROLLUPS, union
from aggregation.spark.tables.period import month_end

By = Literal["group", "app"]
FLAPPING = 3
"""Departures of one member on one day that count as flapping."""
SEVERAL_DAYS = 0
"""The ``bucket`` of departures that are summed over several days."""
ROWS = T.StructType([field for field in ROLLUPS if field.name != "batch"])
_SUMS = ("times", "seconds", "member_seconds", "unread_seconds", "unread_at_least")


class PreAggregation(StrEnum):
    """The rows that a section needs."""

    DAYS = "days"
    """Sums of all groups, by day."""
    GROUPS = "groups"
    """Sums of groups and members over all days."""
    DAILY = "daily"
    """Incidents by day and group, the days on which each group was observed, and changes."""
    WORST = "worst"
    """Each group's worst day, and the sum of all others."""
    FLAPPING = "flapping"
    """Each member's departures: by day if it flaps, else summed over all days."""

    def partition_name(self, by: By) -> str:
        """Return the partition's name; two of them differ between groups and applications."""
        return (
            f"{self}-{by}"
            if self in {PreAggregation.WORST, PreAggregation.FLAPPING}
            else self.value
        )


_OF_GROUP = ("cluster", "app", "group")
_OF_MEMBER = (*_OF_GROUP, "client_id", "host")
_OF_DAYS: Mapping[str, tuple[str, ...]] = {
    "incident": ("kind", "code", "plan"),
    "rebalance": ("code", "plan"),
    "observed": ("kind",),
    "hour": ("bucket", "plan"),
    "quality": ("host", "kind", "bucket"),
    "skew": ("host",),
}
_OF_GROUPS: Mapping[str, tuple[str, ...]] = {
    "incident": (*_OF_GROUP, "kind", "code", "plan"),
    "rebalance": (*_OF_GROUP, "code", "plan"),
    "follow_up": (*_OF_GROUP, "code"),
    "status": (*_OF_GROUP, "scope", "code"),
    "duration": (*_OF_GROUP, "kind", "bucket"),
    "departure": (*_OF_GROUP, "kind"),
    "moved": _OF_GROUP,
    "stop": _OF_GROUP,
    "storm": (*_OF_GROUP, "last_at", "plan"),
    "straggler": _OF_MEMBER,
    "trigger": (*_OF_MEMBER, "code", "plan"),
}
_DAILY: Mapping[str, tuple[str, ...]] = {"incident": (*_OF_GROUP, "kind", "plan")}


def preaggregate(rows: DataFrame, month: date) -> DataFrame:
    """Return all pre-aggregations of a month's rows; the column ``cut`` names them."""
    merged = F.when(F.trunc("day", "month") == F.lit(month), F.lit(month)).otherwise(F.col("day"))
    return union(
        _as_preaggregation(_together(rows, F.col("day"), _OF_DAYS), PreAggregation.DAYS.value),
        _as_preaggregation(_together(rows, merged, _OF_GROUPS), PreAggregation.GROUPS.value),
        _as_preaggregation(_last_reasons(rows, merged), PreAggregation.GROUPS.value),
        _as_preaggregation(_together(rows, F.col("day"), _DAILY), PreAggregation.DAILY.value),
        _as_preaggregation(_observed_spans(rows), PreAggregation.DAILY.value),
        _as_preaggregation(
            rows.where("what IN ('change', 'annotation')"), PreAggregation.DAILY.value
        ),
        *_of_days_that_count(rows, month),
    )


def _of_days_that_count(rows: DataFrame, month: date) -> Iterator[DataFrame]:
    is_own = (F.trunc("day", "month") == F.lit(month)) & (F.col("day") < F.lit(month_end(month)))
    by: By
    for by in ("group", "app"):
        yield _as_preaggregation(_worst(rows, is_own, by), PreAggregation.WORST.partition_name(by))
        yield _as_preaggregation(
            _flapping(rows, is_own, by), PreAggregation.FLAPPING.partition_name(by)
        )


def _together(rows: DataFrame, day: Column, keys_of: Mapping[str, tuple[str, ...]]) -> DataFrame:
    """Sum rows with equal keys; each kind of row has its own keys."""
    what = F.col("what")
    names = sorted({name for keys in keys_of.values() for name in keys})
    keys = [
        F.when(what.isin([each for each in keys_of if name in keys_of[each]]), F.col(name))
        .otherwise(F.lit(None))
        .alias(name)
        for name in names
    ]
    return (
        rows.where(what.isin(*keys_of))
        .groupBy("what", day.alias("day"), *keys)
        .agg(*(F.sum(name).alias(name) for name in _SUMS), F.max("longest").alias("longest"))
    )


def _observed_spans(rows: DataFrame) -> DataFrame:
    """Return a row for consecutive days on which a group was observed; ``times`` counts them."""
    keys = ("what", *_OF_GROUP, "kind")
    days = rows.where("what = 'observed'").select("day", *keys).distinct()
    number = F.row_number().over(Window.partitionBy(*keys).orderBy("day"))
    # consecutive days are all as far from their number
    spans = days.withColumn("span", F.date_sub("day", number)).groupBy(*keys, "span")
    return spans.agg(F.min("day").alias("day"), F.count(F.lit(1)).alias("times")).drop("span")


def _last_reasons(rows: DataFrame, day: Column) -> DataFrame:
    """Return a row without a count for the reason of each member's last trigger."""
    last = F.max(F.struct("last_at", "last_reason")).alias("last")
    return (
        rows.where("what = 'trigger'")
        .groupBy("what", day.alias("day"), *_OF_MEMBER)
        .agg(last)
        .select("*", "last.*", F.lit(0).alias("times"))
    )


def _worst(rows: DataFrame, is_own: Column, by: By) -> DataFrame:
    """Sum all days except the one with the largest share, which their sum cannot exceed.

    Rebalances of a group count on days on which its observed time is known. Days that other months
    have rows of stay apart, by group: that time may be in the other month.
    """
    of, what = ("cluster", by), F.col("what")
    planned = (what == "rebalance") & F.col("plan").eqNullSafe(PLANNED)
    parts = {
        "planned": planned,
        "others": (what == "rebalance") & ~planned,
        "observed": what == "observed",
    }
    sums = {name: F.sum(F.when(part, F.col("seconds"))) for name, part in parts.items()}
    daily = rows.where(what.isin("rebalance", "observed")).groupBy("day", "cluster", "app", "group")
    is_known = ~is_own | (F.col("observed") > 0)  # a day with one record was observed for no time
    groups = daily.agg(*(each.alias(name) for name, each in sums.items())).withColumns(
        {name: F.when(is_known, F.col(name)) for name in ("planned", "others")}
        | ({"group": F.when(~is_own, F.col("group"))} if by == "app" else {})
    )
    keys = (*of, "group") if by == "app" else of
    added = [F.sum(name).alias(name) for name in parts]
    days = groups.groupBy("day", *keys).agg(*added)
    rebalancing = F.coalesce("planned", F.lit(0.0)) + F.coalesce("others", F.lit(0.0))
    share = F.try_divide(rebalancing, F.col("observed"))
    can = is_own & (F.col("observed") > 0)
    window = Window.partitionBy(*of, can).orderBy(share.desc(), F.col("day").desc())
    alone = F.when(can & (F.row_number().over(window) > 1), None).otherwise(F.col("day"))
    put = days.withColumn("alone", alone).groupBy(*keys, "alone")
    summed = put.agg(F.max("day").alias("day"), *added)
    rows_of_parts = F.array(
        _part("rebalance", PLANNED, "planned"),
        _part("rebalance", None, "others"),
        _part("observed", None, "observed"),
    )
    # without a known time a group still is one of the report's
    return summed.select("day", *keys, F.inline(rows_of_parts)).where(
        "seconds IS NOT NULL OR what = 'observed'"
    )


def _part(what: str, plan: str | None, column: str) -> Column:
    named = F.lit(what).alias("what"), F.lit(plan).cast("string").alias("plan")
    return F.struct(*named, F.col(column).alias("seconds"))


def _flapping(rows: DataFrame, is_own: Column, by: By) -> DataFrame:
    """Sum the days on which a member does not flap."""
    of = ("cluster", by, "client_id", "host")
    departures = rows.where("what = 'departure'").groupBy("what", "day", *of, "kind")
    days = departures.agg(F.sum("times").alias("times"))
    a_day = F.sum("times").over(Window.partitionBy("day", *of))
    calm = days.withColumn("calm", is_own & (a_day < FLAPPING))
    bucket = F.when(F.col("calm"), F.lit(SEVERAL_DAYS)).alias("bucket")
    day = F.when(F.col("calm"), F.trunc("day", "month")).otherwise(F.col("day")).alias("day")
    return calm.groupBy("what", day, *of, "kind", bucket).agg(F.sum("times").alias("times"))


def _as_preaggregation(rows: DataFrame, name: str) -> DataFrame:
    given = set(rows.columns)
    columns = [
        (F.col(field.name) if field.name in given else F.lit(None))
        .cast(field.dataType)
        .alias(field.name)
        for field in ROWS
    ]
    return rows.select(F.lit(name).alias("cut"), *columns)
