"""DDL of the tables: ``python -m kafka_rebalance_agent.table_ddl ENGINE LOCATION [delta]``.

ENGINE is ``trino`` or ``athena``.
"""

import sys

from kafka_rebalance_agent import enter


def statements(engine: str, location: str) -> list[str]:
    """Return the statements for an engine."""
    enter()
    from aggregation.spark.tables import ddl  # noqa: PLC0415 - only now it is ours
    from aggregation.spark.tables.dictionary import TABLES  # noqa: PLC0415

    if engine == "athena":
        repairs = [f"MSCK REPAIR TABLE rebalances.{table}" for table in TABLES]
        return [ddl.athena(table, location) for table in TABLES] + repairs
    syncs = [ddl.trino_sync(table) for table in TABLES]
    made = [ddl.trino(table, location) for table in TABLES]
    return [ddl.TRINO_PRECISION, ddl.TRINO_SCHEMA, *made, *syncs]


def delta_statements(engine: str, location: str) -> list[str]:
    """Return the statements for tables of Delta, whose days need no sync."""
    enter()
    from aggregation.spark.tables import ddl  # noqa: PLC0415 - only now it is ours
    from aggregation.spark.tables.dictionary import TABLES  # noqa: PLC0415

    if engine == "athena":
        return [ddl.athena_delta(table, location) for table in TABLES]
    schema = ddl.TRINO_SCHEMA.replace("hive.", "delta.")
    return [schema, *(ddl.trino_delta(table, location) for table in TABLES)]


def main() -> None:
    """Print the statements that the arguments name."""
    makers = {(): statements, ("delta",): delta_statements}
    make = makers.get(tuple(sys.argv[3:]))
    if len(sys.argv) < 3 or make is None or sys.argv[1] not in {"trino", "athena"}:
        sys.exit(__doc__)
    print(";\n\n".join(make(*sys.argv[1:3])) + ";")  # noqa: T201 - its output


if __name__ == "__main__":
    main()
