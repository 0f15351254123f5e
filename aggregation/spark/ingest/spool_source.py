"""A spool, or a tree of spools, as a stream of files, which Spark's Python workers read.

Spark's text source reports neither a line's position nor the files that it skipped. So Spark only
lists the files, its checkpoint holds the files of each batch, and `spool_reader` reads them. For a
URL, Hadoop's file systems list and Arrow's read.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.ingest.record_parser import arrival
from aggregation.spark.ingest.spool_reader import file_system, read_files
from aggregation.spark.session.workers import map_batches
from aggregation.spark.tables.schema import PARSED, literal_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_BYTES = 256 << 20
"""Limit of a batch, and so of the data that is held between two commits."""
# Spark silently skips files that are older than the newest one by more than this: one file with a
# time in 2038 must not hide all others.
_MAX_FILE_AGE = "36500d"
_SUFFIXES = (".jsonl", ".jsonl.gz")
_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class SpoolSource:
    """A folder with all folders below it: a path, a URL that Spark and Arrow support, or a glob."""

    place: str

    @property
    def name(self) -> str:
        """Identity of the folder, independent of the working directory."""
        return self.place if self._is_url else str(Path(self.place).resolve())

    @property
    def _is_url(self) -> bool:
        return "://" in self.place

    @property
    def _is_glob(self) -> bool:
        """Return whether the place is a pattern; a folder of that very name comes first."""
        return not Path(self.place).is_dir() and _GLOB.search(self.place) is not None

    def check(self) -> None:
        """Check that the folder exists.

        Raises:
            SparkSetupError: it does not.

        """
        if not self._is_url and not any(map(os.path.isdir, self._folders())):
            raise SparkSetupError(f"there is no spool folder {self.place!r}")

    def has_files(self) -> bool:
        """Return whether there is any spool file, read or not."""
        if self._is_url:
            return any(_has_files_at(self.place))
        return any(
            name.endswith(_SUFFIXES) and not name.startswith((".", "_"))
            for folder in self._folders()
            for _, _, names in _walk(folder)
            for name in names
        )

    def _folders(self) -> list[str]:
        if not self._is_glob:
            return [self.name]
        return [str(path) for path in Path("/").glob(self.name.lstrip("/"))]

    def stream(self, spark: "SparkSession") -> "DataFrame":
        """Return a stream that makes batches of new files; nobody reads its rows."""
        is_literal = not self._is_url and not self._is_glob
        place = literal_path(Path(self.name)) if is_literal else self.name
        return (
            spark.readStream.format("text")
            .option("pathGlobFilter", "*.{jsonl,jsonl.gz}")
            .option("maxBytesPerTrigger", BATCH_BYTES)
            .option("maxFileAge", _MAX_FILE_AGE)
            .option("recursiveFileLookup", "true")
            .load(place)
        )

    def rows(self, batch: "DataFrame", checkpoint: Path, number: int) -> "DataFrame":
        """Turn the files of a batch into `PARSED` rows."""
        files = files_of(checkpoint, number)
        named = batch.sparkSession.createDataFrame(files, "path string, day date")
        read = partial(read_files, schema=to_arrow_schema(PARSED), root=self._root())
        return map_batches(named, read, PARSED)

    def _root(self) -> str:
        """Return the folder below which links are refused: the part in front of a pattern."""
        place = _place(self.name)
        return _GLOB.split(place, 1)[0].rpartition("/")[0] or "/" if self._is_glob else place


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    timestamp: int
    batch_id: int


def files_of(checkpoint: Path, number: int) -> list[tuple[str, date]]:
    """Return the files of a batch and the UTC day of their arrival.

    The file source's checkpoint lists them in ``sources/0/<batch>``. Each tenth batch is in
    ``<batch>.compact``, which repeats the older ones. The format is a line ``v1``, then one JSON
    object per file (Spark 4.1, FileStreamSourceLog).
    """
    log = checkpoint / "sources" / "0"
    whole = log / f"{number}.compact"
    text = (whole if whole.exists() else log / str(number)).read_text()
    entries = [msgspec.json.decode(line, type=_Entry) for line in text.splitlines()[1:] if line]
    return [
        (_place(entry.path), _arrival(entry.timestamp / 1000))
        for entry in entries
        if entry.batch_id == number
    ]


def _arrival(changed_at: float) -> date:
    return arrival(datetime.fromtimestamp(changed_at, UTC).date(), datetime.now(UTC).date())


def _place(url: str) -> str:
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else url


def _walk(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        yield place, folders, names


def _has_files_at(url: str) -> Iterator[bool]:
    from pyarrow import fs  # noqa: PLC0415 - for object stores alone

    system, inside = file_system(url)
    selector = fs.FileSelector(inside, allow_not_found=True, recursive=True)
    yield from (info.base_name.endswith(_SUFFIXES) for info in system.get_file_info(selector))
