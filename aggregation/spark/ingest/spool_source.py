"""A spool folder as a stream of files, which Spark's Python workers read.

Spark's text source reports neither a line's position nor the files that it skipped. So Spark only
lists the files, its checkpoint holds the files of each batch, and `read_file` reads them. Hadoop's
file systems list a folder with a URL, and Arrow's read it.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.ingest.record_parser import TEXT_MAX_CHARS, Row, arrival, row_of
from aggregation.spark.session.workers import map_batches
from aggregation.spark.tables.schema import PARSED, literal_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_BYTES = 256 << 20
"""Limit of a batch, and so of the data that is held between two commits."""
# Spark silently skips files that are older than the newest one by more than this.
_MAX_FILE_AGE = "3650d"
_CHUNK_BYTES = 1 << 20
_ROWS = 10_000

REMOVED = "was removed from the spool before it was read"
UNREADABLE = "cannot be read: "
"""Prefix of the fault of a file that exists: the operator must act, and the batch must fail."""


@dataclass(frozen=True, slots=True)
class SpoolSource:
    """One folder: a path, or a URL that Spark's Hadoop client and Arrow support."""

    place: str

    @property
    def name(self) -> str:
        """Identity of the folder, independent of the working directory."""
        return self.place if "://" in self.place else str(Path(self.place).resolve())

    def check(self) -> None:
        """Check that the folder exists.

        Raises:
            SparkSetupError: it does not.

        """
        if "://" not in self.place and not Path(self.place).is_dir():
            raise SparkSetupError(f"there is no spool folder {self.place!r}")

    def stream(self, spark: "SparkSession") -> "DataFrame":
        """Return a stream that makes batches of new files; nobody reads its rows."""
        place = self.name if "://" in self.place else literal_path(Path(self.name))
        return (
            spark.readStream.format("text")
            .option("pathGlobFilter", "*.{jsonl,jsonl.gz}")
            .option("maxBytesPerTrigger", BATCH_BYTES)
            .option("maxFileAge", _MAX_FILE_AGE)
            .load(place)
        )

    def rows(self, batch: "DataFrame", checkpoint: Path, number: int) -> "DataFrame":
        """Turn the files of a batch into `PARSED` rows."""
        files = files_of(checkpoint, number)
        named = batch.sparkSession.createDataFrame(files, "path string, day date")
        return map_batches(named, partial(read_files, schema=to_arrow_schema(PARSED)), PARSED)


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


def read_files(files: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the files of a partition, for ``mapInArrow``."""
    rows = (
        row
        for batch in files
        for path, day in zip(*(column.to_pylist() for column in batch), strict=True)
        for row in read_file(path, day)
    )
    while some := list(islice(rows, _ROWS)):
        yield pa.RecordBatch.from_pylist(some, schema=schema)


def read_file(file: str, day: date) -> Iterator[Row]:
    """Yield the rows of a file, then a row without ``offset`` if the file itself is broken.

    Offsets count uncompressed bytes.
    """
    offset, tail = 0, b""
    try:
        with _open_file(file) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                *lines, tail = (tail + chunk).split(b"\n")
                for line in lines:
                    row = row_of(line, file=file, offset=offset, day=day)
                    if row is not None:
                        yield row
                    offset += len(line) + 1
    except (OSError, EOFError, zlib.error) as error:
        text = tail[:TEXT_MAX_CHARS].decode(errors="replace") or None
        yield {"file": file, "fault": _fault(error), "text": text, "day": day}
        return
    last = row_of(tail, file=file, offset=offset, day=day)
    if last is not None:
        yield last


def _fault(error: OSError | EOFError | zlib.error) -> str:
    match error:
        case FileNotFoundError():
            return REMOVED
        case gzip.BadGzipFile() | EOFError() | zlib.error():
            return f"the compressed file is broken: {error}"
        case _:
            return f"{UNREADABLE}{error.strerror or error}"


@contextmanager
def _open_file(path: str) -> Iterator[IO[bytes]]:
    with _raw(path) as raw:
        if path.endswith(".gz"):
            with gzip.open(raw) as stream:
                yield cast("IO[bytes]", stream)
        else:
            yield raw


def _raw(path: str) -> IO[bytes]:
    if "://" not in path:
        return Path(path).open("rb")
    from pyarrow import fs  # noqa: PLC0415 - for object stores alone

    # Hadoop's names of S3 are not Arrow's
    system, inside = fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", path))
    return cast("IO[bytes]", system.open_input_stream(inside, compression=None))
