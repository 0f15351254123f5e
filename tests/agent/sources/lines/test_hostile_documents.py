"""Hostile entries and lines: they hide no other one, and end nothing."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.dialects.indented_fields import join_record
from agent.sources.lines.envelopes.envelope import Unwrapper
from agent.sources.lines.fields.inspected_objects import join_inspected
from agent.sources.lines.fields.structured_text import structure
from agent.sources.lines.following.live_documents import LiveDocuments
from agent.sources.lines.whole_files.documents import find_form, find_json_end, to_lines
from agent.sources.lines.whole_files.recordings import rotation
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.signals import Signal
from tests.agent.sources.lines.test_posted_forms import EVENTS

_AT = 1_800_000_000.0
_DIGITS = "9" * 5_000
"""Python makes no number of so many."""
_HEX = "0x" + "f" * 5_000
_FIRST, _LAST = "the first message", "the last message"
_BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 8)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
"""Aliases of aliases: 8 to the power of ten texts when it is written."""


def _yaml(broken: str) -> bytes:
    time = "timestamp: '2026-11-20T14:00:00Z'"
    parts = (f"textPayload: {_FIRST}\n{time}\n", broken, f"textPayload: {_LAST}\n{time}\n")
    return "".join(f"---\n{part}" for part in parts).encode()


def _array(broken: str) -> bytes:
    objects = (json.dumps({"time": 1, "message": text}) for text in (_FIRST, _LAST))
    return f",\n{broken},\n".join(objects).join("[]").encode()


DOCUMENTS = {
    "a zone of journald that is no UTF-8": (
        f"Mon 2026-11-23 10:00:00.1 UTC [s=1]\n    MESSAGE={_FIRST}\n".encode()
        + b"Mon 2026-11-23 10:00:00.1 \xff\xfe [s=1]\n    MESSAGE=x\n"
        + f"Mon 2026-11-23 10:00:00.1 UTC [s=1]\n    MESSAGE={_LAST}\n".encode()
    ),
    "a date that is none in YAML": _yaml("timestamp: 2026-13-45\n"),
    "an offset of days in YAML": _yaml("timestamp: 2026-11-11T10:00:00+99:99\n"),
    "a number of YAML": _yaml(f"a: {_DIGITS}\n"),
    "a date as a key of YAML": _yaml("? 2026-11-11\n: b\n"),
    "a list as a key of YAML": _yaml("? [a]\n: b\n"),
    "a tag of YAML": _yaml("a: !!timestamp x\n"),
    "a truth of YAML": _yaml("a: !!bool x\n"),
    "a list of YAML within itself": _yaml("a: &a [*a]\n"),
    "aliases of YAML's aliases": _yaml(_BOMB),
    "YAML without end": _yaml("a: " + "[" * 5_000 + "\n"),
    "a broken text of YAML": _yaml("a: 'b\n"),
    "a number of JSON": _array(f'{{"message": "x", "time": {_DIGITS}}}'),
    "objects without end": _array('{"a":' * 5_000 + "1" + "}" * 5_000),
    "half of a character": _array('{"message": "\\ud800", "time": 1}'),
    "a stream of Loki's without lines": _array('{"stream": {"a": "b"}, "values": 5}'),
    "a stream of Loki's with other lines": _array('{"stream": {"a": "b"}, "values": [5, [], {}]}'),
    "a field beside lists of strings": (
        json.dumps({"a": [_FIRST, _LAST], "count": 5, "next": None, "name": "x"}).encode()
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_entry_that_is_none_hides_no_other(name: str) -> None:
    split = find_form(DOCUMENTS[name])
    assert split is not None

    lines = to_lines(split, DOCUMENTS[name])

    assert [text for text in (_FIRST, _LAST) if text.encode() in b"".join(lines)] == [_FIRST, _LAST]
    assert sum(map(len, lines)) < 4 * len(DOCUMENTS[name])


def test_number_of_a_growing_document_ends_no_search() -> None:
    whole = _array(f'{{"time": {_DIGITS}}}')

    assert find_json_end(whole + b"\n{") >= len(whole) - 1


CLIENT = "[Consumer clientId=c, groupId=g] (Re-)joining group"
LINES = {
    "half of a character in JSON": f'{{"message": "{CLIENT}", "time": 1, "user": "\\udce9"}}',
    "half of a character of Python's": f"{{'message': '{CLIENT}', 'time': 1, 'user': '\\udce9'}}",
}


@pytest.mark.parametrize("name", LINES)
def test_line_with_half_of_a_character_is_read(name: str) -> None:
    [entry] = Unwrapper("UTC").unwrap(LINES[name].encode(), _AT)

    assert entry.text == CLIENT
    assert entry.fields is not None
    assert entry.fields["user"] == "?"


@pytest.mark.parametrize(
    "line",
    [
        f"{{'message': 'x', 'pod': {_HEX}, 'time': 1}}",
        f"{{'message': '{{}}', 'arguments': [{_HEX}], 'time': 1}}",
        f"{{'@mt': '{{a}}', 'a': {_HEX}, '@t': 1}}",
        f"{{'message': 'x', 'groupId': 'g', 'err': {_HEX}}}",
        "{'message': '\\ud800', 'groupId': '\\ud800', 'err': {'a': '\\ud800'}, 'level': 'info'}",
        'x {"group": "\\ud800", "err": {"a": "\\udfff"}} y',
        "INFO x { group: '\\ud800', err: 'x' }",
        "{'message': 'x', 'values': 5, 'stream': {}}",
    ],
)
def test_any_line_becomes_text(line: str) -> None:
    for entry in Unwrapper("UTC").unwrap(line.encode(), _AT):
        found = structure(entry.text, entry.level, entry.fields)

        assert msgspec.json.encode((found, entry.text, entry.origin, entry.host, entry.pid))


def test_value_of_any_depth_is_written() -> None:
    for depth in range(sys.getrecursionlimit() - 120, sys.getrecursionlimit() + 20):
        value = '{"a":' * depth + "1" + "}" * depth

        assert structure(f"msg=x group=g err={value}", "", None) is not None
        join_record("INFO: x", [f"    group: {value}"])
        join_inspected(f"{{\n  message: 'x',\n  a: {value}\n}}\n".encode())


def test_object_behind_a_text_may_be_no_utf_8() -> None:
    found = join_inspected(b'INFO x {\n  "groupId": "g\xff"\n}\n')

    assert found == 'INFO x {"groupId":"g\ufffd"}\n'.encode()


@pytest.mark.parametrize("digits", [18, 19, 5_000])
def test_number_in_an_object_of_node_may_have_any_length(digits: int) -> None:
    text = "9" * digits

    found = join_inspected(f"{{\n  message: 'x',\n  generation: {text}\n}}\n".encode())

    assert msgspec.json.decode(found) == {
        "message": "x",
        "generation": int(text) if digits == 18 else text,
    }


def test_names_of_a_table_that_are_no_utf_8_survive_a_restart() -> None:
    rows = [f'"{at:%Y-%m-%dT%H:%M:%S.%f}Z","{text}","x"\n' for at, text in EVENTS]
    table = b'"timestamp","message","na\xefve"\n' + "".join(rows).encode()
    whole = _read(table, None)

    cut = table.index(b"\n") + 1 + len(rows[0])

    assert whole
    assert _read(table, cut) == whole


@pytest.mark.parametrize("name", ["two\nlines", 'a "quoted" one', "", 'half a "'])
def test_table_with_any_name_of_a_column_is_read(name: str) -> None:
    quoted = name.replace('"', '""')
    head = f'"timestamp","message","{quoted}"\n'
    rows = "".join(f'"{at:%Y-%m-%dT%H:%M:%S.%f}Z","{text}","x"\n' for at, text in EVENTS)

    assert _read((head + rows).encode(), None)


def _create() -> LiveDocuments:
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    return LiveDocuments(parser, "s", "UTC")


def _read(data: bytes, cut: int | None) -> list[Signal]:
    """Return a file's signals; the agent starts again after ``cut`` bytes."""
    live = _create()
    found = live.feed(data[:cut], _AT)
    if cut is not None:
        state = msgspec.json.decode(msgspec.json.encode(live.state()))
        begin = cut - live.pending
        live = _create()
        live.restore(state)
        found += live.feed(data[begin:], _AT)
    return found + live.settle() + live.flush()


def test_name_of_a_suffix_alone_is_that_of_a_log() -> None:
    assert rotation(Path("/var/log/.gz")).base == Path("/var/log/.gz")
