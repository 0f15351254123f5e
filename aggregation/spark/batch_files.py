"""The spool files of one batch, looked at before Spark reads them.

Spark passes over files that it cannot open without telling which. The names of a batch stand in the
checkpoint of the file source, in ``sources/0/<batch>``, or in ``<batch>.compact`` for each tenth,
which repeats the older ones: a line ``v1``, then one JSON object per file (Spark 4.1,
FileStreamSourceLog).
"""

import gzip
import zlib
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from aggregation.spark.errors import SparkJobError

_CHUNK_BYTES = 1 << 20


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    batch_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFiles:
    """What became of the files. Broken ones come with the reason and the day of last change."""

    readable: int
    missing: tuple[Path, ...]
    broken: tuple[tuple[Path, str, date], ...]


def inspect(checkpoint: Path, batch: int) -> BatchFiles:
    """Look at each file of the batch.

    Raises:
        SparkJobError: a file is there but must not be read.

    """
    missing, broken, readable = [], [], 0
    for path in _names(checkpoint, batch):
        try:
            day = datetime.fromtimestamp(path.stat().st_mtime, UTC).date()
            fault = _fault(path)
        except FileNotFoundError:
            missing.append(path)
            continue
        except OSError as error:
            raise SparkJobError(f"cannot read {str(path)!r}: {error.strerror}") from None
        readable += 1
        if fault is not None:
            broken.append((path, fault, day))
    return BatchFiles(readable=readable, missing=tuple(missing), broken=tuple(broken))


def _names(checkpoint: Path, batch: int) -> list[Path]:
    log = checkpoint / "sources" / "0"
    whole = log / f"{batch}.compact"
    text = (whole if whole.exists() else log / str(batch)).read_text()
    entries = [msgspec.json.decode(line, type=_Entry) for line in text.splitlines()[1:] if line]
    return [Path(unquote(urlsplit(e.path).path)) for e in entries if e.batch_id == batch]


def _fault(path: Path) -> str | None:
    """Say what is wrong with the file's compression, or None."""
    if path.suffix != ".gz":
        path.open("rb").close()
        return None
    try:
        with gzip.open(path) as stream:
            while stream.read(_CHUNK_BYTES):
                pass
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        return f"the compressed file is broken: {error}"
    return None
