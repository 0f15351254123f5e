"""Asks tables that `rebalance-agent ingest` has written.

Run it with their folder, or line by line in a notebook: python docs/report_example.py TABLES
"""

import sys
from functools import partial
from pathlib import Path

import click
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

import kafka_rebalance_agent

kafka_rebalance_agent.enter()  # the wheel's packages become importable

from aggregation.spark.api import group_rebalances, member_episodes  # noqa: E402
from aggregation.spark.session.session import spark_session  # noqa: E402
from aggregation.spark.tables.schema import Table, read_table  # noqa: E402


def main(tables: Path) -> None:
    """Print who triggered most, and the longest episodes."""
    with spark_session("example", partial(click.echo, err=True)) as spark:
        transitions = read_table(spark, tables, Table.TRANSITIONS)

        rebalances = group_rebalances(transitions)
        triggers = rebalances.groupBy("group", "client_id", "cause", "certainty").agg(
            F.count(F.lit(1)).alias("rebalances"), F.sum("member_seconds").alias("lost_s")
        )
        triggers.orderBy(F.desc("lost_s")).show(10, truncate=False)

        episodes = member_episodes(transitions).where("state = 'ended'")
        longest = episodes.orderBy(F.desc("seconds"))
        longest.select("group", "client_id", "started_at", "seconds", "cause", "gravest").show(
            10, truncate=False
        )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
