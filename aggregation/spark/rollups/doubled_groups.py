"""Groups in which several agents see one member: a sidecar and a proxy, or two brokers' logs.

Theory of operation. Each agent writes episodes of its own. A member id is of one process, so two
agents with one member id see one member. Such groups are few, or none: their episodes are put
together move by move, and merged by member (`member_episodes.merge_doubles`). All other episodes
are summed where they are read (`closed_episodes`).
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812

from aggregation.spark.rollups.parquet_scan import OBSERVERS, map_shares, read_observers
from aggregation.spark.session.workers import Batches
from metrics.model.sample import SampleKind, Scope

Groups = frozenset[tuple[str | None, str | None]]
"""Cluster and group of each."""
NO_GROUPS: Groups = frozenset()


_FEW = 1_000
_OBSERVERS = T.StructType([T.StructField(name, T.StringType()) for name in OBSERVERS])


def find_doubled(transitions: DataFrame, files: Sequence[Path] | None = None) -> Groups:
    """Return the groups with a member that several agents see, from the table ``transitions``.

    ``files`` are those of these records (`parquet_scan.files_of`). Two of their columns, which are
    read without Spark's reader, show which member ids need a closer look: mostly none.
    """
    shared: list[str] = []
    if files is not None:
        shared = _shared_ids(transitions.sparkSession, files)
        if not shared:
            return NO_GROUPS
    moves = transitions.where(
        (F.col("kind") == SampleKind.TRANSITION.value)
        & (F.col("scope") == Scope.CONSUMER.value)
        & F.col("member_id").isNotNull()
    )
    if shared and len(shared) <= _FEW:
        moves = moves.where(F.col("member_id").isin(shared))
    agents = moves.groupBy("cluster", "group", "client_id", "member_id").agg(
        F.min("agent").alias("first"), F.max("agent").alias("last")
    )
    doubled = agents.where(F.col("first") != F.col("last")).select("cluster", "group").distinct()
    return frozenset((row[0], row[1]) for row in doubled.collect())


def _shared_ids(spark: SparkSession, files: Sequence[Path]) -> list[str]:
    """Return member ids of which several agents wrote, or a few more than `_FEW` of them."""
    seen = map_shares(spark, files, _read_all, _OBSERVERS).groupBy("member_id")
    agents = seen.agg(F.min("agent").alias("first"), F.max("agent").alias("last"))
    shared = agents.where(F.col("first") != F.col("last")).limit(_FEW + 1)
    return [row.member_id for row in shared.collect()]


def _read_all(files: Iterable[Path]) -> Batches:
    return chain.from_iterable(map(read_observers, files))
