"""DDL of the tables for Trino and Athena: ``python -m docs.table_ddl ENGINE LOCATION [delta]``."""

import sys

from aggregation.spark.tables.ddl import (
    TRINO_PRECISION,
    TRINO_SCHEMA,
    athena,
    athena_delta,
    trino,
    trino_delta,
    trino_sync,
)
from aggregation.spark.tables.dictionary import TABLES


def statements(engine: str, location: str) -> list[str]:
    """Return the statements for an engine."""
    if engine == "athena":
        repairs = [f"MSCK REPAIR TABLE rebalances.{table}" for table in TABLES]
        return [athena(table, location) for table in TABLES] + repairs
    syncs = [trino_sync(table) for table in TABLES]
    return [TRINO_PRECISION, TRINO_SCHEMA, *(trino(table, location) for table in TABLES), *syncs]


def delta_statements(engine: str, location: str) -> list[str]:
    """Return the statements for tables of Delta, whose days need no sync."""
    if engine == "athena":
        return [athena_delta(table, location) for table in TABLES]
    schema = TRINO_SCHEMA.replace("hive.", "delta.")
    return [schema, *(trino_delta(table, location) for table in TABLES)]


if __name__ == "__main__":
    makers = {(): statements, ("delta",): delta_statements}
    make = makers.get(tuple(sys.argv[3:]))
    if len(sys.argv) < 3 or make is None or sys.argv[1] not in {"trino", "athena"}:
        sys.exit(__doc__)
    made = make(*sys.argv[1:3])
    print(";\n\n".join(made) + ";")  # noqa: T201 - its output
