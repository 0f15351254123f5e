"""Hours in which the last member of an agent went: the silence behind them is no outage.

Theory of operation. An agent writes periodic samples as long as it has members. So a gap in its
records is an outage, unless all of its members had left before, or were killed: other members show
that they expired soon after their last records. Only hours before a gap with a leave in them, or
with an expiry in them or the next one, can be such hours; the members' last records are read for
these alone. An expiry that only the next day shows does not count.
"""

from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.rebalances.departures import DepartureKind
from metrics.model.sample import Outcome, Scope

HOURS = 24
EXPIRED_S = 3600.0
"""A member that is killed expires within its session timeout, of half an hour at most, and the
interval of samples."""
AT_NIGHT = HOURS
"""Bit of a day at whose end an agent has no member."""


class AgentHour(NamedTuple):
    """An hour of an agent, UTC."""

    agent: str
    day: date
    hour: int


def find_empty_hours(
    seen: DataFrame, records: DataFrame, expired: DataFrame | None = None
) -> Collection[AgentHour]:
    """Return the hours before a gap at whose end an agent had no member.

    ``seen`` is that of `rollups.timestamps`, ``records`` are transitions and periodic samples;
    ``expired`` are rebalances with their departures (`group_rebalances.REBALANCES`).
    """
    gone = [] if expired is None else _list_expired(expired)
    wanted = [*_list_last_hours(seen, {hour for each in gone for hour in each.hours})]
    if not wanted:
        return []
    spark = seen.sparkSession
    of_agent = ("agent", "day", "hour")
    asked = spark.createDataFrame(wanted, "agent string, day date, hour int")
    member = ("cluster", "group", "client_id", "host")
    columns = ", ".join(f"`{name}` string" for name in member)
    expiries = spark.createDataFrame(gone, f"{columns}, at timestamp")
    is_left = F.coalesce(F.col("outcome") == Outcome.LEFT.value, F.lit(False))
    last = F.max(F.struct("ts", "seq", is_left.alias("is_left")))
    behind_s = F.unix_seconds("at") - F.unix_seconds("last.ts")
    is_gone = F.col("last.is_left") | F.coalesce(behind_s.between(0, EXPIRED_S), F.lit(False))
    process = (*of_agent, *member, "group_instance_id")
    found = (
        records.where(F.col("scope") == Scope.CONSUMER.value)
        .where(F.col("client_id").isNotNull())
        .withColumn("hour", F.hour("ts"))
        .join(F.broadcast(asked), list(of_agent), "left_semi")
        .groupBy(*process)
        .agg(last.alias("last"))
        .join(F.broadcast(expiries), list(member), "left")
        .groupBy(*process)
        .agg(F.bool_or(is_gone).alias("is_gone"))
        .groupBy(*of_agent)
        .agg(F.bool_and("is_gone").alias("is_empty"))
    )
    return [AgentHour(*row[:3]) for row in found.where("is_empty").collect()]


class _Expiry(NamedTuple):
    """A member that its group missed."""

    cluster: str
    group: str
    client_id: str
    host: str
    at: datetime

    @property
    def hours(self) -> Collection[tuple[date, int]]:
        """The hours, UTC, in which its last record can be."""
        instants = (self.at.astimezone(UTC), self.at.astimezone(UTC) - timedelta(seconds=EXPIRED_S))
        return [(each.date(), each.hour) for each in instants]


def _list_expired(rebalances: DataFrame) -> list[_Expiry]:
    """Return the members that expired, each with its rebalance's time."""
    one = F.explode("departures").alias("one")
    found = rebalances.select("cluster", "group", F.col("started_at").alias("at"), one)
    named = found.where(F.col("one.kind") == DepartureKind.EXPIRED.value).select(
        "cluster", "group", "one.client_id", "one.host", "at"
    )
    return [_Expiry(*row) for row in named.collect()]


def _list_last_hours(seen: DataFrame, expired: Collection[tuple[date, int]]) -> Iterator[AgentHour]:
    """Yield the hours behind which an agent that writes samples has no record.

    They have a leave, or are ``expired``: those in which a member that expired was seen last.
    """
    sums = [F.bit_or(name).alias(name) for name in ("hours", "left_hours")]
    days = seen.groupBy("agent", "day").agg(*sums, F.bool_or("is_sampled").alias("is_sampled"))
    of_days = sorted({day for day, _ in expired})
    may_be = (F.col("left_hours") > 0) | F.col("day").isin(of_days)
    for row in days.where(F.col("is_sampled") & may_be).collect():
        last = row.hours & ~(row.hours >> 1)
        for hour in range(HOURS):
            is_wanted = row.left_hours >> hour & 1 or (row.day, hour) in expired
            if last >> hour & 1 and is_wanted:
                yield AgentHour(row.agent, row.day, hour)


def fill_hours(agents: DataFrame, empty: Collection[AgentHour]) -> DataFrame:
    """Add hours without members to the ``own_hours`` of agents' days, and the bit `AT_NIGHT`."""
    if not empty:
        return agents
    bits = [(each.agent, each.day, 1 << each.hour) for each in empty]
    frame = agents.sparkSession.createDataFrame(bits, "host string, day date, empty int")
    of_day = frame.groupBy("host", "day").agg(F.bit_or("empty").alias("empty"))
    filled = F.expr(
        f"""aggregate(
          sequence(0, {HOURS - 1}),
          named_struct('bits', 0, 'is_empty', false),
          (found, h) -> CASE
            WHEN getbit(own_hours, h) = 1
              THEN named_struct('bits', found.bits | shiftleft(1, h),
                                'is_empty', getbit(empty, h) = 1)
            WHEN found.is_empty
              THEN named_struct('bits', found.bits | shiftleft(1, h), 'is_empty', true)
            ELSE found END,
          found -> found.bits | shiftleft(CAST(found.is_empty AS INT), {AT_NIGHT}))"""
    )
    hours = F.when(F.col("empty").isNull(), F.col("own_hours")).otherwise(filled)
    joined = agents.join(F.broadcast(of_day), ["host", "day"], "left")
    return joined.withColumn("own_hours", hours).drop("empty")
