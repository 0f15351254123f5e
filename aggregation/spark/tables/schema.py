"""The tables: where they lie under ``--tables`` and what their columns are.

``transitions`` holds every kind of record that tells an event (transition, lost, signal, episode),
``samples`` the periodic ones, ``quarantine`` the lines that are no record. All are partitioned by
``day``: the UTC date of ``ts``, in the quarantine of the file's last change or the record's
arrival. The columns of a record are the fields of `metrics.model.sample.Sample` by the same names;
what a line holds beyond them is kept in ``extra``, a JSON object.
"""

import re
from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql import types as T  # noqa: N812

from metrics.model.sample import Sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Table(StrEnum):
    """A folder under ``--tables``."""

    TRANSITIONS = "transitions"
    SAMPLES = "samples"
    QUARANTINE = "quarantine"


def _column(field: msgspec.structs.FieldInfo) -> T.StructField:
    if field.encode_name == "ts":
        return T.StructField("ts", T.TimestampType())
    whole = field.type in (int, int | None)
    return T.StructField(field.encode_name, T.LongType() if whole else T.StringType())


_DAY = T.StructField("day", T.DateType())

RECORD = T.StructType(
    [
        *(_column(field) for field in msgspec.structs.fields(Sample)),
        T.StructField("extra", T.StringType()),
        _DAY,
    ]
)
"""Of transitions and samples."""

_FILE = T.StructField("file", T.StringType())  # a path or URL, or topic-partition
_OFFSET = T.StructField("offset", T.LongType())  # in bytes, or the topic's; null: the whole file
_TEXT = T.StructField("text", T.StringType())

QUARANTINE = T.StructType(
    [
        T.StructField("id", T.StringType()),  # of file and offset
        _FILE,
        _OFFSET,
        T.StructField("reason", T.StringType()),
        _TEXT,
        T.StructField("lines", T.LongType()),  # 1; older rows stand for several equal lines
        _DAY,
    ]
)

PARSED = T.StructType(
    [*RECORD.fields, _FILE, _OFFSET, T.StructField("fault", T.StringType()), _TEXT]
)
"""What became of one line: a record, or ``fault``."""

COLUMNS = {Table.TRANSITIONS: RECORD, Table.SAMPLES: RECORD, Table.QUARANTINE: QUARANTINE}


class TableFormat(StrEnum):
    """What a table's folder holds."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


_SIGNS = {
    TableFormat.DELTA: "_delta_log/*.json",
    TableFormat.ICEBERG: "metadata/v*.metadata.json",
    TableFormat.PARQUET: "day=*",
}
"""What the folder of a table holds once something was committed to it."""


def table_format(tables: Path, table: Table) -> TableFormat | None:
    """Tell what a table is, None where nothing was ever written to it."""
    folder = tables / table
    return next((f for f, sign in _SIGNS.items() if any(folder.glob(sign))), None)


def formats(tables: Path) -> set[TableFormat]:
    """Tell what reading the tables takes."""
    return {found for table in Table if (found := table_format(tables, table)) is not None}


def read_table(spark: "SparkSession", tables: Path, table: Table) -> "DataFrame":
    """Return the table, empty where nothing was ever written to it."""
    columns, path = COLUMNS[table], tables / table
    match table_format(tables, table):
        case None:
            return empty(spark, columns)
        case TableFormat.PARQUET:
            return spark.read.schema(columns).parquet(literal_path(path))
        case other:
            return spark.read.format(other).load(str(path.resolve())).select(columns.fieldNames())


def read_days(
    spark: "SparkSession", tables: Path, table: Table, days: Iterable[date]
) -> "DataFrame":
    """Return a table's rows of some days; of Parquet other days' folders are not even listed."""
    if table_format(tables, table) is not TableFormat.PARQUET:
        return read_table(spark, tables, table).where(F.col("day").isin(list(days)))
    folder = tables / table
    found = [path for day in sorted(days) if (path := folder / f"day={day}").is_dir()]
    if not found:
        return empty(spark, COLUMNS[table])
    reader = spark.read.schema(COLUMNS[table]).option("basePath", str(folder))
    return reader.parquet(*map(literal_path, found))


def empty(spark: "SparkSession", columns: T.StructType) -> "DataFrame":
    """Return a table without rows, which takes no Python worker to read."""
    return spark.range(0).select(
        *(F.lit(None).cast(field.dataType).alias(field.name) for field in columns)
    )


def literal_path(path: Path) -> str:
    """Write a path so that Spark, which globs what it reads, takes it as it is."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path))
