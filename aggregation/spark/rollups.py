"""From transitions to members' episodes, and the time spent in each status: DataFrame to DataFrame.

Theory of operation. Within an episode each transition leaves where the one before has arrived, so
``from`` = the previous ``to``; the first starts at 0 and the last ends there. Where a link is
broken, a record is missing: the chain is cut at that place and the gap counted. An episode without
its start or its end has no length, so a gap is never a long rebalance. Records of one ``episode``
make one chain; those without make one per member. In a chain time rules, then ``seq``, then the
rule that a status only rises or falls to 0.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.causes import AT_ONCE, SCHEDULED
from metrics.sample import SampleKind, Scope
from metrics.status import RebalanceStatus

MEMBER = ("cluster", "group", "scope", "client_id")
_CHAIN = (*MEMBER, "chain")
_NOTHING_BEFORE = -1
_SETTLED_RANK = len(RebalanceStatus)
_MICROS = 1_000_000
_NO_CAUSE = [0, RebalanceStatus.COORDINATOR_REQUESTED.value, RebalanceStatus.RETRY_ON_ERROR.value]
_FOLLOWS = [
    RebalanceStatus.REVOCATION_NEEDED.value,
    RebalanceStatus.VERSION_PROBING.value,
    RebalanceStatus.ENDPOINT_UPDATE.value,
]


@dataclass(frozen=True, slots=True)
class Period:
    """Whole days, UTC; the last one included."""

    first: date
    last: date

    @property
    def starts_at(self) -> datetime:
        """Midnight at the beginning of the first day."""
        return datetime.combine(self.first, time(), UTC)

    @property
    def ends_at(self) -> datetime:
        """Midnight at the end of the last day."""
        return datetime.combine(self.last + timedelta(days=1), time(), UTC)

    @property
    def margin(self) -> "Period":
        """A day more on both sides: what begins before or ends after."""
        day = timedelta(days=1)
        return Period(self.first - day, self.last + day)

    def holds(self, column: str) -> Column:
        """Whether an instant lies within."""
        return (F.col(column) >= F.lit(self.starts_at)) & (F.col(column) < F.lit(self.ends_at))


def links(records: DataFrame) -> DataFrame:
    """Return the transitions and losses of members as links of chains.

    Adds ``part``, which numbers the unbroken parts of a chain, ``gap`` and ``headless``: a part
    whose start was not seen.
    """
    order = _order()
    held = F.coalesce(
        F.lag(F.coalesce("to", F.lit(0))).over(order), F.lit(_NOTHING_BEFORE).cast("bigint")
    )
    return (
        records.where(F.col("kind").isin(SampleKind.TRANSITION.value, SampleKind.LOST.value))
        .where(F.col("scope").isin(Scope.CONSUMER.value, Scope.STREAMS.value))
        .withColumn(
            "chain",
            F.coalesce(
                "episode", F.concat_ws("\0", "host", F.coalesce("group_instance_id", "host"))
            ),
        )
        .withColumn("from", F.coalesce("from", F.lit(_NOTHING_BEFORE).cast("bigint")))
        .withColumn("rank", _rank())
        .withColumn("held", held)
        .withColumn("gap", (F.col("held") != _NOTHING_BEFORE) & (F.col("from") != F.col("held")))
        .withColumn("headless", (F.col("held") == _NOTHING_BEFORE) & (F.col("from") != 0))
        .withColumn(
            "begins", F.col("gap") | (F.col("from") == 0) | (F.col("held") == _NOTHING_BEFORE)
        )
        .withColumn("part", F.sum(F.col("begins").cast("int")).over(order))
        .drop("held", "begins")
    )


def episodes(chained: DataFrame) -> DataFrame:
    """Return one row per episode of a member, from `links`.

    ``state`` is ``ended``, ``lost`` (dropped as stale), ``open`` (no end seen) or ``headless``;
    only an ended one has ``ended_at`` and ``seconds``. ``cause`` is the first code, ``gravest`` the
    highest, ``culprit`` the earliest cause that is no consequence (see `culprit`).
    """
    place = ("ts", "seq", "rank")
    head = F.min(F.struct(*place, "from", "to", "reason", "app", "host", "member_id"))
    tail = F.max(F.struct(*place, "kind", "to", "outcome", "generation"))
    is_transition = F.col("kind") == SampleKind.TRANSITION.value
    dropped = F.col("to") == RebalanceStatus.DROPPED_GROUP.value
    parts = chained.groupBy(*_CHAIN, "part").agg(
        head.alias("head"),
        tail.alias("tail"),
        F.max("to").alias("gravest"),
        F.max(F.when(is_transition, F.col("ts"))).alias("last_at"),
        F.min(F.when(dropped, F.col("ts"))).alias("dropped_at"),
        F.min(culprit()).alias("culprit"),
    )
    ended = F.col("state") == "ended"
    return (
        parts.withColumn("state", _state())
        .withColumn("started_at", F.col("head.ts"))
        .withColumn("ended_at", F.when(ended, F.col("tail.ts")))
        .withColumn("seconds", seconds_between("started_at", "ended_at"))
        .select(
            *MEMBER,
            "head.app",
            "head.host",
            "head.member_id",
            "state",
            "started_at",
            "ended_at",
            "last_at",
            "dropped_at",
            "seconds",
            F.col("head.to").alias("cause"),
            "head.reason",
            "gravest",
            "tail.outcome",
            "tail.generation",
            "culprit",
            F.to_date("started_at").alias("day"),
        )
    )


def culprit() -> Column:
    """Give a cause that a group's rebalance can have begun with, or null for a consequence.

    1 and 9 are consequences; so are 10, 12 and 13 within a running episode, and a 6 that Kafka
    Streams raised itself to follow up: at once (time 0) it belongs to what ran, at a set time it is
    the probing rebalance, 11. A Streams instance repeats what its consumers have; its own are 12
    and 13.
    """
    to, scope = F.col("to"), F.col("scope")
    follow_up = F.regexp_extract(F.coalesce("reason", F.lit("")), SCHEDULED, 1)
    announced = (to == RebalanceStatus.USER_REQUESTED.value) & (follow_up != "")
    code = F.when(announced, F.lit(RebalanceStatus.ASSIGNMENT_PROBING.value)).otherwise(to)
    consequence = (
        to.isNull()
        | to.isin(_NO_CAUSE)
        | (to.isin(_FOLLOWS) & (F.col("from") != 0))
        | (announced & follow_up.rlike(f"^({AT_ONCE})$"))
        | ((scope == Scope.STREAMS.value) & (to < RebalanceStatus.VERSION_PROBING.value))
    )
    return F.when(
        ~consequence,
        F.struct("ts", "seq", "scope", code.alias("code"), "client_id", "host", "reason"),
    )


def status_spans(chained: DataFrame) -> DataFrame:
    """Return how long each status above 0 was held, from `links`: between linked records only."""
    order = _order()
    ends = (F.lead("part").over(order) == F.col("part")) & (
        F.lead("kind").over(order) == SampleKind.TRANSITION.value
    )
    return (
        chained.withColumn("until", F.when(ends, F.lead("ts").over(order)))
        .where((F.col("to") > 0) & F.col("until").isNotNull())
        .select(
            *MEMBER,
            "app",
            "host",
            F.col("to").alias("status"),
            F.col("ts").alias("started_at"),
            F.col("until").alias("ended_at"),
        )
    )


def clip(spans: DataFrame, period: Period) -> DataFrame:
    """Cut ``started_at`` and ``ended_at`` at the period's bounds; add ``seconds``."""
    return (
        spans.withColumn("started_at", F.greatest("started_at", F.lit(period.starts_at)))
        .withColumn("ended_at", F.least("ended_at", F.lit(period.ends_at)))
        .where(F.col("ended_at") >= F.col("started_at"))
        .withColumn("seconds", seconds_between("started_at", "ended_at"))
    )


