"""Groups in which several agents see one member: a sidecar and a proxy, or two brokers' logs.

Theory of operation. Each agent writes episodes of its own. A member id is of one process, so two
agents with one member id see one member. Such groups are few, or none: their episodes are put
together move by move, and merged by member (`member_episodes.merge_doubles`). All other episodes
are summed where they are read (`closed_episodes`).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from metrics.model.sample import SampleKind, Scope

Groups = frozenset[tuple[str | None, str | None]]
"""Cluster and group of each."""
NO_GROUPS: Groups = frozenset()


def find_doubled(transitions: DataFrame) -> Groups:
    """Return the groups with a member that several agents see, from the table ``transitions``."""
    moves = transitions.where(
        (F.col("kind") == SampleKind.TRANSITION.value)
        & (F.col("scope") == Scope.CONSUMER.value)
        & F.col("member_id").isNotNull()
    )
    agents = moves.groupBy("cluster", "group", "client_id", "member_id").agg(
        F.min("agent").alias("first"), F.max("agent").alias("last")
    )
    doubled = agents.where(F.col("first") != F.col("last")).select("cluster", "group").distinct()
    return frozenset((row[0], row[1]) for row in doubled.collect())
