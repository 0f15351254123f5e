"""One line of a spool file becomes a record, or a reason why it is none.

Runs in Spark's Python workers. JSON is read by the codec that wrote it (`metrics.sample`): Spark's
own ``from_json`` ignores what follows the first object of a line, so two lines torn into one would
lose the second in silence.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from metrics.sample import SCHEMA_VERSION, Sample
from metrics.status import RebalanceStatus

TEXT_MAX_CHARS = 65_536
"""How much of a malformed line the quarantine keeps."""

_KNOWN = frozenset(field.encode_name for field in msgspec.structs.fields(Sample))
_CODES = range(len(RebalanceStatus))
_LONG = range(-(2**63), 2**63)
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_sample = msgspec.json.Decoder(Sample)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode

Row = dict[str, Any]


def read_line(line: bytes) -> Row:
    """Return the columns of a record.

    Raises:
        ValueError: the line is no record of this schema; the text says why.

    """
    try:
        line.decode()
        fields = _fields.decode(line)
        sample = _sample.decode(line)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    _check(sample)
    row: Row = msgspec.to_builtins(sample)
    row["ts"] = _time(sample.ts)
    row["day"] = row["ts"].date()
    extra = {name: raw for name, raw in fields.items() if name not in _KNOWN}
    row["extra"] = _encode(extra).decode() if extra else None
    return row


def _check(sample: Sample) -> None:
    if sample.schema != SCHEMA_VERSION:
        raise ValueError(f"schema {sample.schema} is not {SCHEMA_VERSION}")
    if not sample.id:
        raise ValueError("id is empty")
    for name, value in (("from", sample.from_), ("to", sample.to), ("peak", sample.peak)):
        if value is not None and value not in _CODES:
            raise ValueError(f"{name} {value} is no status code (0 to {_CODES[-1]})")
    for name, value in (("seq", sample.seq), ("generation", sample.generation)):
        if value is not None and value not in _LONG:
            raise ValueError(f"{name} is too large")


def _time(ts: str) -> datetime:
    if _RFC_3339.fullmatch(ts) is None:
        raise ValueError(f"ts {ts[:40]!r} is no RFC 3339 time")
    try:
        at = datetime.fromisoformat(ts.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"ts {ts[:40]!r} is no time") from None
    if at.year < 1970:  # Parquet readers disagree on dates before the Gregorian calendar
        raise ValueError(f"ts {ts[:40]!r} is before 1970")
    return at


def read_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Turn lines (``value`` as bytes, ``file``, ``changed_on``) into rows.

    Blank lines are skipped. A record has its own columns, a malformed line ``fault``, ``text`` and
    the file's day; ``file`` comes as Spark writes it, with escapes as in a URL.
    """
    rows = []
    for line, file, changed_on in zip(*(column.to_pylist() for column in batch), strict=True):
        if line.strip():
            rows.append({"file": unquote(file), **_row(line, changed_on)})
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def _row(line: bytes, changed_on: date) -> Row:
    try:
        return read_line(line)
    except ValueError as error:
        text = line[: 4 * TEXT_MAX_CHARS].decode(errors="replace")[:TEXT_MAX_CHARS]
        return {"fault": str(error), "text": text, "day": changed_on}


def read_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """`read_batch` over a partition, as ``mapInArrow`` wants it."""
    for batch in batches:
        yield read_batch(batch, schema)
