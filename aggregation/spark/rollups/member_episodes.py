"""Members' episodes from transitions: DataFrame to DataFrame, without a sort or a window.

Theory of operation. Each transition starts at the code at which the one before ended, and a status
only rises or falls to 0. So an episode needs no order. It is whole if it leaves 0 once, arrives at
0 once and leaves every other code as often as it arrives there. The instants of entry into each
code give the first cause, the highest code and the time in each code. All of these are minima,
maxima and sums, which merge. So an open episode is carried over midnight in the same form.

If the sums disagree, a record is missing: the episode is a ``gap`` and has no length. So is one
that ends before it begins, or a day after it; a member that is dropped, retries or probes can take
a week.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.rebalances.wrong_times import LONGEST_S
from aggregation.spark.rollups.daily_rebalances import INCIDENT_S
from aggregation.spark.tables.period import MICROS
from metrics.model.sample import SampleKind, Scope
from metrics.model.status import RebalanceStatus

CODES = tuple(status.value for status in RebalanceStatus if status)
MEMBER = ("cluster", "app", "group", "scope", "client_id", "host")
CHAIN = ("cluster", "group", "scope", "client_id", "episode")
"""Key of an episode; its labels (app, host) may change while it lasts."""
KINDS = (SampleKind.TRANSITION.value, SampleKind.LOST.value)
SCOPES = (Scope.CONSUMER.value, Scope.STREAMS.value)
"""Scopes of records that move a member's status."""

_LASTING = (
    RebalanceStatus.DROPPED_GROUP.value,
    RebalanceStatus.RETRY_ON_ERROR.value,
    RebalanceStatus.ASSIGNMENT_PROBING.value,
)
"""Codes that agents confirm while they last; in others no member waits for more than a day."""
_BITS = 4
"""Bits of each code in a sum of moves: a code is entered once, or a few times if duplicated."""
_ENTRIES = tuple(f"entered_{code}" for code in CODES)
_LAST = ("ended", "lost", "headed", "last_seen")
_SUMS = ("into", "out_of", "records")
PARTS = (*_ENTRIES, *_LAST, *_SUMS)


def member_episodes(records: DataFrame) -> DataFrame:
    """Return one row per episode of a member, from the table ``transitions``.

    ``state`` is ``ended``, ``lost`` (dropped as stale), ``open`` (no end seen), ``headless`` (no
    start seen) or ``gap`` (records between are missing). Only an ended episode has ``ended_at`` and
    ``seconds``. ``cause`` is its first code, ``gravest`` its highest.
    """
    merged = merge_doubles(merge(parts(select_columns(moves(records))), *CHAIN))
    merged = merged.withColumn("state", state())
    ended = F.col("state") == "ended"
    return merged.select(
        *MEMBER,
        "episode",
        "state",
        F.timestamp_micros(start_time()).alias("started_at"),
        F.when(ended, F.timestamp_micros("ended")).alias("ended_at"),
        F.timestamp_micros("last_seen").alias("last_at"),
        F.when(ended, seconds()).alias("seconds"),
        cause().alias("cause"),
        highest_code().alias("gravest"),
        *(F.when(ended, seconds_in(code)).alias(f"held_{code}_s") for code in CODES),
    )


def moves(records: DataFrame) -> DataFrame:
    """Return the moves of members' statuses, each within a named episode."""
    return moves_with_episode(records).unionByName(moves_without_episode(records))


def moves_with_episode(records: DataFrame) -> DataFrame:
    """Return the moves of writers that name episodes."""
    return _moves(records).where(F.col("episode").isNotNull())


def moves_without_episode(records: DataFrame) -> DataFrame:
    """Return the moves of all other writers; a transition that leaves 0 starts an episode."""
    order = Window.partitionBy("cluster", "group", "scope", "client_id", "host").orderBy(
        "ts", "seq", F.when(F.coalesce("to", F.lit(0)) == 0, len(CODES) + 1).otherwise(F.col("to"))
    )
    number = F.sum((F.coalesce("from", F.lit(-1)) == 0).cast("int")).over(order)
    nameless = _moves(records).where(F.col("episode").isNull())
    return nameless.withColumn("episode", F.concat(F.lit("#"), "host", F.lit("#"), number))


def _moves(records: DataFrame) -> DataFrame:
    return records.where(F.col("kind").isin(*KINDS) & F.col("scope").isin(*SCOPES))


def select_columns(moved: DataFrame) -> DataFrame:
    """Keep the columns of episodes; a ``to`` of -1 is lost, a ``from`` of -1 unknown."""
    is_transition = F.col("kind") == SampleKind.TRANSITION.value
    return moved.select(
        *MEMBER,
        "member_id",
        F.coalesce("agent", F.lit("")).alias("agent"),
        "episode",
        "day",
        F.unix_micros("ts").alias("at"),
        F.when(is_transition, F.coalesce("to", F.lit(0))).otherwise(-1).cast("int").alias("to"),
        F.coalesce("from", F.lit(-1)).cast("int").alias("from"),
    )


def parts(moved: DataFrame) -> DataFrame:
    """Return each move's share (`select_columns`) of its episode; instants are microseconds."""
    at, to, left = F.col("at"), F.col("to"), F.col("from")
    return moved.select(
        *MEMBER,
        "member_id",
        "agent",
        "episode",
        "day",
        *(F.when(to == code, at).alias(f"entered_{code}") for code in CODES),
        F.when(to == 0, at).alias("ended"),
        F.when(to < 0, 1).otherwise(0).alias("lost"),
        F.when(left == 0, 1).otherwise(0).alias("headed"),
        at.alias("last_seen"),
        _bit(F.greatest(to, F.lit(0))).alias("into"),
        _bit(F.greatest(left, F.lit(0))).alias("out_of"),
        F.lit(1).cast("bigint").alias("records"),
    )