def observed(tables: list[DataFrame]) -> DataFrame:
    """Return for how long each member was seen on each day: from its first record to its last."""
    seen = reduce(DataFrame.unionByName, (_stamps(table) for table in tables))
    return seen.groupBy("app", "host", "day", *MEMBER).agg(
        F.min("ts").alias("started_at"), F.max("ts").alias("ended_at")
    )


def _stamps(records: DataFrame) -> DataFrame:
    of_members = F.col("scope").isin(Scope.CONSUMER.value, Scope.STREAMS.value)
    return records.where(of_members).select("app", "host", "day", "ts", *MEMBER)


def seconds_between(start: str, end: str) -> Column:
    """Seconds with their microseconds; exact, unlike a difference of Unix seconds as doubles."""
    return (F.unix_micros(F.col(end)) - F.unix_micros(F.col(start))) / F.lit(_MICROS)


def _order() -> WindowSpec:
    return Window.partitionBy(*_CHAIN).orderBy("ts", "seq", "rank")


def _rank() -> Column:
    return F.when(F.coalesce("to", F.lit(0)) == 0, F.lit(_SETTLED_RANK)).otherwise(F.col("to"))


def _state() -> Column:
    return (
        F.when(F.col("tail.kind") == SampleKind.LOST.value, F.lit("lost"))
        .when(F.col("head.from") != 0, F.lit("headless"))
        .when(F.col("tail.to") == 0, F.lit("ended"))
        .otherwise(F.lit("open"))
    )
