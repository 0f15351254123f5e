"""The rollups: one table of additive rows, each day computed alone.

Theory of operation. Every row counts something (``what``) of one day and of one group, member,
code or bucket. ``times``, ``seconds``, ``member_seconds``, ``unread_seconds`` and
``unread_at_least`` add up over any rows, so weeks, periods, applications and percentiles
(`bucket_of`) are sums. ``longest`` is a maximum. Rows are written by *batch*, the day with which
something was over; ``day`` is the day of its beginning. Open episodes and rebalances are carried
over midnight: partial sums of members' episodes, and groups' last records.

| what | per | counts |
|---|---|---|
| member | member, code = its first, kind = state | members' episodes |
| status | group, scope, code | seconds in each code, of whole episodes |
| duration | group, bucket, kind = group or member | lengths, and the longest of groups |
| incident | group, kind, plan, code = status | incidents, their rebalances' cost and unread time |
| rebalance | group, code = cause, kind = certainty, plan | rebalances of groups, and their cost |
| trigger | member, code, plan | rebalances that it began; the last one's time and reason |
| straggler | member | rebalances that it held up, and the seconds of waiting |
| departure | member, kind | members that left or were removed |
| stop | group | stops of a group: all of its members left within a minute |
| follow_up | group, code | rebalances that another one caused |
| moved | group | partitions that moved, of rebalances for which that is known |
| hour | cluster, bucket = hour, plan | rebalances by hour, UTC |
| storm | group, plan, ``last_at`` = start | rebalances that may have another within ten minutes |
| observed | group | seconds of its agents' presence on a day; kind = unknown: not known |
| change | member, kind = field | attributes that changed; reason = before and after |
| annotation | group, or none: all of them | markers that users or deploys posted; reason = text |
| quality | host = agent, kind | records (bucket: bits of the hours that have some, or in which it
|         |                    | had no member), and episodes that are not whole |
| skew | host = agent | clock offsets, summed |
"""

from collections.abc import Collection
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812

from aggregation.rebalances.departures import DepartureKind
from aggregation.rebalances.slots import SLOTS_OF_A_DAY
from aggregation.spark.rollups.empty_agents import AgentHour, fill_hours
from aggregation.spark.rollups.group_changes import CHANGED_TO, FIELDS
from aggregation.spark.rollups.member_episodes import (
    CODES,
    MEMBER,
    cause,
    is_whole,
    seconds,
    seconds_in,
    start_time,
    state,
)
from aggregation.spark.tables.period import MICROS
from metrics.model.sample import Outcome, SampleKind

BUCKETS_PER_DOUBLING = 8
"""Bounds grow by 9 %."""
LEAST_S = 0.001
_STORM_S = 600
_NEAR_MIDNIGHT_S = 1800
"""A neighbour of a rebalance this close to midnight may be in another batch."""

ROLLUPS = T.StructType(
    [
        T.StructField("batch", T.DateType()),
        T.StructField("what", T.StringType()),
        T.StructField("day", T.DateType()),
        *(
            T.StructField(name, T.StringType())
            for name in ("cluster", "app", "group", "scope", "client_id", "host", "kind", "plan")
        ),
        T.StructField("code", T.IntegerType()),
        T.StructField("bucket", T.IntegerType()),
        T.StructField("times", T.LongType()),
        T.StructField("seconds", T.DoubleType()),
        T.StructField("member_seconds", T.DoubleType()),
        T.StructField("unread_seconds", T.DoubleType()),
        T.StructField("unread_at_least", T.LongType()),
        T.StructField("longest", T.DoubleType()),
        T.StructField("last_at", T.TimestampType()),
        T.StructField("last_reason", T.StringType()),
    ]
)
_GROUP = ("cluster", "app", "group")
HELD = tuple(f"held_{code}" for code in CODES)


def bucket_of(length: Column) -> Column:
    """Return the bucket of a length in seconds: `BUCKETS_PER_DOUBLING` for each doubling."""
    return F.floor(F.log2(F.greatest(length, F.lit(LEAST_S))) * BUCKETS_PER_DOUBLING).cast("int")


def single(episodes: DataFrame) -> DataFrame:
    """Return the rollup columns of single episodes, merged from their parts."""
    whole = is_whole()
    return (
        episodes.withColumn("kind", state())
        .withColumn("times", F.lit(1).cast("bigint"))
        .withColumn("code", F.nullif(cause(), F.lit(0)))
        .withColumn("day", F.to_date(F.timestamp_micros(start_time())))
        .withColumns(
            {name: F.when(whole, seconds_in(code)) for code, name in zip(CODES, HELD, strict=True)}
        )
        .withColumn("seconds", F.when(whole, seconds()))
        .withColumn("bucket", F.when(whole, bucket_of(seconds())))
    )


