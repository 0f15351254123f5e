"""Files of others in a table's folder are named, with the remedy."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T  # noqa: N812 - pyspark's own convention

from aggregation.spark.errors import SparkJobError
from aggregation.spark.tables.foreign_files import check_days
from aggregation.spark.tables.schema import RECORD, Table, find_column_fault

DAY = date(2025, 11, 24)
NOW = datetime(2025, 11, 24, 1, tzinfo=UTC)
OWN: dict[str, list[Any]] = {"id": ["a"], "kind": ["sample"], "ts": [NOW], "generation": [1]}


def write(tables: Path, table: Table, rows: pa.Table) -> Path:
    folder = tables / table / f"day={DAY}"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / "part.parquet")
    return folder / "part.parquet"


def own(**columns: Any) -> pa.Table:
    return pa.table({name: column for name, column in (OWN | columns).items() if column})


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (pa.table({}), "it has no column 'id'"),
        (pa.table({"a": [1], "b": ["x"]}), "it has no column 'id'"),
        (own(kind=None), "it has no column 'kind'"),
        (own(ts=None), "it has no column 'ts'"),
        (own(ts=["2025"]), "its column 'ts' is string, wanted timestamp"),
        (own(generation=["1"]), "its column 'generation' is string, wanted bigint"),
        (own(generation=[1.5]), "its column 'generation' is double, wanted bigint"),
        (own(kind=[1]), "its column 'kind' is int64, wanted string"),
        (own(group=[b"x"]), "its column 'group' is binary, wanted string"),
        (own(group=[["x"]]), "its column 'group' is list<element: string>, wanted string"),
        (own(group=[{"a": {"b": 1}}]), "its column 'group' is struct<a: struct<b: int64>>, wanted"),
        (own(id=[{"id": "x"}]), "its column 'id' is struct<id: string>, wanted string"),
    ],
)
@pytest.mark.parametrize("table", [Table.TRANSITIONS, Table.SAMPLES])
def test_file_of_others_is_named_with_its_fault(
    tmp_path: Path, table: Table, rows: pa.Table, fault: str
) -> None:
    path = write(tmp_path, table, rows)

    with pytest.raises(SparkJobError) as error:
        check_days(tmp_path, table, [DAY])

    assert str(error.value).startswith(f"{path} is no file of the table {table} ({fault}")
    assert str(error.value).endswith("); move it away and run again")


def test_column_that_is_there_twice_is_named(tmp_path: Path) -> None:
    rows = pa.Table.from_arrays([*own(), pa.array([2])], names=[*OWN, "generation"])
    write(tmp_path, Table.SAMPLES, rows)

    with pytest.raises(SparkJobError, match="its column 'generation' is int64 and int64, wanted"):
        check_days(tmp_path, Table.SAMPLES, [DAY])


def _cut_footer(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20] + b"PAR1")


def _grow_footer(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8] + b"\xff\xff\xff\x7fPAR1")


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [_cut_footer, _grow_footer, _make_folder])
def test_damaged_file_is_named(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = write(tmp_path, Table.SAMPLES, own())
    damage(path)

    with pytest.raises(SparkJobError, match="; move it away and run again") as error:
        check_days(tmp_path, Table.SAMPLES, [DAY])

    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("rows", [own(), own(generation=None), own(further=["x"]), own()[:0]])
def test_file_of_any_release_passes(tmp_path: Path, rows: pa.Table) -> None:
    path = write(tmp_path, Table.SAMPLES, rows)
    path.with_name("_SUCCESS").touch()
    path.with_name(".part.parquet.crc").write_bytes(b"x")

    check_days(tmp_path, Table.SAMPLES, [DAY])


def test_quarantine_has_no_times(tmp_path: Path) -> None:
    write(tmp_path, Table.QUARANTINE, pa.table({"id": ["a"], "lines": [1]}))

    check_days(tmp_path, Table.QUARANTINE, [DAY])


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({}, None),
        ({"further": T.StringType()}, None),
        ({"ts": T.StringType()}, "its column 'ts' is string, wanted timestamp"),
        ({"to": T.IntegerType()}, "its column 'to' is int, wanted bigint"),
        ({"group": T.ArrayType(T.StringType())}, "its column 'group' is array<string>, wanted"),
    ],
)
def test_table_of_other_columns_is_another(
    changed: dict[str, T.DataType], fault: str | None
) -> None:
    columns = {each.name: each.dataType for each in RECORD}

    found = find_column_fault(Table.SAMPLES, columns | changed)

    assert (found is None) if fault is None else (found or "").startswith(fault)


@pytest.mark.parametrize("name", ["id", "kind", "ts"])
def test_table_without_its_keys_is_another(name: str) -> None:
    columns = {each.name: each.dataType for each in RECORD if each.name != name}

    assert find_column_fault(Table.TRANSITIONS, columns) == f"it has no column {name!r}"
