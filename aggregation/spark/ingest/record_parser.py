"""Parser of a spool's lines and a topic's records: a row each, or the reason for its rejection.

It runs in Spark's Python workers. The codec that wrote the JSON reads it (`metrics.model.sample`).
Spark's own ``from_json`` ignores text behind the first object of a line, so of two lines torn into
one it would lose the second in silence.
"""

import re
from datetime import UTC, date, datetime
from typing import Any

import msgspec

from metrics.model.sample import SCHEMA_VERSION, Sample
from metrics.model.status import RebalanceStatus

TEXT_MAX_CHARS = 65_536
"""Limit of a malformed line's text in the quarantine."""

_KNOWN = frozenset(field.encode_name for field in msgspec.structs.fields(Sample))
_CODES = range(len(RebalanceStatus))
_LONG = range(-(2**63), 2**63)
_LONGS = ("schema", "seq", "generation", "gained", "lag")
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_sample = msgspec.json.Decoder(Sample)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode

Row = dict[str, Any]


def read_line(line: bytes) -> Row:
    """Return the columns of a record of this schema version, or of a compatible later one.

    Raises:
        ValueError: the line is no such record; the text is the reason.

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
    if sample.schema < SCHEMA_VERSION:
        raise ValueError(f"schema {sample.schema} is older than {SCHEMA_VERSION}")
    if not sample.id:
        raise ValueError("id is empty")
    for name, value in (("from", sample.from_), ("to", sample.to), ("peak", sample.peak)):
        if value is not None and value not in _CODES:
            raise ValueError(f"{name} {value} is no status code (0 to {_CODES[-1]})")
    for name in _LONGS:
        value = getattr(sample, name)
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


def row_of(line: bytes, *, file: str, offset: int, day: date) -> Row | None:
    """Return a line's row: a record's columns, or ``fault`` and ``text``; None for a blank line.

    ``day`` is the day of a row without a time of its own.
    """
    if not line.strip():
        return None
    try:
        return {"file": file, "offset": offset, **read_line(line)}
    except ValueError as error:
        text = line[: 4 * TEXT_MAX_CHARS].decode(errors="replace")[:TEXT_MAX_CHARS]
        return {"file": file, "offset": offset, "fault": str(error), "text": text, "day": day}
