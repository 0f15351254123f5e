"""The cluster of records without one: DataFrame to DataFrame.

Theory of operation. Not every source knows its cluster. On a day on which a group's other records
name one cluster alone, the group is of that cluster, as `explain` has it
(`aggregation.rebalances.identities`). Where several clusters have the group it keeps no name.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

_OF = ["day", "group"]


def known_clusters(seen: DataFrame) -> DataFrame | None:
    """Return the only cluster of groups with nameless records by day; None: there are none.

    ``seen`` has a row for each group, cluster and day (`rollups.timestamps`).
    """
    nameless = seen.where(F.col("cluster") == "").select(*_OF).distinct()
    if nameless.isEmpty():
        return None
    named = seen.where(F.col("cluster") != "").join(nameless, _OF, "left_semi")
    clusters = named.groupBy(*_OF).agg(
        F.min("cluster").alias("only"), F.count_distinct("cluster").alias("count")
    )
    return clusters.where("count = 1").drop("count")


def add_clusters(records: DataFrame, known: DataFrame) -> DataFrame:
    """Return the records with their clusters, where `known_clusters` has them."""
    found = records.join(F.broadcast(known), _OF, "left")
    own = F.when(F.col("cluster") == "", F.coalesce("only", F.lit(""))).otherwise(F.col("cluster"))
    return found.withColumn("cluster", own).select(*records.columns)
