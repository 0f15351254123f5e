"""Parser of a spool's lines and a topic's records: a row each, or the reason for its rejection.

It runs in Spark's Python workers. The codec that wrote the JSON reads it (`metrics.model.sample`).
Spark's own ``from_json`` ignores text after the first object of a line. If two records are in one
line by damage, it would lose the second one without an error.
"""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

from aggregation.spark.tables.schema import FUTURE
from metrics.model.record_bounds import clip_record
from metrics.model.sample import RECORD_MAX_BYTES, RFC_3339, Sample, check_values, normalize_time

TEXT_MAX_CHARS = 65_536
"""Limit of a malformed line's text in the quarantine."""
EXTRA_MAX_BYTES = 65_536
"""Limit of a record's unknown fields together."""

_KNOWN = frozenset(field.encode_name for field in msgspec.structs.fields(Sample))
_sample = msgspec.json.Decoder(Sample)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode

_CLOCK_SLACK = timedelta(days=1)
"""A record may be this much later than its arrival: clocks of hosts and file systems differ."""
_NO_TIME = date(2000, 1, 1)
"""An earlier time of a file or a topic's record is a missing one: archives and tools write 0."""

Row = dict[str, Any]


def read_line(line: bytes) -> Row:
    """Return the columns of a record of this schema version, or of a compatible later one.

    Raises:
        ValueError: the line is no such record; the text is the reason.

    """
    if not line.strip():
        raise ValueError("empty")
    if len(line) > RECORD_MAX_BYTES:
        raise ValueError(f"longer than {RECORD_MAX_BYTES:,} bytes")
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
    check_values(sample)
    row: Row = msgspec.to_builtins(clip_record(sample)[0])  # as a hub and `explain` clip it
    row["ts"] = _time(sample.ts)
    row["day"] = row["ts"].date()
    if sample.joined_ts is not None:
        row["joined_ts"] = normalize_time(sample.joined_ts)  # as a hub and `explain` read it
    extra = {name: raw for name, raw in fields.items() if name not in _KNOWN}
    row["extra"] = _encode_extra(extra) if extra else None
    return row


def _encode_extra(extra: dict[str, msgspec.Raw]) -> str:
    text = _encode(extra)
    if len(text) > EXTRA_MAX_BYTES:
        raise ValueError(f"its unknown fields are longer than {EXTRA_MAX_BYTES:,} bytes")
    return text.decode()


def _time(ts: str) -> datetime:
    if RFC_3339.fullmatch(ts) is None:
        raise ValueError(f"ts {ts[:40]!r} is no RFC 3339 time")
    try:
        at = datetime.fromisoformat(ts.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"ts {ts[:40]!r} is no time") from None
    if at.year < 1970:  # Parquet readers disagree on dates before the Gregorian calendar
        raise ValueError(f"ts {ts[:40]!r} is before 1970")
    return at


def _check_clock(day: date, arrived_on: date) -> None:
    if day > arrived_on + _CLOCK_SLACK:
        raise ValueError(f"{FUTURE}{day} is more than a day after the arrival on {arrived_on}")


def arrival(changed_on: date, today: date) -> date:
    """Return the day of arrival: the day of the last change, unless it cannot be true."""
    return today if changed_on < _NO_TIME else min(changed_on, today)


def row_of(line: bytes, *, file: str, offset: int, day: date) -> Row | None:
    """Return a line's row: a record's columns, or ``fault`` and ``text``; None for a blank line.

    ``day`` is the day of arrival. It bounds the record's time: one wrong clock must not stretch all
    reports. It is also the day of a line without a time.
    """
    return read_row(line, file=file, offset=offset, day=day) if line.strip() else None


def read_row(line: bytes, *, file: str, offset: int, day: date) -> Row:
    """Return the row of a line or message as `row_of` does; a blank one is a fault, too."""
    try:
        row = read_line(line)
        _check_clock(row["day"], day)
    except ValueError as error:
        text = line[: 4 * TEXT_MAX_CHARS].decode(errors="replace")[:TEXT_MAX_CHARS]
        return {"file": file, "offset": offset, "fault": str(error), "text": text, "day": day}
    return {"file": file, "offset": offset, **row}
