"""Tables in a JDBC catalog of Iceberg without views, as it is by default; here in SQLite.

``python -P -m tests.aggregation.spark.catalog_story FOLDER``: prints the rows.
"""

import json
import sys
from functools import partial
from pathlib import Path

import click

from agent.cli.spark_jars import find_jars
from agent.lab.artifacts import Artifact, default_cache, fetch
from aggregation.spark.session.jars import Need
from aggregation.spark.session.session import spark_session
from aggregation.spark.tables.schema import Table
from aggregation.spark.tables.table_place import TableFormat, TablePlace
from aggregation.spark.tables.tables import Tables, session_settings

DRIVER = Artifact("org.xerial", "sqlite-jdbc", "3.46.1.3")
CATALOG = "spark.sql.catalog.lake"


def main(folder: Path) -> None:
    """Create all tables twice."""
    place = TablePlace("lake.kafka", TableFormat.ICEBERG)
    drivers = fetch([DRIVER], default_cache())
    settings = session_settings([TableFormat.ICEBERG], place) | {
        CATALOG: "org.apache.iceberg.spark.SparkCatalog",
        "spark.driver.extraClassPath": ":".join(map(str, drivers)),
        f"{CATALOG}.type": "jdbc",
        f"{CATALOG}.uri": f"jdbc:sqlite:{folder}/catalog.db",
        f"{CATALOG}.warehouse": f"{folder}/lake",
    }
    notify = partial(click.echo, err=True)
    jars = find_jars([Need.ICEBERG], None, notify, offline=False)
    with spark_session("catalog story", notify, jars=jars, settings=settings) as spark:
        tables = Tables(folder=folder / "t", format=TableFormat.ICEBERG, place=place)
        tables.create(spark)
        tables.create(spark)
        counts = {table: tables.read(spark, table).count() for table in Table}
    print(json.dumps(counts))  # noqa: T201 - its output


if __name__ == "__main__":
    main(Path(sys.argv[1]))