def merge(rows: DataFrame, *by: str) -> DataFrame:
    """Merge parts; a label that is no key gets its greatest value."""
    labels = [name for name in (*MEMBER, "member_id", "agent") if name not in by]
    return rows.groupBy(*by).agg(*(F.max(name).alias(name) for name in labels), *merge_aggregates())


def merge_aggregates() -> list[Column]:
    """Return the aggregates that merge many parts into one."""
    return [
        *(F.min(name).alias(name) for name in _ENTRIES),
        *(F.max(name).alias(name) for name in _LAST),
        *(F.try_sum(name).alias(name) for name in _SUMS),
    ]


def merge_doubles(episodes: DataFrame, *by: str, identity: Column | None = None) -> DataFrame:
    """Merge the episodes of one member that several agents saw, each group of ``by`` alone.

    They are of one member id, or of one ``identity`` where there is none, and overlap: by more than
    half of the later one, or more than a second. One of the next round overlaps for milliseconds.
    Leaves, which take no time, are within a second of each other.
    """
    known = (F.col("member_id"),) if identity is None else (F.col("member_id"), identity)
    own = F.concat_ws("\n", "agent", "episode")
    keys = (*by, "cluster", "group", "scope", "client_id", "identity")
    in_order = Window.partitionBy(*keys).orderBy("start", "agent", "episode")
    end = F.coalesce("ended", "last_seen")
    before = F.max(end).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    slack = F.least((end - F.col("start")) / 2, F.lit(MICROS))
    is_new = F.coalesce(F.col("start") >= before - slack, F.lit(True))
    # a leave takes no time: it overlaps nothing, and a member id leaves once
    is_instant = end == F.col("start")
    is_again = (
        is_instant
        & F.coalesce(F.lag(is_instant).over(in_order), F.lit(False))
        & (F.lag("agent").over(in_order) != F.col("agent"))
        & (F.col("start") - before <= MICROS)
    )
    numbered = (
        episodes.withColumns({"start": start_time(), "identity": F.coalesce(*known, own)})
        .withColumn("is_new", (is_new & ~F.coalesce(is_again, F.lit(False))).cast("int"))
        .withColumn("number", F.sum("is_new").over(in_order))
    )
    best = F.struct((~is_whole()).alias("part"), "start", "agent", "episode")
    of_best = ("app", "host", "agent", "episode", "lost", "headed", *_SUMS)
    return numbered.groupBy(*keys, "number").agg(
        F.max("member_id").alias("member_id"),
        *(F.min_by(name, best).alias(name) for name in of_best),
        *(F.min(name).alias(name) for name in _ENTRIES),
        *(F.max(name).alias(name) for name in ("ended", "last_seen")),
    )


def is_whole() -> Column:
    """Return whether all of an episode was seen, and its times make sense."""
    once = F.col("out_of").bitwiseAND(F.lit((1 << _BITS) - 1)) == 1
    whole = (F.col("headed") == 1) & F.col("ended").isNotNull() & (F.col("lost") == 0)
    few = F.col("records") < (1 << _BITS)
    length = F.col("ended") - F.least(*_ENTRIES)
    lasts = F.coalesce(*(f"entered_{code}" for code in _LASTING)).isNotNull()
    most = F.when(lasts, int(LONGEST_S * MICROS)).otherwise(int(INCIDENT_S * MICROS))
    in_time = (F.col("ended") >= F.greatest(*_ENTRIES)) & (length <= most)
    return F.coalesce(
        whole & few & in_time & once & (F.col("into") == F.col("out_of")), F.lit(False)
    )


def state() -> Column:
    """Return the state of an episode."""
    linked = F.col("into") - F.col("out_of") == _bit(highest_code()) - 1
    return (
        F.when(F.col("headed") == 0, "headless")
        .when(F.col("lost") == 1, "lost")
        .when(is_whole(), "ended")
        .when(F.col("ended").isNull() & linked, "open")
        .otherwise("gap")
    )


def start_time() -> Column:
    """Return the start of an episode, or the first sight of a headless one."""
    return F.least(*_ENTRIES, "ended", "last_seen")


def seconds() -> Column:
    """Return the length of a whole episode, with microseconds."""
    return (F.col("ended") - start_time()) / F.lit(MICROS)


def cause() -> Column:
    """Return the first code, which is the lowest: a status only rises."""
    return F.coalesce(*(_code_if_entered(code) for code in CODES))


def highest_code() -> Column:
    """Return the highest code; 0 if none was seen."""
    return F.coalesce(*(_code_if_entered(code) for code in reversed(CODES)), F.lit(0))


def seconds_in(code: int) -> Column:
    """Return the seconds in a code, until the entry into the next code or the end."""
    later = [f"entered_{other}" for other in CODES if other > code]
    until = F.least(*later, "ended") if later else F.col("ended")
    length = (until - F.col(f"entered_{code}")) / F.lit(MICROS)
    return F.coalesce(length, F.lit(0.0))


def _code_if_entered(code: int) -> Column:
    return F.when(F.col(f"entered_{code}").isNotNull(), code)


def _bit(code: Column) -> Column:
    # a table, because Spark shifts only by constants
    powers = F.array(*(F.lit(1 << (_BITS * n)) for n in range(len(CODES) + 1)))
    return F.element_at(powers, code.cast("int") + 1).cast("bigint")