def member_rows(members: DataFrame) -> DataFrame:
    """Return rollups of sums by member (``kind`` is the state)."""
    rows = members.groupBy("batch", "day", *MEMBER, "kind", "code")
    return _label_rows(rows.agg(*_sums("times", "seconds")), "member")


def seconds_by_code(singles: DataFrame) -> DataFrame:
    """Return the seconds that single episodes were in each code."""
    each = F.array(
        *(
            F.struct(F.lit(code).alias("code"), F.col(name).alias("seconds"))
            for code, name in zip(CODES, HELD, strict=True)
        )
    )
    return singles.select("batch", "day", *_GROUP, "scope", F.inline(each))


def status_rows(held: DataFrame) -> DataFrame:
    """Return rollups of seconds by group and code."""
    found = held.where(F.col("seconds") > 0).groupBy("batch", "day", *_GROUP, "scope", "code")
    return _label_rows(found.agg(*_sums("seconds")), "status")


def length_rows(lengths: DataFrame, kind: str) -> DataFrame:
    """Return rollups of lengths: ``times`` by bucket."""
    found = lengths.groupBy("batch", "day", *_GROUP, "bucket").agg(*_sums("times"))
    return _label_rows(found.withColumn("kind", F.lit(kind)), "duration")


def fault_rows(singles: DataFrame) -> DataFrame:
    """Return rollups of episodes that are not whole, by agent and state."""
    found = singles.where(F.col("kind") != "ended")
    named = found.drop("host").withColumn("host", F.col("agent"))
    return _label_rows(
        named.groupBy("batch", "day", "host", "kind").agg(*_sums("times")), "quality"
    )


def rebalance_rows(rebalances: DataFrame, zone: str = "UTC") -> DataFrame:
    """Return all rollups of group rebalances (`group_rebalances.REBALANCES`).

    Each rebalance becomes several facts, so that one aggregation counts them all. Hours are those
    of ``zone``.
    """
    facts = F.concat(
        F.array(*_facts(zone)),
        F.transform("departures", _departure),
        F.transform("offsets", _offset),
    )
    given = rebalances.columns
    unknown = {name: F.lit(None) for name in ("plan", "incident_kind") if name not in given}
    near = rebalances.withColumns(unknown | {"is_near": _has_neighbour()})
    return _sum_facts(near.select("batch", "day", F.explode(facts).alias("fact")))


def incident_rows(incidents: DataFrame) -> DataFrame:
    """Return all rollups of incidents (`group_rebalances.INCIDENTS`)."""
    length = F.unix_micros("ended_at") - F.unix_micros("started_at")
    fact = _count_row(
        "incident",
        kind=F.col("kind"),
        plan=F.col("plan"),
        code=F.col("status"),
        seconds=length / F.lit(MICROS),
        unread_seconds=F.col("unread_partition_seconds"),
        unread_at_least=F.col("unread_at_least"),
    )
    return _sum_facts(incidents.select("batch", "day", fact.alias("fact")))


def note_rows(transitions: DataFrame) -> DataFrame:
    """Return a row for each changed attribute and each annotation, from the table ``transitions``.

    What a member owns changes with each rebalance and is no news, nor is a value that was not known
    before. Settings of members are compared by group (`group_changes`).
    """
    kind = F.col("kind")
    is_other = ~F.col("field").isin(*_OF_REBALANCES, *FIELDS) & F.col("before").isNotNull()
    is_change = (kind == SampleKind.CHANGE.value) & is_other
    is_marker = kind == SampleKind.ANNOTATION.value
    unknown = F.lit("not known")
    values = (F.coalesce("before", unknown), F.lit(CHANGED_TO), F.coalesce("after", unknown))
    group = F.nullif("group", F.lit(""))
    found = transitions.where(is_change | is_marker).withColumns(
        {
            "what": kind,
            "batch": F.col("day"),
            "group": F.when(is_marker, group).otherwise(F.col("group")),
            "last_reason": F.when(is_marker, F.col("reason")).otherwise(F.concat(*values)),
            "kind": F.when(is_change, F.col("field")),
            "last_at": F.col("ts"),
            "times": F.lit(1),
            "source": F.lit(None),
        }
    )
    return in_shape(found)


_OF_REBALANCES = ("partitions", "leader", "generation", "member_id", "state", "lag", "joined")


def _sum_facts(facts: DataFrame) -> DataFrame:
    return (
        facts.select("batch", "day", "fact.*")
        .where(F.col("what").isNotNull())
        .groupBy("batch", "day", *_KEYS)
        .agg(
            *_sums("times", "seconds", "member_seconds", "unread_seconds", "unread_at_least"),
            F.max("longest").alias("longest"),
            F.max("last").alias("last"),
        )
        .withColumn("last_at", F.coalesce("since", "last.at"))
        .withColumn("last_reason", F.col("last.reason"))
        .select(ROLLUPS.fieldNames())
    )


