"""A table of Delta or Iceberg over some batches and its upkeep, in a process with their jars.

``python -P -m tests.aggregation.spark.table_story FORMAT TABLES``: prints the results.
"""

import json
import sys
from collections import Counter
from datetime import date
from functools import partial
from pathlib import Path

import click
from pyspark.sql import SparkSession

from agent.cli.spark_jars import find_jars
from aggregation.spark.session.jars import Need
from aggregation.spark.session.session import spark_session
from aggregation.spark.tables import maintenance as upkeep
from aggregation.spark.tables.maintenance import Maintenance
from aggregation.spark.tables.retention import removed_records
from aggregation.spark.tables.schema import COLUMNS, Table, empty
from aggregation.spark.tables.table_place import TableFormat
from aggregation.spark.tables.tables import Tables, session_settings
from tests.aggregation.spark.conftest import table_of
from tests.aggregation.spark.histories import DAY_S, START_AT, Client

TABLE = Table.TRANSITIONS
SMALL_FILES = 2
"""As many make a day worth the work here."""


def files(spark: SparkSession, tables: Tables) -> int:
    """Count the files that a table consists of."""
    if tables.format is TableFormat.ICEBERG:
        return spark.table(f"{tables.lake(TABLE).name(spark)}.files").count()
    return len(tables.read(spark, TABLE).inputFiles())


def comment(spark: SparkSession, tables: Tables, table: Table, column: str) -> str | None:
    """Return the comment of a column, from the table's own metadata."""
    described = spark.sql(f"DESCRIBE TABLE {tables.lake(table).name(spark)}")
    (row,) = described.where(f"col_name = '{column}'").collect()
    text: str | None = row["comment"]
    return text


def widen(spark: SparkSession, tables: Tables) -> list[str | None]:
    """Create a table as an earlier release did, read and widen it; return the added columns."""
    lake, schema = tables.lake(Table.QUARANTINE), COLUMNS[Table.QUARANTINE]
    lake.create(empty(spark, schema).drop("reason"), ["day"])
    before = set(lake.read(spark).columns)
    assert tables.read(spark, Table.QUARANTINE).columns == schema.fieldNames()
    tables.create(spark)
    lake.append(empty(spark, schema))
    added = set(lake.read(spark).columns) - before
    return [*added, comment(spark, tables, Table.QUARANTINE, "reason")]


def main(kind: TableFormat, folder: Path) -> None:
    """Append small batches on two days, one of them twice; then keep the second day alone."""
    upkeep.MIN_FILES = SMALL_FILES
    notify = partial(click.echo, err=True)
    client = Client(group="g", client_id="c")
    batches = [
        [client.move(START_AT + day * DAY_S + 10 * n + m, m % 2) for m in range(4)]
        for day, count in ((0, 1), (1, SMALL_FILES))
        for n in range(count)
    ]
    tables = Tables(folder=folder, format=kind)
    jars = find_jars([Need(kind)], None, notify, offline=False)
    with spark_session("story", notify, jars=jars, settings=session_settings([kind])) as spark:
        spark.conf.set("spark.sql.adaptive.enabled", "true")  # a batch is a file then
        appended = [tables.append(table_of(spark, rows), TABLE) for rows in [*batches, batches[-1]]]
        before, rows = files(spark, tables), tables.read(spark, TABLE).collect()
        Maintenance(tables=tables, keep_days=1, notify=notify).run(spark, date(2025, 11, 26))
        kept = tables.read(spark, TABLE).collect()
        got = {
            "appended": appended,
            "once": Counter(r.id for r in rows) == Counter(s.id for b in batches for s in b),
            "removed": {str(day): count for day, count in removed_records(folder).items()},
            "files": [before, files(spark, tables)],
            "days": sorted({str(row.day) for row in kept}),
            "rows": len(kept),
            "comment": comment(spark, tables, TABLE, "ts"),
            "widened": widen(spark, tables),
        }
    print(json.dumps(got))  # noqa: T201 - its output


if __name__ == "__main__":
    main(TableFormat(sys.argv[1]), Path(sys.argv[2]))
