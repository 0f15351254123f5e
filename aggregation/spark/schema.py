"""The tables: where they lie under ``--tables`` and what their columns are.

``transitions`` holds every kind of record that tells an event (transition, lost, signal, episode),
``samples`` the periodic ones, ``quarantine`` the lines that are no record. All are Parquet,
partitioned by ``day``: the UTC date of ``ts``, in the quarantine of the file's last change. The
columns of a record are the fields of `metrics.sample.Sample` by the same names; what a line holds
beyond them is kept in ``extra``, a JSON object.
"""

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import types as T  # noqa: N812 - pyspark's own convention

from metrics.sample import Sample

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

QUARANTINE = T.StructType(
    [
        T.StructField("id", T.StringType()),  # of file and text
        T.StructField("file", T.StringType()),
        T.StructField("reason", T.StringType()),
        T.StructField("text", T.StringType()),
        T.StructField("lines", T.LongType()),  # how often the same text stands in the file
        _DAY,
    ]
)

COLUMNS = {Table.TRANSITIONS: RECORD, Table.SAMPLES: RECORD, Table.QUARANTINE: QUARANTINE}


def read_table(spark: "SparkSession", tables: Path, table: Table) -> "DataFrame":
    """Return the table, empty where nothing was ever written to it."""
    folder = tables / table
    if not folder.is_dir():
        return spark.createDataFrame([], COLUMNS[table])
    return spark.read.schema(COLUMNS[table]).parquet(literal_path(folder))


def literal_path(path: Path) -> str:
    """Write a path so that Spark, which globs what it reads, takes it as it is."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path))
