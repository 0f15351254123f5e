"""The place of tables: a folder, a URL, or a namespace of a Spark catalog. Without Spark.

Theory of operation. ``--tables`` is a local folder. It has the lock, the names of files that were
read, the retention horizon and the marks of rollups. Rows are in it, too, unless they are stored
elsewhere. Then a file in the folder has the place and the format, so each later command finds them.
It is written after the tables were created there, so a table of such a place always exists.
"""

import re
from enum import StrEnum
from pathlib import Path

import msgspec

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.tables.state_file import read_state, write_state

_FILE = "_stored_in.json"
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")
_NAMESPACE = re.compile(r"\w+(\.\w+)+")


class TableFormat(StrEnum):
    """The format of a table."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


class TablePlace(msgspec.Struct, frozen=True):
    """Place and format of the rows of all tables, if they are not in the folder."""

    stored_in: str
    format: TableFormat


_decoder = msgspec.json.Decoder(TablePlace)
_REMEDY = (
    'restore it, or write {"stored_in":"URL or CATALOG.NAMESPACE","format":"delta or iceberg"} '
    "into it"
)

_SIGNS = {
    TableFormat.DELTA: "_delta_log/*.json",
    TableFormat.ICEBERG: "metadata/v*.metadata.json",
    TableFormat.PARQUET: "day=*",
}
"""Files in a table's folder after its first commit."""
_LISTED = {"_delta_log": "[!._]*=*/*", "metadata": "data/*"}
"""Folders of metadata, and the files that they list."""


def folder_format(folder: Path) -> TableFormat | None:
    """Return the format of a table in a folder; None if nothing was ever written to it.

    Raises:
        SparkJobError: there are files of a table, and the metadata that lists them is gone. Read
            without it, rows that were deleted or replaced would be back.

    """
    found = next((f for f, sign in _SIGNS.items() if any(folder.glob(sign))), None)
    if found in {None, TableFormat.PARQUET}:
        for metadata, files in _LISTED.items():
            if (folder / metadata).is_dir() and any(folder.glob(files)):
                raise SparkJobError(
                    f"{str(folder / metadata)!r} lists no version of the table, whose files are "
                    "there; restore it, or move the table's folder away and ingest again"
                )
    return found


def read_place(tables: Path) -> TablePlace | None:
    """Return the place of the rows of a folder's tables; None: they are in the folder."""
    path = tables / _FILE
    place = read_state(path, _decoder, _REMEDY)
    if place is not None and not (is_url(place.stored_in) or is_catalog(place.stored_in)):
        raise SparkJobError(f"{str(path)!r} is damaged (it names no place); {_REMEDY}")
    return place


def keep_place(tables: Path, place: TablePlace) -> None:
    """Write the place of the rows atomically."""
    write_state(tables / _FILE, place)


def choose_place(
    tables: Path, wanted: str | None, table_format: TableFormat | None
) -> TablePlace | None:
    """Return the place of a folder's tables: the known one, else the one that is wanted.

    Raises:
        SparkSetupError: the folder has another place, or tables cannot be in this one.

    """
    known, named = read_place(tables), None if wanted is None else wanted.rstrip("/")
    if known is not None:
        if named not in {None, known.stored_in}:
            raise SparkSetupError(
                f"the tables of {str(tables)!r} are stored in {known.stored_in}, not in {named}; "
                "give another --tables"
            )
        return known
    if named is None:
        return None
    if is_catalog(named):
        table_format = table_format or TableFormat.ICEBERG
        if table_format is not TableFormat.ICEBERG:
            raise SparkSetupError(
                f"tables in a catalog ({named}) are Iceberg's, not {table_format}"
            )
    elif not is_url(named):
        raise SparkSetupError(
            f"--stored-in {named!r}: wanted a URL or CATALOG.NAMESPACE; --tables alone is a folder"
        )
    if table_format in {None, TableFormat.PARQUET}:
        raise SparkSetupError(
            f"tables at a URL ({named}) need commits, which Parquet has not: give --table-format "
            "delta or iceberg"
        )
    return TablePlace(named, table_format)


def is_url(place: str) -> bool:
    """Return whether a text is a URL."""
    return _URL.match(place) is not None


def is_catalog(place: str) -> bool:
    """Return whether a text names a namespace of a catalog."""
    return _NAMESPACE.fullmatch(place) is not None


def check_local(tables: Path) -> None:
    """Check that a folder of tables is no URL: as a path it would become a local folder.

    Raises:
        SparkSetupError: it is one.

    """
    if is_url(str(tables)):
        raise SparkSetupError(
            f"{str(tables)!r} is a URL: --tables is a local or mounted folder, and `ingest "
            "--stored-in URL` stores its rows elsewhere"
        )
