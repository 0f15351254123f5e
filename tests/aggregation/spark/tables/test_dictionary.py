"""The data dictionary has every column as it is; the DDL made of it parses."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import sqlglot
from click.testing import CliRunner
from sqlglot import exp

from aggregation.spark.rollups.group_rebalances import INCIDENTS, REBALANCES
from aggregation.spark.rollups.rollups import ROLLUPS
from aggregation.spark.tables.ddl import athena, trino
from aggregation.spark.tables.dictionary import TABLES
from aggregation.spark.tables.schema import QUARANTINE, RECORD
from kafka_rebalance_agent.table_ddl import delta_statements, main, statements

SCHEMAS = {
    "transitions": RECORD,
    "samples": RECORD,
    "quarantine": QUARANTINE,
    "rebalances": REBALANCES,
    "incidents": INCIDENTS,
    "rollups": ROLLUPS,
}


@pytest.mark.parametrize("table", TABLES)
def test_dictionary_has_the_columns_and_types_of_each_table(table: str) -> None:
    wanted = {field.name: field.dataType.simpleString() for field in SCHEMAS[table]}
    assert {name: column.type for name, column in TABLES[table].items()} == wanted


@pytest.mark.parametrize("table", TABLES)
def test_columns_have_a_text_a_source_and_times_have_a_unit(table: str) -> None:
    for name, column in TABLES[table].items():
        assert column.text, name
        assert column.source, name
        if column.type in {"timestamp", "date"} or name.endswith("seconds"):
            assert column.unit, name


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("make", "dialect"), [(trino, "trino"), (athena, "athena")])
def test_ddl_parses_and_has_every_column(
    table: str, make: Callable[[str, str], str], dialect: str
) -> None:
    (parsed,) = sqlglot.parse(make(table, "s3://bucket/o'clock"), dialect=dialect)
    assert isinstance(parsed, exp.Create)
    assert not isinstance(parsed, exp.Command)
    names = {column.name for column in parsed.find_all(exp.ColumnDef)}
    assert names >= set(TABLES[table])


@pytest.mark.parametrize("engine", ["trino", "athena"])
def test_printed_statements_parse(engine: str) -> None:
    text = ";\n".join(
        s for s in statements(engine, "s3://b/t") if s.startswith("CREATE TABLE") or "EXTERNAL" in s
    )
    assert len(sqlglot.parse(text, dialect=engine)) == len(TABLES)


def test_trino_gets_its_precision_and_its_schema_first() -> None:
    """The Hive connector refuses TIMESTAMP(6) in a session with its default of milliseconds."""
    precision, schema, *others = statements("trino", "s3://b/t")
    assert precision == "SET SESSION hive.timestamp_precision = 'MICROSECONDS'"
    assert schema == "CREATE SCHEMA IF NOT EXISTS hive.rebalances"
    assert len(others) == 2 * len(TABLES)
    assert any("TIMESTAMP(6)" in each for each in others)


def test_delta_tables_are_registered_by_their_place() -> None:
    made = delta_statements("athena", "s3://b/t")
    assert all(isinstance(each, exp.Create) for each in sqlglot.parse(";".join(made), "athena"))
    assert [each.split("'")[1] for each in made] == [f"s3://b/t/{table}/" for table in TABLES]
    schema, first, *others = delta_statements("trino", "s3://b/t")
    assert (schema, len(others)) == (
        "CREATE SCHEMA IF NOT EXISTS delta.rebalances",
        len(TABLES) - 1,
    )
    assert first == (
        "CALL delta.system.register_table(schema_name => 'rebalances', "
        "table_name => 'transitions', table_location => 's3://b/t/transitions')"
    )


def test_the_statements_may_be_cut_by_their_reader() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "kafka_rebalance_agent.table_ddl", "trino", "s3://bucket/t"]

    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)

    os.close(writer)
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [[], ["trino"], ["presto", "s3://b/t"], ["trino", "t", "no"]])
def test_wrong_arguments_are_a_usage(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 2
    assert "Usage: " in result.output
