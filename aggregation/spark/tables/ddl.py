"""DDL of the tables for Trino and Athena, made of the data dictionary. Without Spark.

Both read Parquet as it lies there: Trino by its Hive connector, Athena as external tables. Delta
tables have their columns in their own metadata, and are registered by their place. Tables in a
catalog need nothing.
"""

import re

from aggregation.spark.tables.dictionary import TABLES, Column, partition_of

TRINO_PRECISION = "SET SESSION hive.timestamp_precision = 'MICROSECONDS'"
"""First: a session has milliseconds by default, and refuses columns of microseconds."""
TRINO_SCHEMA = "CREATE SCHEMA IF NOT EXISTS hive.rebalances"
_TRINO = {
    "string": "VARCHAR",
    "bigint": "BIGINT",
    "int": "INTEGER",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP(6)",
}


def trino(table: str, location: str, schema: str = "hive.rebalances") -> str:
    """Return the statement for Trino; sync its partitions afterwards (`trino_sync`)."""
    part = partition_of(table)
    columns = ",\n".join(
        f'  "{name}" {trino_type(column.type)} COMMENT {_quote(column.comment)}'
        for name, column in _in_order(table, part)
    )
    place = _quote(f"{location}/{table}")
    return (
        f"CREATE TABLE {schema}.{table} (\n{columns}\n)\nWITH (\n  format = 'PARQUET',\n"
        f"  partitioned_by = ARRAY['{part}'],\n  external_location = {place}\n)"
    )


def trino_sync(table: str, schema: str = "rebalances") -> str:
    """Return the statement that makes new days visible in Trino."""
    return f"CALL hive.system.sync_partition_metadata('{schema}', '{table}', 'FULL')"


def athena(table: str, location: str, database: str = "rebalances") -> str:
    """Return the statement for Athena; `MSCK REPAIR TABLE` makes new days visible."""
    part = partition_of(table)
    columns = ",\n".join(
        f"  `{name}` {column.type} COMMENT {_quote_for_hive(column.comment)}"
        for name, column in TABLES[table].items()
        if name != part
    )
    place = _quote_for_hive(f"{location}/{table}/")
    return (
        f"CREATE EXTERNAL TABLE {database}.{table} (\n{columns}\n)\n"
        f"PARTITIONED BY (`{part}` date)\nSTORED AS PARQUET\nLOCATION {place}"
    )


def trino_delta(table: str, location: str, schema: str = "rebalances") -> str:
    """Return the statement that registers a Delta table in Trino."""
    place = _quote(f"{location}/{table}")
    return (
        f"CALL delta.system.register_table(schema_name => '{schema}', table_name => '{table}', "
        f"table_location => {place})"
    )


def athena_delta(table: str, location: str, database: str = "rebalances") -> str:
    """Return the statement that registers a Delta table in Athena."""
    place = _quote_for_hive(f"{location}/{table}/")
    return (
        f"CREATE EXTERNAL TABLE {database}.{table}\nLOCATION {place}\n"
        "TBLPROPERTIES ('table_type' = 'DELTA')"
    )


def trino_type(kind: str) -> str:
    """Return the type of Trino for one of Spark's."""
    inner = re.fullmatch(r"array<(.*)>", kind)
    if inner:
        return f"ARRAY({trino_type(inner[1])})"
    fields = re.fullmatch(r"struct<(.*)>", kind)
    if fields:
        pairs = (field.split(":") for field in fields[1].split(","))
        return f"ROW({', '.join(f'{name} {trino_type(each)}' for name, each in pairs)})"
    return _TRINO[kind]


def _in_order(table: str, last: str) -> list[tuple[str, Column]]:
    """Return the columns; Trino wants partitions last."""
    columns = TABLES[table]
    own = [(name, column) for name, column in columns.items() if name != last]
    return [*own, (last, columns[last])]


def _quote(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def _quote_for_hive(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
