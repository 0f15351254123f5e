"""Hours in which the last member of an agent left: the silence behind them is no outage.

Theory of operation. An agent writes periodic samples as long as it has members. So a gap in its
records is an outage, unless all of its members had left before. Only hours before a gap with a
leave in them can be such hours; the members' last records are read for these alone.
"""

from collections.abc import Collection, Iterator
from datetime import date
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from metrics.model.sample import Outcome, Scope

HOURS = 24
AT_NIGHT = HOURS
"""Bit of a day at whose end an agent has no member."""


class AgentHour(NamedTuple):
    """An hour of an agent, UTC."""

    agent: str
    day: date
    hour: int


def find_empty_hours(seen: DataFrame, records: DataFrame) -> Collection[AgentHour]:
    """Return the hours before a gap at whose end an agent had no member.

    ``seen`` is that of `rollups.timestamps`, ``records`` are transitions and periodic samples.
    """
    wanted = [*_list_last_hours(seen)]
    if not wanted:
        return []
    of_agent = ("agent", "day", "hour")
    asked = seen.sparkSession.createDataFrame(wanted, "agent string, day date, hour int")
    member = ("cluster", "group", "client_id", "host", "group_instance_id")
    is_left = F.coalesce(F.col("outcome") == Outcome.LEFT.value, F.lit(False))
    last = F.max(F.struct("ts", "seq", is_left.alias("is_left")))
    found = (
        records.where(F.col("scope") == Scope.CONSUMER.value)
        .where(F.col("client_id").isNotNull())
        .withColumn("hour", F.hour("ts"))
        .join(F.broadcast(asked), list(of_agent), "left_semi")
        .groupBy(*of_agent, *member)
        .agg(last.alias("last"))
        .groupBy(*of_agent)
        .agg(F.bool_and("last.is_left").alias("is_empty"))
    )
    return [AgentHour(*row[:3]) for row in found.where("is_empty").collect()]


def _list_last_hours(seen: DataFrame) -> Iterator[AgentHour]:
    """Yield the hours with a leave behind which an agent that writes samples has no record."""
    sums = [F.bit_or(name).alias(name) for name in ("hours", "left_hours")]
    days = seen.groupBy("agent", "day").agg(*sums, F.bool_or("is_sampled").alias("is_sampled"))
    for row in days.where("is_sampled AND left_hours > 0").collect():
        last = row.left_hours & row.hours & ~(row.hours >> 1)
        for hour in range(HOURS):
            if last >> hour & 1:
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
