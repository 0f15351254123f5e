"""Fields of records that are printed over several lines, one field a line, as they arrive.

Theory of operation. log4j2's JSON and YAML layouts, the XML of java.util.logging and log4j, and the
debug exporter of OpenTelemetry's collector print the time of a record some lines before its
message. A followed file cannot be read record by record, as its last record is not complete yet.
So a line that is the message of such a record is read alone, and its time is looked for between it
and the begin of its record.
"""

import re
from html import unescape

import msgspec

from agent.sources.lines.fields.decoding import Json, decode
from agent.sources.lines.fields.entry_keys import MESSAGES
from agent.sources.lines.fields.record_dumps import find_collector_time, split_xml
from agent.sources.lines.fields.yaml_records import read_yaml_record

_MAX_BYTES = 8_192
"""Longest part of a record before its message."""
_JSON_BEGIN = re.compile(rb"^[\[,\s]{0,64}\{[ \t\r]*$", re.MULTILINE)
_XML_BEGIN = re.compile(rb"^[ \t]*<(record|(?:log4j:)?[Ee]vent)\b", re.MULTILINE)
_YAML_BEGIN = re.compile(rb"^---[ \t\r]*$", re.MULTILINE)
_COLLECTOR_BEGIN = re.compile(rb"^LogRecord #\d+[ \t\r]*$", re.MULTILINE)
_XML_MESSAGE = re.compile(
    r"\s*<(?:log4j:)?[Mm]essage>(?:<!\[CDATA\[(.*?)(?:\]\]>|$)|(.*?)(?:</(?:log4j:)?[Mm]essage>|$))"
)
_YAML_MESSAGE = re.compile(r"(?:formattedM|m)essage: (.+)")
_COLLECTOR_MESSAGE = re.compile(r"Body: Str\((.*)\)\s*$")
_JSON_FIELD = re.compile(r'\s*"([\w@.]{1,64})"\s{0,8}:\s')
_DEPTH = 3
"""Objects around the message within one record."""


def read_message(text: str) -> str | None:
    """Return the message that a line holds as one field of a record; None for any other line."""
    if (found := _JSON_FIELD.match(text)) is not None:
        if found[1] not in MESSAGES:
            return None
        inner = decode(f"{{{text.strip().rstrip(',')}}}")
        message = None if inner is None else inner[found[1]]
        return message if isinstance(message, str) else None
    if (found := _XML_MESSAGE.match(text)) is not None:
        return unescape(found[2]) if found[1] is None else found[1]
    if (found := _YAML_MESSAGE.match(text)) is not None:
        return _unquote(found[1].strip())
    found = _COLLECTOR_MESSAGE.match(text)
    return None if found is None else found[1]


def find_head(before: bytes, text: str) -> Json | None:
    """Return the fields of a record before its message ``text``, of the bytes before that line."""
    near = before[-_MAX_BYTES:]
    if _JSON_FIELD.match(text) is not None:
        return _read_json(near)
    if _XML_MESSAGE.match(text) is not None:
        return _read_xml(near)
    if _YAML_MESSAGE.match(text) is not None:
        return _read_yaml(near)
    begin = _last(_COLLECTOR_BEGIN, near)
    if begin is None or _COLLECTOR_MESSAGE.match(text) is None:
        return None
    return {"timestamp": find_collector_time(near[begin:].decode(errors="replace"))}


def _read_json(near: bytes) -> Json | None:
    """Return the nearest object that is open at the end."""
    begins = [match.start() for match in _JSON_BEGIN.finditer(near)][-_DEPTH:]
    for begin in reversed(begins):
        head = near[begin:].decode(errors="replace").lstrip("[, \t\r\n").rstrip(", \t\r\n")
        for depth in range(1, _DEPTH + 1):
            found = decode(head + "}" * depth)
            if found:
                return found
    return None


def _read_xml(near: bytes) -> Json | None:
    begin = _last(_XML_BEGIN, near)
    if begin is None:
        return None
    head = near[begin:].decode(errors="replace").lstrip()
    tag = head[1:].partition(" ")[0].partition(">")[0].strip()
    return next(split_xml(f"{head}<message>.</message></{tag}>".encode()), None)


def _read_yaml(near: bytes) -> Json | None:
    begin = _last(_YAML_BEGIN, near)
    if begin is None:
        return None
    return read_yaml_record(near[begin:])


def _last(pattern: re.Pattern[bytes], near: bytes) -> int | None:
    begins = [match.start() for match in pattern.finditer(near)]
    return begins[-1] if begins else None


def _unquote(text: str) -> str:
    """Return a YAML scalar as text."""
    if text.startswith('"'):
        try:
            return str(msgspec.json.decode(text))
        except msgspec.DecodeError:
            return text
    return text.strip("'").replace("''", "'") if text.startswith("'") else text
