"""A spool, or a tree of spools, as a stream of files for Spark's Python workers.

Spark's own sources of files report neither a line's position nor a deleted file, and they keep the
name of each file for ever. So this module lists the folder, by Arrow's file systems if it is a URL,
and `spool_reader` reads the files.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.ingest.record_parser import arrival
from aggregation.spark.ingest.spool_reader import file_system, read_files
from aggregation.spark.ingest.spool_stream import SpoolFile, SpoolStream
from aggregation.spark.ingest.stream import Take
from aggregation.spark.session.workers import map_batches
from aggregation.spark.tables.schema import PARSED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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

    def position(self, checkpoint: Path) -> str:
        """Return an empty text: files are read whole."""
        del checkpoint
        return ""

    def has_files(self) -> bool:
        """Return whether there is any spool file, read or not."""
        if self._is_url:
            return any(True for _ in _list_url(self.place))
        return any(
            _is_spool_file(name)
            for folder in self._folders()
            for _, _, names in _walk(folder)
            for name in names
        )

    def _folders(self) -> list[str]:
        if not self._is_glob:
            return [self.name]
        return [str(path) for path in Path("/").glob(self.name.lstrip("/"))]

    def start(
        self, spark: "SparkSession", checkpoint: Path, take: Take, *, once: bool
    ) -> SpoolStream:
        """Start to read new files, batch by batch."""
        rows_of = partial(self._rows_of, spark)
        return SpoolStream(spark, checkpoint, self._list_files, rows_of, take, once=once)

    def _list_files(self) -> Iterator[SpoolFile]:
        if self._is_url:
            yield from _list_url(self.place)
            return
        for folder in self._folders():
            yield from _list_folder(folder)

    def _rows_of(self, spark: "SparkSession", files: Sequence[SpoolFile]) -> "DataFrame":
        """Turn files into `PARSED` rows."""
        named = [(file.path, find_arrival(file.changed_at)) for file in files]
        frame = spark.createDataFrame(named, "path string, day date")
        read = partial(read_files, schema=to_arrow_schema(PARSED), root=self._root())
        return map_batches(frame, read, PARSED)

    def _root(self) -> str:
        """Return the root folder; links below it are refused. It is the part before a pattern."""
        place = _place(self.name)
        return _GLOB.split(place, 1)[0].rpartition("/")[0] or "/" if self._is_glob else place


def find_arrival(changed_at: float) -> date:
    """Return the day of a file's last change; file systems have years that Python has not."""
    now = datetime.now(UTC)
    changed_on = datetime.fromtimestamp(max(0.0, min(changed_at, now.timestamp())), UTC).date()
    return arrival(changed_on, now.date())


def _place(url: str) -> str:
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else url


def _walk(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        yield place, folders, names


def _list_folder(folder: str) -> Iterator[SpoolFile]:
    """Yield the files of a folder and below; a linked folder is one of them, and is refused."""
    for place, folders, names in _walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]
        files = [name for name in names if _is_spool_file(name)]
        for path in (os.path.join(place, name) for name in (*links, *files)):  # noqa: PTH118 - fast
            with suppress(FileNotFoundError):  # its agent has removed it meanwhile
                found = os.lstat(path)
                yield SpoolFile(path, found.st_mtime, found.st_size)


def _is_spool_file(name: str) -> bool:
    return name.endswith(_SUFFIXES) and not name.startswith((".", "_"))


def _list_url(url: str) -> Iterator[SpoolFile]:
    """Yield the files below a URL, by their URLs."""
    from pyarrow import fs  # noqa: PLC0415 - for object stores alone

    system, inside = file_system(url)
    before = url[: len(url.rstrip("/")) - len(inside.rstrip("/"))]
    selector = fs.FileSelector(inside, allow_not_found=True, recursive=True)
    for info in system.get_file_info(selector):
        below = info.path[len(inside) :].strip("/").split("/")
        is_hidden = any(part.startswith((".", "_")) for part in below)
        if info.type is fs.FileType.File and _is_spool_file(info.base_name) and not is_hidden:
            changed_at = info.mtime_ns / 1e9 if info.mtime_ns else 0.0
            yield SpoolFile(_place(before + info.path), changed_at, info.size or 0)
