"""Objects that Node prints over several lines, as objects of JSON on one line.

Theory of operation. `console.log` of an object prints one field a line, with JavaScript's quotes;
confluent-kafka-javascript logs so by default, and so does winston's `prettyPrint`. The time stands
behind the message, so a line alone has none. A text that breaks off stays as it is.

Source: https://nodejs.org/api/util.html#utilinspectobject-options
"""

import contextlib
import re

import msgspec

_OBJECT = re.compile(rb"^\{\r?\n((?:  [^\n]*\n)+)\}(?=\r?$)", re.MULTILINE)
_FIELD = re.compile(r"^  '?([\w.@-]{1,64})'?: (.*(?:\n {3,}.*|\n  [\]}].*)*)", re.MULTILINE)
_MESSAGE = re.compile(rb"^  (?:message|msg): ['\"`]", re.MULTILINE)
_QUOTES = "'\"`"
_SAMPLE_BYTES = 1 << 14


def has_inspected(head: bytes) -> bool:
    """Return whether a text has such an object with a message."""
    return any(_MESSAGE.search(found[1]) for found in _OBJECT.finditer(head[:_SAMPLE_BYTES]))


def join_inspected(data: bytes) -> bytes:
    """Return a text with each such object that has a message on one line."""
    return _OBJECT.sub(_join, data)


def _join(found: re.Match[bytes]) -> bytes:
    if _MESSAGE.search(found[1]) is None:
        return found[0]
    fields = _FIELD.findall(found[1].decode(errors="replace"))
    return msgspec.json.encode({name: _read(text.rstrip("\r,")) for name, text in fields})


def _read(text: str) -> str | int:
    """Return a number or the content of a string; an object stays a text."""
    if text.isdecimal():
        return int(text)
    if text[:1] not in _QUOTES or text[:1] != text[-1:]:
        return text
    inner = text[1:-1].replace("\\'", "'").replace("\\`", "`").replace('\\"', '"')
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode('"' + inner.replace('"', '\\"') + '"', type=str)
    return inner
