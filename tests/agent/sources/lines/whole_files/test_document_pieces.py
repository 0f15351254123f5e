"""Long documents and newest-first logs: the same lines as of short ones, in bounded memory."""

import csv
import io
import json
import random
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise

import pytest

from agent.sources.lines.envelopes import tied_order
from agent.sources.lines.whole_files import document_pieces, exports, ordered_pieces
from agent.sources.lines.whole_files.exports import normalise
from agent.sources.lines.whole_files.short_lines import shorten_lines

ARRIVAL_AT = 1795243000.0
COUNT = 600
_SMALL = 4 << 10
_RANDOM = random.Random(7)


def _times(*, newest_first: bool) -> list[str]:
    seconds = range(COUNT, 0, -1) if newest_first else range(COUNT)
    return [f"2026-11-21T06:{each // 60:02}:{each % 60:02}.123Z" for each in seconds]


def _entries(*, newest_first: bool) -> list[dict[str, str]]:
    return [
        {"timestamp": at, "host": f"pod-{number % 3}", "message": f'line {number}, "ü"\nat x'}
        for number, at in enumerate(_times(newest_first=newest_first))
    ]


def _csv(entries: list[dict[str, str]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, entries[0])
    writer.writeheader()
    writer.writerows(entries)
    return file.getvalue()


def _yaml(entries: list[dict[str, str]]) -> str:
    return "".join(
        f"---\ntextPayload: {json.dumps(each['message'])}\ntimestamp: '{each['timestamp']}'\n"
        for each in entries
    )


def _journal(entries: list[dict[str, str]]) -> str:
    micros = (1795243000000000 + number for number in range(len(entries)))
    return "".join(
        f"__CURSOR=s\n__REALTIME_TIMESTAMP={at}\nMESSAGE={each['message'][:8]}\n\n"
        for at, each in zip(micros, entries, strict=True)
    )


def _splunk(entries: list[dict[str, str]]) -> str:
    rows = (
        f"<result><field k='_time'><value><text>{each['timestamp']}</text></value></field>"
        f"<field k='_raw'><v>{each['message']}</v></field></result>\n"
        for each in entries
    )
    return "".join(("<?xml version='1.0'?>\n<results preview='0'>\n", *rows, "</results>\n"))


def _events(entries: list[dict[str, str]]) -> str:
    event = "Event[{}]\n  Log Name: Application\n  Date: {}\n  Computer: h\n  Description:\n{}\n\n"
    return "".join(event.format(0, each["timestamp"], each["message"]) for each in entries)


FORMS = {
    "array": lambda entries: json.dumps(entries, ensure_ascii=False),
    "indented array": lambda entries: json.dumps(entries, indent=2),
    "objects": lambda entries: "".join(f"{json.dumps(each, indent=1)}\n" for each in entries),
    "events of CloudWatch": lambda entries: json.dumps(
        {"logGroup": "g", "events": entries, "nextToken": None}, indent=4
    ),
    "hits of Elasticsearch": lambda entries: json.dumps(
        {
            "took": 1,
            "_shards": {"total": 1},
            "hits": {"total": {"value": 2}, "hits": [{"_source": each} for each in entries]},
        },
        indent=2,
    ),
    "events in one line": lambda entries: json.dumps({"logGroup": "g", "events": entries}),
    "hits in one line": lambda entries: json.dumps(
        {"took": 1, "hits": {"total": {"value": 2}, "hits": [{"_source": e} for e in entries]}}
    ),
    "table": _csv,
    "YAML": _yaml,
    "journald": _journal,
    "Splunk": _splunk,
    "Windows": _events,
}


def _blocks(data: bytes, size: int = 1 << 10) -> Iterator[tuple[bytes, float]]:
    return ((data[at : at + size], ARRIVAL_AT) for at in range(0, len(data), size))


def _read(data: bytes) -> list[bytes]:
    found = b"".join(piece for piece, _ in normalise(_blocks(data), "UTC"))
    return found.splitlines(keepends=True)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_long_document_has_the_lines_of_a_short_one(
    form: str, monkeypatch: pytest.MonkeyPatch, *, newest_first: bool
) -> None:
    data = FORMS[form](_entries(newest_first=newest_first)).encode()
    whole = _read(data)

    monkeypatch.setattr(document_pieces, "WHOLE_MAX_BYTES", _SMALL)
    monkeypatch.setattr(ordered_pieces, "PIECE_BYTES", _SMALL)
    monkeypatch.setattr(ordered_pieces, "BLOCK_BYTES", _SMALL)

    assert len(data) > 4 * _SMALL
    assert _read(data) == whole
    assert len(whole) == COUNT


@pytest.mark.parametrize("is_backward_within", [False, True])
def test_long_newest_first_log_is_reversed(
    monkeypatch: pytest.MonkeyPatch, *, is_backward_within: bool
) -> None:
    """Entries of one second keep together, wherever a piece ends."""
    words = ("(Re-)joining group", "Successfully joined group", "Successfully synced group")
    lines = [
        f"2026-11-21 06:{at // 60:02}:{at % 60:02} INFO [Consumer clientId=c, groupId=g] {word}"
        for at in range(COUNT)
        for word in words
    ]
    shown = lines[::-1]
    if not is_backward_within:
        shown = [line for at in range(COUNT - 1, -1, -1) for line in lines[3 * at : 3 * at + 3]]
    monkeypatch.setattr(ordered_pieces, "PIECE_BYTES", _SMALL)

    found = _read("".join(f"{line}\n" for line in shown).encode())

    assert found == [f"{line}\n".encode() for line in lines]


def _peak_of(blocks: Iterator[tuple[bytes, float]]) -> int:
    tracemalloc.start()
    try:
        for _ in normalise(blocks, "UTC"):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _repeat(*pieces: bytes) -> Iterator[tuple[bytes, float]]:
    return ((piece, ARRIVAL_AT) for piece in pieces)


_ROW = b'2026-11-21T06:33:44.000Z,"[Consumer clientId=c, groupId=g] (Re-)joining group"\n' * 10
_BACKWARD = [
    f"2026-11-21 {23 - at // 3600:02}:{59 - at // 60 % 60:02}:{59 - at % 60:02} INFO {'x' * 900}\n"
    for at in range(1_000)
]
_ENDLESS = {
    "table": lambda: _repeat(b"timestamp,message\n", *[_ROW] * 300),
    "table of long names": lambda: _repeat(
        b"timestamp,message,%b\n" % (b"n" * 10_000), *[b"1,2,3\n" * 50] * 20
    ),
    "table with an open cell": lambda: _repeat(
        b"timestamp,message\n", _ROW, b'2026-11-21T06:33:44.000Z,"', *[b"a" * 1_000] * 1_000
    ),
    "array of an object without end": lambda: _repeat(
        b'[{"a":1},{"timestamp":1795243000,"message":"', *[b"a" * 1_000] * 1_000
    ),
    "printed table": lambda: _repeat(
        b" time | message \n------+------\n",
        *[b" 2026-11-21 06:33:44 | %b \n" % (b"x" * 900)] * 1_000,
    ),
    "newest first": lambda: _repeat(*(line.encode() for line in _BACKWARD)),
    "newest first with an entry without end": lambda: _repeat(
        *(line.encode() for line in _BACKWARD[:50]), *[b"\tat %b\n" % (b"x" * 900)] * 1_000
    ),
}


@pytest.mark.parametrize("form", _ENDLESS)
def test_memory_does_not_grow_with_a_document(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a MB long, but the first: that has 250 KB, and takes 2 MB if it is read at once."""
    monkeypatch.setattr(document_pieces, "WHOLE_MAX_BYTES", 4 * _SMALL)
    monkeypatch.setattr(document_pieces, "_MORE_BYTES", _SMALL)
    monkeypatch.setattr(ordered_pieces, "PIECE_BYTES", 4 * _SMALL)
    monkeypatch.setattr(ordered_pieces, "BLOCK_BYTES", _SMALL)
    monkeypatch.setattr(exports, "_HEAD_BYTES", 4 * _SMALL)
    monkeypatch.setattr(tied_order, "_ENTRY_BYTES", 4 * _SMALL)
    for _ in normalise(_repeat(_ROW), "UTC"):  # modules and caches
        pass

    assert _peak_of(_ENDLESS[form]()) < 700_000


def test_entry_that_is_too_long_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_pieces, "WHOLE_MAX_BYTES", _SMALL)
    notes: list[str] = []
    data = b'[{"a":1},{"message":"%b' % (b"a" * 9_000)

    for _ in normalise(_blocks(data), "UTC", notes.append):
        pass

    assert notes == [document_pieces.READ_BY_LINES]


def test_parts_of_a_very_long_newest_first_log_are_reversed_with_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ordered_pieces, "PIECE_BYTES", _SMALL)
    monkeypatch.setattr(ordered_pieces, "_PACKED_MAX_BYTES", 100)
    lines = [f"{at[:19]} INFO {_RANDOM.random()}\n" for at in _times(newest_first=True)]
    notes: list[str] = []

    blocks = normalise(_blocks("".join(lines).encode()), "UTC", notes.append)
    found = b"".join(data for data, _ in blocks).decode().splitlines(keepends=True)

    assert sorted(found) == sorted(lines)
    assert sum(here > behind for here, behind in pairwise(found)) < len(lines) / 10
    assert set(notes) == {ordered_pieces.TOO_LONG}


@pytest.mark.parametrize("size", [1, 1_000, 1 << 20])
def test_longer_lines_are_clipped_and_the_others_are_whole(size: int) -> None:
    limit = 1 << 20
    first, last = b"a" * (3 << 20), b"b" * 1_000
    data = first + b"\n" + last + b"\n" + b"c"
    pieces = _blocks(data, size) if size > 1 else _blocks(data, 1 << 22)

    found = b"".join(piece for piece, _ in shorten_lines(pieces)).split(b"\n")

    assert [found[1], found[2]] == [last, b"c"]
    assert limit < len(found[0]) <= len(first)
