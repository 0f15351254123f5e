"""The public functions from DataFrames to DataFrames, for your own notebooks and jobs.

    from aggregation.spark.api import group_rebalances, member_episodes, rebalance_rows

    transitions = spark.read.parquet("TABLES/transitions")
    member_episodes(transitions)                    # one row per episode of a member
    rebalances = group_rebalances(transitions)      # one per rebalance of a group: who, why, cost
    rebalance_rows(rebalances.withColumn("batch", F.col("day")))    # counts of them that add up

The session's time zone must be UTC (``spark.sql.session.timeZone``), and Python workers must have
this package. ``docs/report.md`` describes the columns of the rollups.
"""

from aggregation.spark.rollups.group_rebalances import REBALANCES, group_rebalances
from aggregation.spark.rollups.member_episodes import member_episodes
from aggregation.spark.rollups.rollups import ROLLUPS, bucket_of, rebalance_rows

__all__ = [
    "REBALANCES",
    "ROLLUPS",
    "bucket_of",
    "group_rebalances",
    "member_episodes",
    "rebalance_rows",
]
