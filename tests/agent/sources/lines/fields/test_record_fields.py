"""Records over several lines in a log that is followed: their messages and their times."""

import json
from collections.abc import Callable
from datetime import datetime
from xml.sax.saxutils import escape

import pytest

from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.fields.record_fields import find_head, read_message
from agent.sources.lines.parsing.line_parser import LineParser
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.signals import Signal
from tests.agent.sources.lines.fields.test_record_dumps import collector
from tests.agent.sources.lines.test_posted_forms import BEGIN, EVENTS, iso, ms

ARRIVAL_AT = BEGIN.timestamp() + 3_600
Form = Callable[[datetime, str], str]


def instant(at: datetime) -> dict[str, int]:
    return {"epochSecond": ms(at) // 1000, "nanoOfSecond": 123_000_000}


def pretty(entry: dict[str, object]) -> str:
    return json.dumps(entry, indent=2).replace('": ', '" : ')


FORMS: dict[str, Form] = {
    "log4j2's JsonLayout": lambda at, text: pretty(
        {"instant": instant(at), "thread": "main", "message": text, "threadId": 1}
    ),
    "log4j2's JsonLayout, complete": lambda at, text: (
        ", " + pretty({"timeMillis": ms(at), "loggerName": "x", "message": text})
    ),
    "an object around the entry": lambda at, text: pretty(
        {"@timestamp": iso(at), "log": {"logger": "x", "message": text}}
    ),
    "log4j2's YamlLayout": lambda at, text: (
        f"---\ninstant:\n  epochSecond: {ms(at) // 1000}\n  nanoOfSecond: 123000000\n"
        f'thread: "main"\nmessage: {json.dumps(text)}\nendOfBatch: false\n'
    ),
    "log4j2's XmlLayout": lambda at, text: (
        f'<Event xmlns="http://logging.apache.org/log4j/2.0/events" level="INFO">\n'
        f'  <Instant epochSecond="{ms(at) // 1000}" nanoOfSecond="123000000"/>\n'
        f"  <Message>{escape(text, {chr(39): '&apos;'})}</Message>\n</Event>"
    ),
    "log4j 1's XMLLayout": lambda at, text: (
        f'<log4j:event logger="o.a.k.X" timestamp="{ms(at)}" level="INFO" thread="main">\n'
        f"<log4j:message><![CDATA[{text}]]></log4j:message>\n</log4j:event>\n"
    ),
    "java.util.logging's FileHandler": lambda at, text: (
        f"<record>\n  <date>{iso(at)}</date>\n  <millis>{ms(at)}</millis>\n"
        f"  <level>INFO</level>\n  <message>{text}</message>\n</record>"
    ),
    "OpenTelemetry's debug exporter": collector,
}


def parser() -> LineParser:
    return create_parser(choose_dialects("auto"), ClientInterpreter(stream="app.log"), "UTC")


def signals(data: bytes, size: int) -> list[tuple[str, float, str | None]]:
    reader, found = parser(), list[Signal]()
    for start in range(0, len(data), size):
        found += reader.feed(data[start : start + size], ARRIVAL_AT)
    found += reader.flush()
    return [(signal.kind.value, round(signal.at, 3), signal.member.member_id) for signal in found]


@pytest.mark.parametrize("size", [1, 100, 1 << 20])
@pytest.mark.parametrize("form", FORMS)
def test_record_that_arrives_line_by_line_has_its_own_time(form: str, size: int) -> None:
    plain = "\n".join(f"{iso(at)} INFO {text}" for at, text in EVENTS)
    records = "\n".join(FORMS[form](at, text) for at, text in EVENTS)

    assert signals(records.encode(), size) == signals(plain.encode(), size)


@pytest.mark.parametrize(
    "text",
    ["plain", '"other": "x",', '"message": 7,', '"message": "cut off', "<p>x</p>", "Body: Map"],
)
def test_line_without_a_message_is_no_field(text: str) -> None:
    assert read_message(text) is None


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("plain", b"{\n"),
        ('"message": "x",', b'"thread": "main",\n'),
        ('"message": "x",', b'{\n"thread": "main\n'),
        ("<message>x</message>", b"<level>INFO</level>\n"),
        ("message: x", b"thread: main\n"),
        ("message: x", b"---\n\t- [broken\n"),
        ("message: x", b"---\n- a list\n"),
        ("Body: Str(x)", b"Flags: 0\n"),
    ],
)
def test_record_whose_begin_is_not_there_has_no_head(text: str, before: bytes) -> None:
    assert find_head(before, text) is None


def test_a_number_without_end_in_xml_is_no_time() -> None:
    before = f'<Event>\n<Instant epochSecond="1" nanoOfSecond="{"9" * 5_000}"/>\n'.encode()

    head = find_head(before, "<Message>x</Message>")

    assert head is not None
    assert head["timestamp"] is None


@pytest.mark.parametrize(
    "field",
    [
        "a: 2026-99-99",
        "a: !!int x",
        "a: !!timestamp x",
        "a: " + "9" * 5_000,
        "a: " + "[" * 4_000,
        "a: &a [*a]",
        "? [a]\n: b",
        "a: '",
    ],
)
def test_any_yaml_before_a_message_is_read_or_is_none(field: str) -> None:
    """One line with a date that is none ended the source."""
    before = f"---\ntimeMillis: 1795600000000\n{field}\n".encode()

    head = find_head(before, 'message: "x"')

    assert head is None or head["timeMillis"] == 1_795_600_000_000
