"""The tables' folders under ``--tables`` and their columns.

``transitions`` holds all records of events (transition, lost, signal, episode), ``samples`` the
periodic records, and ``quarantine`` malformed lines. All are partitioned by ``day``: the UTC date
of ``ts``, or in the quarantine of the file's last change or the record's arrival. A record's
columns are the fields of `metrics.model.sample.Sample`. Further fields of a line are kept in
``extra``, a JSON object.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812

from aggregation.spark.errors import SparkJobError
from aggregation.spark.tables.lake_table import LakeTable
from aggregation.spark.tables.table_place import TableFormat, folder_format, read_place
from metrics.model.sample import Sample

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class Table(StrEnum):
    """A folder under ``--tables``."""

    TRANSITIONS = "transitions"
    SAMPLES = "samples"
    QUARANTINE = "quarantine"


_TYPES = get_type_hints(Sample)
"""Types without their bounds."""


def _column(field: msgspec.structs.FieldInfo) -> T.StructField:
    if field.encode_name == "ts":
        return T.StructField("ts", T.TimestampType())
    whole = _TYPES[field.name] in (int, int | None)
    return T.StructField(field.encode_name, T.LongType() if whole else T.StringType())


_DAY = T.StructField("day", T.DateType())

RECORD = T.StructType(
    [
        *(_column(field) for field in msgspec.structs.fields(Sample)),
        T.StructField("extra", T.StringType()),
        _DAY,
    ]
)
"""Columns of transitions and samples."""

_FILE = T.StructField("file", T.StringType())  # a path or URL, or topic-partition
_OFFSET = T.StructField("offset", T.LongType())  # in bytes, or the topic's; null: the whole file
_TEXT = T.StructField("text", T.StringType())
_LINES = T.StructField("lines", T.LongType())  # that the row stands for

QUARANTINE = T.StructType(
    [
        T.StructField("id", T.StringType()),  # of file and offset
        _FILE,
        _OFFSET,
        T.StructField("reason", T.StringType()),
        _TEXT,
        _LINES,
        _DAY,
    ]
)

LATE = "late: "
"""Prefix of the reason of a record that came after its day was removed."""
FUTURE = "future: "
"""Prefix of the reason of a record from after its arrival."""

PARSED = T.StructType(
    [*RECORD.fields, _FILE, _OFFSET, T.StructField("fault", T.StringType()), _TEXT, _LINES]
)
"""Columns of a parsed line: a record, or ``fault``; ``lines`` is null for one line."""

COLUMNS = {Table.TRANSITIONS: RECORD, Table.SAMPLES: RECORD, Table.QUARANTINE: QUARANTINE}
KEYS = {
    Table.TRANSITIONS: ("id", "kind", "ts"),
    Table.SAMPLES: ("id", "kind", "ts"),
    Table.QUARANTINE: ("id",),
}
"""Columns of each release's tables."""


def table_format(tables: Path, table: Table) -> TableFormat | None:
    """Return a table's format; None if nothing was ever written to it."""
    place = read_place(tables)
    return folder_format(tables / table) if place is None else place.format


def formats(tables: Path) -> set[TableFormat]:
    """Return the formats of all tables."""
    return {found for table in Table if (found := table_format(tables, table)) is not None}


def lake_table(tables: Path, table: str, own_format: TableFormat) -> LakeTable:
    """Return a table of Delta or Iceberg at the place of the folder's rows."""
    place = read_place(tables)
    stored_in = str(tables.resolve()) if place is None else place.stored_in
    return LakeTable(stored_in=stored_in, format=own_format, table=table)


def read_table(spark: "SparkSession", tables: Path, table: Table) -> "DataFrame":
    """Return the table; it is empty if nothing was ever written to it.

    Columns that a table of an earlier release lacks are null.
    """
    columns = COLUMNS[table]
    match table_format(tables, table):
        case None:
            return empty(spark, columns)
        case TableFormat.PARQUET:
            return spark.read.schema(columns).parquet(literal_path(tables / table))
        case other:
            rows = lake_table(tables, table, other).read(spark)
            fault = find_column_fault(table, {each.name: each.dataType for each in rows.schema})
            if fault is not None:
                raise SparkJobError(
                    f"the table {table} of {str(tables)!r} is another one ({fault}); restore it, "
                    "or move it away and ingest again"
                )
            return select_known(rows, columns)


def find_column_fault(table: Table, found: Mapping[str, T.DataType]) -> str | None:
    """Return why a table with these columns is not this one; None if it is, of any release."""
    for name in KEYS[table]:
        if name not in found:
            return f"it has no column {name!r}"
    for each in COLUMNS[table]:
        kind = found.get(each.name, each.dataType)
        if kind != each.dataType:
            wanted = each.dataType.simpleString()
            return f"its column {each.name!r} is {kind.simpleString()[:200]}, wanted {wanted}"
    return None


def select_known(rows: "DataFrame", columns: T.StructType) -> "DataFrame":
    """Return these columns; those that a table of an earlier release lacks are null."""
    known = set(rows.columns)
    return rows.select(
        *(F.col(each.name) if each.name in known else _null(each) for each in columns)
    )


def read_days(
    spark: "SparkSession", tables: Path, table: Table, days: Iterable[date]
) -> "DataFrame":
    """Return a table's rows of some days; in Parquet, folders of other days are not listed."""
    if table_format(tables, table) is not TableFormat.PARQUET:
        return read_table(spark, tables, table).where(F.col("day").isin(list(days)))
    folder = tables / table
    found = [path for day in sorted(days) if (path := folder / f"day={day}").is_dir()]
    if not found:
        return empty(spark, COLUMNS[table])
    reader = spark.read.schema(COLUMNS[table]).option("basePath", str(folder))
    return reader.parquet(*map(literal_path, found))


def empty(spark: "SparkSession", columns: T.StructType) -> "DataFrame":
    """Return a table without rows; it needs no Python worker."""
    return spark.range(0).select(*map(_null, columns))


def _null(field: T.StructField) -> "Column":
    return F.lit(None).cast(field.dataType).alias(field.name)


def literal_path(path: Path) -> str:
    """Escape a path, because Spark treats each path that it reads as a glob."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path))
