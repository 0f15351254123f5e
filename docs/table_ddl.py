"""The tables' DDL for Trino and Athena: ``python -m docs.table_ddl trino|athena LOCATION``."""

import sys

from aggregation.spark.tables.ddl import TRINO_PRECISION, TRINO_SCHEMA, athena, trino, trino_sync
from aggregation.spark.tables.dictionary import TABLES


def statements(engine: str, location: str) -> list[str]:
    """Return the statements for an engine."""
    if engine == "athena":
        repairs = [f"MSCK REPAIR TABLE rebalances.{table}" for table in TABLES]
        return [athena(table, location) for table in TABLES] + repairs
    syncs = [trino_sync(table) for table in TABLES]
    return [TRINO_PRECISION, TRINO_SCHEMA, *(trino(table, location) for table in TABLES), *syncs]


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in {"trino", "athena"}:
        sys.exit(__doc__)
    print(";\n\n".join(statements(*sys.argv[1:])) + ";")  # noqa: T201 - its output
