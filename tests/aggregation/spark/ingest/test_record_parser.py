"""Lines become records, or tell why they are none."""

import re
from datetime import UTC, date, datetime

import msgspec
import pytest

from aggregation.spark.ingest.record_parser import (
    EXTRA_MAX_BYTES,
    TEXT_MAX_CHARS,
    arrival,
    read_line,
    row_of,
)
from aggregation.spark.tables.schema import RECORD
from metrics.model.names import NAME_MAX_CHARS
from metrics.model.record_bounds import clip_record
from metrics.model.sample import decode, encode
from tests.aggregation.spark.histories import START_AT, Client

GOOD = encode(Client(group="g", client_id="c").move(START_AT + 0.000001, 2, "because"))


def changed(**fields: object) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(GOOD) | fields)


def test_record_has_every_column_of_the_table() -> None:
    row = read_line(GOOD)
    assert set(RECORD.fieldNames()) == set(row)
    assert datetime(2025, 11, 24, 0, 0, 0, 1, UTC) == row["ts"]
    assert date(2025, 11, 24) == row["day"]
    assert (row["from"], row["to"], row["extra"]) == (0, 2, None)


def test_unknown_fields_are_kept_as_they_were_written() -> None:
    line = GOOD.rstrip()[:-1] + b',"cost":1.50,"causes":[{"a":"\xc3\xa4"},null]}'
    assert read_line(line)["extra"] == '{"cost":1.50,"causes":[{"a":"ä"},null]}'


def test_long_texts_are_clipped_as_a_hub_clips_them() -> None:
    """A packed spool of 8 MB, with a reason of 2 MB in each record, took 5 GB and ended ingest."""
    long = {name: name * 10_000 for name in ("group", "client_id", "reason", "host", "episode")}
    row = read_line(changed(**long))
    wanted = clip_record(decode(changed(**long)))[0]

    assert {name: row[name] for name in long} == {name: getattr(wanted, name) for name in long}
    assert max(len(row[name]) for name in long) <= NAME_MAX_CHARS


def test_unknown_fields_without_end_are_a_fault() -> None:
    with pytest.raises(ValueError, match="unknown fields are longer than 65,536 bytes"):
        read_line(changed(notes="x" * EXTRA_MAX_BYTES))


def test_other_offsets_and_fractions_are_the_same_instant() -> None:
    row = read_line(changed(ts="2025-11-24T01:30:00.5+02:00"))
    assert datetime(2025, 11, 23, 23, 30, 0, 500_000, UTC) == row["ts"]
    assert date(2025, 11, 23) == row["day"]
    joined = read_line(changed(joined_ts="2025-11-24T01:30:00.5+02:00"))
    assert joined["joined_ts"] == "2025-11-23T23:30:00.500000Z"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "truncated"),
        (b"\x00\x00\x00", "invalid character"),
        (b"[]", "Expected `object`"),
        (GOOD.rstrip() + GOOD, "trailing characters"),
        (b'{"a":"\xff"}', "not UTF-8 at byte 6"),
        (b'{"a":' + b"[" * 200_000, "nested too deeply"),
        (b'{"id":"x"}', "missing required field"),
        (changed(to="2"), "Expected `int | null`"),
        (changed(to=14), "to 14 is no status code (0 to 13)"),
        (changed(peak=-1), "peak -1 is no status code"),
        (changed(kind="guess"), "Invalid enum value 'guess'"),
        (changed(schema=0), "schema 0 is older than 1"),
        (changed(schema=2**63), "9223372036854775807 - at `$.schema`"),
        (changed(id=""), "id is empty"),
        (changed(seq=2**63), "9223372036854775807 - at `$.seq`"),
        (changed(lag=2**63), "9223372036854775807 - at `$.lag`"),
        (changed(ts="2025-11-24"), "no RFC 3339 time"),
        (changed(ts="2025-11-24T01:30:00"), "no RFC 3339 time"),
        (changed(ts="2025-13-24T01:30:00Z"), "is no time"),
        (changed(ts="0001-01-01T00:00:00+01:00"), "is no time"),
        (changed(ts="1582-10-10T00:00:00Z"), "before 1970"),
        (changed(joined_ts="yesterday"), "'yesterday' is no time"),
        (changed(joined_ts="2025-W48-1T01:30:00Z"), "is no RFC 3339 time"),
    ],
)
def test_what_is_no_record_says_why(line: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        read_line(line)


def test_later_schema_is_read_as_far_as_it_is_known() -> None:
    row = read_line(changed(schema=2, cost=7))
    assert (row["schema"], row["reason"], row["extra"]) == (2, "because", '{"cost":7}')


def test_blank_line_is_no_row_and_malformed_one_is_kept() -> None:
    day = date(2026, 1, 2)
    rows = [
        row_of(line, file="a", offset=n, day=day)
        for n, line in enumerate((GOOD, b" \r", b"\xff" + b"x" * TEXT_MAX_CHARS))
    ]
    good, blank, bad = rows
    assert blank is None
    assert good == read_line(GOOD) | {"file": "a", "offset": 0}
    assert bad == {
        "file": "a",
        "offset": 2,
        "fault": "not UTF-8 at byte 0",
        "text": "�" + "x" * (TEXT_MAX_CHARS - 1),
        "day": day,
    }


@pytest.mark.parametrize(
    ("ts", "fault"),
    [
        ("2026-01-03T23:59:59Z", None),
        (
            "2026-01-04T00:00:00Z",
            "future: 2026-01-04 is more than a day after the arrival on 2026-01-02",
        ),
        (
            "2038-01-19T03:14:07Z",
            "future: 2038-01-19 is more than a day after the arrival on 2026-01-02",
        ),
    ],
)
def test_record_from_the_future_of_its_arrival_is_a_fault(ts: str, fault: str | None) -> None:
    line = changed(ts=ts)
    row = row_of(line, file="a", offset=0, day=date(2026, 1, 2))
    assert row is not None
    assert row.get("fault") == fault
    if fault is not None:
        assert (row["text"], row["day"]) == (line.decode(), date(2026, 1, 2))


@pytest.mark.parametrize(
    ("changed_on", "arrived_on"),
    [
        (date(2026, 1, 2), date(2026, 1, 2)),
        (date(1970, 1, 1), date(2026, 1, 5)),
        (date(2038, 1, 19), date(2026, 1, 5)),
    ],
    ids=["past", "no time", "wrong clock"],
)
def test_arrival_is_the_day_of_the_change_unless_that_cannot_be(
    changed_on: date, arrived_on: date
) -> None:
    assert arrival(changed_on, date(2026, 1, 5)) == arrived_on
