"""Objects that Node prints over several lines, as objects of JSON on one line.

Theory of operation. `console.log` of an object prints one field a line, with JavaScript's quotes.
confluent-kafka-javascript logs in this form by default, and winston's `prettyPrint` does too. The
time is in a line of its own after the message, so a single line has no time. `console.log` of a
message and its fields, and log4js, print the message before the object; it keeps this place. With
``compact``, as consola and Node before 12 have it, the first field stands behind the brace and the
last before the other one. An incomplete text stays unchanged.

Source: https://nodejs.org/api/util.html#utilinspectobject-options
"""

import contextlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

_OBJECT = re.compile(
    rb"^(?P<head>(?!  )[^\n]{1,1024} )?\{\r?\n(?P<fields>(?:  [^\n]*\n)+)\}(?=\r?$)", re.MULTILINE
)
_FIELD = re.compile(r"^  '?([\w.@-]{1,64})'?: (.*(?:\n {3,}.*|\n  [\]}].*)*)", re.MULTILINE)
_COMPACT = re.compile(
    r"(?P<head>(?:.{0,1024} )?\{) (?P<field>'?[A-Za-z_$][\w$.@-]{0,63}'?: .*,)\s*"
)
"""First line of an object with ``compact``."""
_MESSAGE = re.compile(rb"^ {2,4}(?:message|msg): ['\"`]", re.MULTILINE)
_CLIENTS = re.compile(rb"^  \"?(?:groupId|logger|fac|group|why)\"?: ['\"]", re.MULTILINE)
"""Fields of kafkajs or franz-go after a message, or of node-rdkafka; others stay in their place."""
_PART = re.compile(
    r"'((?:[^'\\]|\\.){0,8192})'|\"(?:[^\"\\]|\\.){0,8192}\"|`((?:[^`\\]|\\.){0,8192})`"
    r"|([A-Za-z_$][\w$]{0,63}|\[Symbol\([\w.]{0,64}\)\])(?=: )"
    r"|\[(?:Array|Object)\]|\bundefined\b|\\."
)
"""A text, a name, and placeholders for values: parts of an object on one line.

An escape outside of a text begins none.
"""
_DEEP = re.compile(r"\[(?:Array|Object)\]|\bundefined\b")
"""Placeholders for values deep within an object, and for a missing value."""
_BARE_NAME = re.compile(r"([{,]\s*)([A-Za-z_$][\w$]*):")
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_INTEGER = re.compile(r"\d{1,18}", re.ASCII)
"""Python raises an error for thousands of digits."""
_QUOTES = "'\"`"


def is_compact(text: str) -> bool:
    """Return whether a line is the first of an object with ``compact``."""
    return text.endswith((",", ",\r")) and _COMPACT.fullmatch(text) is not None


def write_lines(head: str, lines: Sequence[str]) -> str:
    """Return an object with each brace at the end or the begin of its own line."""
    found = _COMPACT.fullmatch(head)
    if found is None:
        return "\n".join((head, *lines, "}"))
    *inner, last = (f"  {found['field']}", *lines)
    return "\n".join((found["head"], *inner, last.rstrip().removesuffix(" }"), "}"))


def join_inspected(data: bytes) -> bytes:
    """Return a text with each such object that has a message on one line."""
    return _OBJECT.sub(_join, data)


def as_json(text: str) -> str:
    """Return an object on one line as JSON, as far as it is one; the text behind it may change."""
    return _PART.sub(_write, text)


def _write(found: re.Match[str]) -> str:
    """Write a part of an object as JSON; a placeholder is null."""
    quoted, in_backticks, name = found.groups()
    if name is not None:
        return f'"{name}"'
    inner = in_backticks if quoted is None else quoted
    if inner is not None:
        return '"' + inner.replace("\\'", "'").replace("\\`", "`").replace('"', '\\"') + '"'
    return found[0] if found[0].startswith(('"', "\\")) else "null"


def _is_entry(found: re.Match[bytes]) -> bool:
    shows = _MESSAGE if found["head"] is None else _CLIENTS
    return shows.search(found["fields"]) is not None


def _join(found: re.Match[bytes]) -> bytes:
    if not _is_entry(found):
        return found[0]
    inner = found["fields"].decode(errors="replace")
    if found["head"] is not None:
        with contextlib.suppress(msgspec.DecodeError, RecursionError):  # JSON, with an indentation
            return found["head"] + msgspec.json.encode(_decode(f"{{{inner}}}"))
    texts = _FIELD.findall(inner)
    fields = {name: _read(text.strip().rstrip("\r,")) for name, text in texts}
    log = fields.get("log")
    if isinstance(log, dict):  # an entry of kafkajs's as it is
        fields |= log
        del fields["log"]
    try:
        return (found["head"] or b"") + msgspec.json.encode(fields)
    except RecursionError:  # read with the last level that the stack has
        return found[0]


def _read(text: str) -> Any:
    """Return a number, the content of a string, or an object; an incomplete one stays a text."""
    if _INTEGER.fullmatch(text) is not None:
        return int(text)
    if text[:1] in "{[":
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            named = _DEEP.sub("null", _BARE_NAME.sub(r'\1"\2":', text))
            return msgspec.json.decode(named.replace("'", '"'))
        return text
    if text[:1] not in _QUOTES or text[:1] != text[-1:]:
        return text
    inner = text[1:-1].replace("\\'", "'").replace("\\`", "`").replace('\\"', '"')
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode('"' + inner.replace('"', '\\"') + '"', type=str)
    return inner
