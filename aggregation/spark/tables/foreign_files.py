"""Checks that what stands in a table's folder is that table's.

Theory of operation. Spark reads a file by the names of its columns: one without ours is rows of
nulls, which no figure counts, and one of other types ends a job somewhere. So the columns of new
files are compared first. A file of an earlier release lacks columns, but none of `KEYS`.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as T  # noqa: N812 - pyspark's own convention

from aggregation.spark.errors import SparkJobError
from aggregation.spark.tables.broken_file import unread_file
from aggregation.spark.tables.schema import COLUMNS, KEYS, Table, table_format
from aggregation.spark.tables.table_place import TableFormat


def _is_text(found: pa.DataType) -> bool:
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))


_FITS: Mapping[type[T.DataType], Callable[[pa.DataType], bool]] = {
    T.StringType: _is_text,
    T.LongType: pa.types.is_signed_integer,
    T.TimestampType: pa.types.is_timestamp,
}


def check_days(tables: Path, table: Table, days: Iterable[date]) -> None:
    """Check the files of some days, if the table is of Parquet.

    Raises:
        SparkJobError: a file cannot be read, or is not of this table.

    """
    if table_format(tables, table) is not TableFormat.PARQUET:
        return
    for day in days:
        check_files(table, sorted((tables / table / f"day={day}").glob("[!._]*")))


def check_files(table: Table, paths: Iterable[Path]) -> None:
    """Check files of Parquet.

    Raises:
        SparkJobError: one cannot be read, or is not of this table.

    """
    for path in paths:
        fault = "it is a folder" if path.is_dir() else _find_fault(table, path)
        if fault is not None:
            raise SparkJobError(
                f"{path} is no file of the table {table} ({fault}); move it away and run again"
            )


def _find_fault(table: Table, path: Path) -> str | None:
    try:
        found = pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise unread_file(path, error) from error
    if missing := [name for name in KEYS[table] if name not in found.names]:
        return f"it has no column {missing[0]!r}"
    for column in COLUMNS[table]:
        fits = _FITS.get(type(column.dataType))
        if fits is None or column.name not in found.names:
            continue
        places = found.get_all_field_indices(column.name)
        if len(places) > 1 or not fits(found.field(places[0]).type):
            types = " and ".join(str(found.field(place).type) for place in places)[:200]
            wanted_type = column.dataType.simpleString()
            return f"its column {column.name!r} is {types}, wanted {wanted_type}"
    return None