_TEXTS = ("what", *_GROUP, "scope", "client_id", "host", "kind", "plan")
_KEYS = (*_TEXTS, "code", "bucket", "since")
_FACT = {
    **dict.fromkeys(_TEXTS, "string"),
    **dict.fromkeys(("code", "bucket"), "int"),
    "since": "timestamp",
    **dict.fromkeys(("times", "unread_at_least"), "bigint"),
    **dict.fromkeys(("seconds", "member_seconds", "unread_seconds", "longest"), "double"),
    "last": "struct<at:timestamp,reason:string>",
}


def _facts(zone: str) -> list[Column]:
    """Return the facts of every rebalance; ``what`` is null for a fact that does not apply."""
    cause, plan = F.col("cause"), F.col("plan")
    is_one = ~F.coalesce(F.col("is_end"), F.lit(False))
    known = is_one & F.col("client_id").isNotNull() & F.col("cause").isNotNull()
    last = F.struct(F.col("started_at").alias("at"), F.col("reason").alias("reason"))
    none = F.lit(None)
    local = F.from_utc_timestamp("started_at", zone)
    return [
        _count_row("rebalance", is_one, code=cause, kind=F.col("certainty"), plan=plan),
        _count_row(
            "duration",
            is_one,
            kind=F.lit("group"),
            bucket=bucket_of(F.col("seconds")),
            longest=F.col("seconds"),
        ),
        _count_row("hour", is_one, app=none, group=none, plan=plan, bucket=F.hour(local)),
        _count_row(
            "storm", is_one & F.col("is_near") & ~_is_deploy(), plan=plan, since=F.col("started_at")
        ),
        _count_row(
            "moved",
            F.col("partitions_moved").isNotNull(),
            times=F.col("partitions_moved"),
            seconds=none,
            member_seconds=none,
        ),
        _count_row("follow_up", F.col("caused_by").isNotNull(), code=cause),
        _count_row("stop", ~is_one & _is_stop(), seconds=none, member_seconds=none),
        _count_row(
            "trigger",
            known,
            code=cause,
            plan=plan,
            client_id=F.col("client_id"),
            host=F.col("host"),
            last=last,
        ),
        _count_row(
            "straggler",
            F.col("straggler").isNotNull(),
            client_id=F.col("straggler"),
            host=F.col("straggler_host"),
            seconds=F.col("waited_seconds"),
        ),
    ]


def _is_stop() -> Column:
    """Return whether the last members of a group had no successors."""
    stopped = DepartureKind.STOPPED.value
    return F.exists("departures", lambda each: each["kind"] == stopped)


def _is_deploy() -> Column:
    """Return whether a rebalance is part of a wanted start, stop or rollout: of no storm."""
    kinds = ("member_joined", "member_left", "restart", "rollout")
    deploy = (F.col("plan") == "planned") & F.col("incident_kind").isin(*kinds)
    return F.coalesce(deploy, F.lit(False))


def _has_neighbour() -> Column:
    """Return whether another rebalance of the group begins within ten minutes, or may do so."""
    in_order = Window.partitionBy("cluster", "group").orderBy("started_at")
    at, apart = F.unix_micros("started_at"), F.lit(_STORM_S * MICROS)
    before, after = at - F.lag(at).over(in_order), F.lead(at).over(in_order) - at
    of_day = F.unix_seconds("started_at") % F.lit(86_400)
    inner = of_day.between(_NEAR_MIDNIGHT_S, 86_400 - _NEAR_MIDNIGHT_S)
    is_near = F.coalesce(F.least(before, after) <= apart, F.lit(False))
    return is_near | ~inner


def _departure(one: Column) -> Column:
    labels = {name: one[name] for name in ("client_id", "host", "kind")}
    return _count_row("departure", seconds=F.lit(None), member_seconds=F.lit(None), **labels)


def _offset(one: Column) -> Column:
    of_group = dict.fromkeys(_GROUP, F.lit(None))
    labels = {"host": one["agent"], "seconds": one["seconds"], "member_seconds": F.lit(None)}
    return _count_row("skew", **of_group, **labels)


def _count_row(what: str, when: Column | None = None, **columns: Column) -> Column:
    """Return one fact of a rebalance, in the common shape."""
    named = F.lit(what) if when is None else F.when(when, F.lit(what))
    own = {name: F.col(name) for name in (*_GROUP, "seconds", "member_seconds")}
    given = own | {"what": named, "times": F.lit(1)} | columns
    return F.struct(*(given.get(n, F.lit(None)).cast(kind).alias(n) for n, kind in _FACT.items()))


