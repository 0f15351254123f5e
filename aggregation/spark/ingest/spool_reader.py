"""Reader of spool files, in Spark's Python workers.

Links are never followed: an ingest may have the right to read files that the writer of a spool may
not read.
"""

import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from aggregation.spark.ingest.record_parser import TEXT_MAX_CHARS, Row, row_of
from metrics.model.sample import RECORD_MAX_BYTES

_CHUNK_BYTES = 1 << 20
_ROWS = 10_000
_TEXT_CHARS = 16 << 20
"""Limit of the texts in a batch of rows, malformed lines included."""

_FAULTS = 10_000
"""Limit of the rows of a file's malformed lines; one more row stands for the others."""

REMOVED = "was removed from the spool before it was read"
LINKED = "is a symbolic link or behind one; links are not followed"
SPECIAL = "is no regular file"
UNREADABLE = "cannot be read: "
"""Prefix of the fault of a file that exists: the operator must act, and the batch must fail."""


def read_files(
    files: Iterator[pa.RecordBatch], schema: pa.Schema, root: str
) -> Iterator[pa.RecordBatch]:
    """Read the files of a partition, for ``mapInArrow``."""
    rows = (
        row
        for batch in files
        for path, day in zip(*(column.to_pylist() for column in batch), strict=True)
        for row in _limit_faults(read_file(path, day, root))
    )
    while some := _take(rows):
        yield pa.RecordBatch.from_pylist(some, schema=schema)


def _limit_faults(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield a file's rows, of which few are malformed lines: it may hold a billion of them."""
    faults, more = 0, None
    for row in rows:
        if "fault" in row and "offset" in row:
            faults += 1
            if faults > _FAULTS:
                more = more or {**row, "lines": 0}
                more["lines"] += 1
                continue
        yield row
    if more is not None:
        more["fault"] = f"one of {more['lines']:,} more lines that are no records: {more['fault']}"
        yield more


def _take(rows: Iterator[Row]) -> list[Row]:
    """Return the next rows: as many as a batch may hold."""
    taken, chars = list[Row](), 0
    for row in islice(rows, _ROWS):
        taken.append(row)
        chars += sum(len(text) for text in row.values() if isinstance(text, str))
        if chars >= _TEXT_CHARS:
            break
    return taken


def read_file(file: str, day: date, root: str) -> Iterator[Row]:
    """Yield the rows of a file, then a row without ``offset`` if the file itself is broken.

    Offsets count uncompressed bytes. A file that a link below ``root`` leads to is not read.
    """
    offset, cut, tail = 0, 0, b""
    try:
        with _open_file(file, root) as stream:
            while chunk := stream.read1(_CHUNK_BYTES):  # `read` loses what it has where it fails
                *lines, tail = (tail + chunk).split(b"\n")
                for line in lines:
                    row = row_of(line, file=file, offset=offset, day=day)
                    if row is not None:
                        yield row
                    offset += len(line) + cut + 1
                    cut = 0
                if len(tail) > RECORD_MAX_BYTES + 1:  # its begin shows that it is too long
                    cut += len(tail) - RECORD_MAX_BYTES - 1
                    tail = tail[: RECORD_MAX_BYTES + 1]
    except _RefusedFileError as error:
        yield {"file": file, "fault": str(error), "text": None, "day": day}
        return
    except (OSError, EOFError, zlib.error) as error:
        text = tail[:TEXT_MAX_CHARS].decode(errors="replace") or None
        yield {"file": file, "fault": _fault(error), "text": text, "day": day}
        return
    last = row_of(tail, file=file, offset=offset, day=day)
    if last is not None:
        yield last


class _RefusedFileError(Exception):
    """A file that the ingest does not open."""


def _fault(error: OSError | EOFError | zlib.error) -> str:
    match error:
        case FileNotFoundError():
            return REMOVED
        case gzip.BadGzipFile() | EOFError() | zlib.error():
            return f"the compressed file is broken: {error}"
        case _:
            return f"{UNREADABLE}{error.strerror or error}"


@contextmanager
def _open_file(path: str, root: str) -> Iterator[BufferedReader]:
    with _raw(path, root) as raw:
        if path.endswith(".gz"):
            with gzip.open(raw) as stream:
                yield cast("BufferedReader", stream)
        else:
            yield raw


def _raw(path: str, root: str) -> BufferedReader:
    if "://" not in path:
        return _open_local(path, root)
    system, inside = file_system(path)
    return cast("BufferedReader", system.open_input_stream(inside, compression=None))


def _open_local(path: str, root: str) -> BufferedReader:
    """Open a regular file that no link below the root leads to, and never wait for a pipe."""
    if os.path.realpath(path) != str(Path(os.path.realpath(root), os.path.relpath(path, root))):
        raise _RefusedFileError(LINKED)
    stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise _RefusedFileError(SPECIAL)
    return stream


def file_system(url: str) -> tuple[Any, str]:
    """Return Arrow's file system of a URL and the path in it; Hadoop's names of S3 differ."""
    from pyarrow import fs  # noqa: PLC0415 - for object stores alone

    system, inside = fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", url))
    return system, inside
