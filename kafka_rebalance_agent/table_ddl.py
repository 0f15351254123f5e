"""DDL of the tables: ``python -m kafka_rebalance_agent.table_ddl ENGINE LOCATION [delta]``."""

import click

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


@click.command()
@click.argument("engine", type=click.Choice(["trino", "athena"]))
@click.argument("location")
@click.argument("table_format", type=click.Choice(["parquet", "delta"]), default="parquet")
def main(engine: str, location: str, table_format: str) -> None:
    """Print the statements that make the tables of LOCATION known to ENGINE."""
    make = delta_statements if table_format == "delta" else statements
    click.echo(";\n\n".join(make(engine, location)) + ";")


if __name__ == "__main__":
    main(prog_name="python -m kafka_rebalance_agent.table_ddl")
