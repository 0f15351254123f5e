"""``rebalance-agent ingest --once``, and a reading of its tables as by a report, in one process.

``python -P -m tests.system.finished_ingest FORMAT TABLES ARGUMENTS``: prints one JSON object.
"""

import json
import sys
from functools import partial
from pathlib import Path

import click
from pyspark.sql import SparkSession

from agent.cli.ingest import ingest
from agent.cli.spark_jars import find_jars
from aggregation.spark.session.jars import Need
from aggregation.spark.session.session import spark_session
from aggregation.spark.tables.schema import Table, read_table
from aggregation.spark.tables.table_place import TableFormat
from aggregation.spark.tables.tables import session_settings


def rows(spark: SparkSession, tables: Path) -> dict[str, list[object]]:
    """Return the ids of the records, and file and offset of the quarantined lines."""
    read = partial(read_table, spark, tables)
    return {
        "transitions": [row.id for row in read(Table.TRANSITIONS).select("id").collect()],
        "samples": [row.id for row in read(Table.SAMPLES).select("id").collect()],
        "quarantine": [
            [row.file, row.offset]
            for row in read(Table.QUARANTINE).select("file", "offset").collect()
        ],
    }


def main(kind: TableFormat, tables: Path, *arguments: str) -> None:
    """Ingest the present data, and print the tables' ids."""
    say = partial(click.echo, err=True)
    needs = [Need.KAFKA] if kind is TableFormat.PARQUET else [Need.KAFKA, Need(kind)]
    jars = find_jars(needs, None, say, offline=False)
    with spark_session("rows", say, jars=jars, settings=session_settings([kind])) as spark:
        ingest.main([*arguments, "--once"], standalone_mode=False)
        print(json.dumps(rows(spark, tables)))  # noqa: T201 - its output


if __name__ == "__main__":
    main(TableFormat(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