def observation_rows(seen: DataFrame, empty: Collection[AgentHour] = ()) -> DataFrame:
    """Return rollups of observation, from `timestamps`, and the hours of `find_empty_hours`.

    A group is observed while an agent that reports it is present: from the agent's first record of
    the day to its last one, of any group. Without a periodic sample presence is not known: events
    alone do not show how long nothing happened.
    """
    agent = Window.partitionBy("day", "agent")
    sampled = F.bool_or("is_sampled").over(agent)
    present = seen.select(
        "day",
        *_GROUP,
        "is_of_members",
        F.when(sampled, F.min("first_at").over(agent)).alias("first_at"),
        F.when(sampled, F.max("last_at").over(agent)).alias("last_at"),
    )
    length = (F.unix_micros(F.max("last_at")) - F.unix_micros(F.min("first_at"))) / F.lit(MICROS)
    of_group = present.where("is_of_members")  # an annotation shows no member
    groups = of_group.groupBy("day", *_GROUP).agg(
        F.min("first_at").alias("first_at"), length.alias("seconds")
    )
    observed = groups.withColumns(
        {
            "times": F.lit(1).cast("bigint"),
            "kind": F.when(F.col("seconds").isNull(), "unknown"),
            "batch": F.col("day"),
        }
    )
    agents = seen.groupBy("day", F.col("agent").alias("host")).agg(
        *_sums("times"),
        F.bit_or("hours").alias("own_hours"),
        F.bool_or("is_sampled").alias("sampled"),
        F.min("least_member").alias("least"),
        F.max("greatest_member").alias("greatest"),
    )
    agents = fill_hours(agents, empty)
    # of what two agents report alike, tables have one record, of either of them
    twins = Window.partitionBy("day", F.coalesce("least", F.xxhash64("host")), "greatest")
    agents = agents.withColumn("hours", F.bit_or("own_hours").over(twins))
    records = agents.withColumns(
        {
            "kind": F.lit("records"),
            "batch": F.col("day"),
            # without periodic samples a quiet hour is no outage
            "bucket": F.when(F.col("sampled"), F.col("hours")),
        }
    )
    return union(_label_rows(observed, "observed"), _label_rows(records, "quality"))


_OF_NO_MEMBER = (SampleKind.ANNOTATION.value, SampleKind.AGENT.value)
"""Records that do not show that their group exists: a person posts a marker for any name."""


def timestamps(records: DataFrame) -> DataFrame:
    """Return the first and last time and the number of each agent's records by group and day.

    Hashes of its members show which agents report the same ones.
    """
    member = F.xxhash64("cluster", "group", "scope", "client_id", "host", "group_instance_id")
    known = F.when(F.col("client_id").isNotNull(), member)
    is_left = F.col("outcome") == Outcome.LEFT.value
    return records.groupBy("day", "agent", *_GROUP).agg(
        F.min("ts").alias("first_at"),
        F.max("ts").alias("last_at"),
        F.count(F.lit(1)).alias("times"),
        F.bool_or(F.col("kind") == SampleKind.SAMPLE.value).alias("is_sampled"),
        F.bool_or(~F.col("kind").isin(*_OF_NO_MEMBER)).alias("is_of_members"),
        F.bit_or(F.expr("shiftleft(1, hour(ts))")).alias("hours"),
        F.coalesce(F.bit_or(F.when(is_left, F.expr("shiftleft(1, hour(ts))"))), F.lit(0)).alias(
            "left_hours"
        ),
        *_slots(),
        F.min(known).alias("least_member"),
        F.max(known).alias("greatest_member"),
    )


def _slots() -> list[Column]:
    """Return the slots of a day with a record, a bit each (`aggregation.rebalances.silences`)."""
    slot = F.expr("hour(ts) * 6 + minute(ts) div 10")
    return [
        F.bit_or(
            F.when(
                slot.between(first, first + SLOTS_OF_A_COLUMN - 1),
                F.call_function("shiftleft", F.lit(1).cast("bigint"), (slot - first).cast("int")),
            )
        ).alias(name)
        for name, first in SLOT_COLUMNS.items()
    ]


SLOTS_OF_A_COLUMN = 48
SLOT_COLUMNS = {f"slots_{first}": first for first in range(0, SLOTS_OF_A_DAY, SLOTS_OF_A_COLUMN)}
"""Columns of `timestamps` with the slots of a day, by the first slot of each."""


def _sums(*columns: str) -> list[Column]:
    return [F.sum(name).alias(name) for name in columns]


def _label_rows(rows: DataFrame, what: str) -> DataFrame:
    return in_shape(rows.withColumn("what", F.lit(what)))


def in_shape(rows: DataFrame) -> DataFrame:
    """Return rows with the columns of the table."""
    given = set(rows.columns)
    return rows.select(
        *(
            (F.col(field.name) if field.name in given else F.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in ROLLUPS
        )
    )


def union(*rows: DataFrame) -> DataFrame:
    """Concatenate rows of one shape."""
    return reduce(DataFrame.unionByName, rows)
