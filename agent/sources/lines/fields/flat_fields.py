"""Entries without braces: lines of logfmt, of LTSV and of TSKV."""

import re

import msgspec

from agent.sources.lines.fields.decoding import Json
from agent.sources.lines.fields.entry_keys import has_time, is_entry
from agent.sources.lines.fields.entry_origin import ORIGINS

_LOGFMT = re.compile(r'[A-Za-z_@][\w.@/-]{0,63}=(?:"|[^\s"=]{0,1024}(?: |$))', re.ASCII)
_LOGFMT_PAIR = re.compile(
    r'(?<!\S)([A-Za-z_@][\w.@/-]{0,63})=(?:"((?:[^"\\]|\\.){0,65536})"|([^\s"]{0,8192}))(?!\S)'
)
_TABBED_FIELD = re.compile(r'"?([A-Za-z_][\w.-]{0,63})"?[:=]([^\t]{0,65536})')
# https://ltsv.org/ and the format TSKV of ClickHouse; Fluent Bit's file has quotes
_TABBED = re.compile(
    r'(?:tskv\t)?"?[A-Za-z_][\w.-]{0,63}"?[:=][^\t]*'
    r'(?:\t"?[A-Za-z_][\w.-]{0,63}"?[:=][^\t]*){1,64}(?:\t.*)?'
)
_TABBED_MAX = 256


def read_pairs(text: str) -> Json | None:
    """Return the pairs of a line of logfmt; None unless they name an origin, a time, a message."""
    if _LOGFMT.match(text) is None:
        return None
    found: Json = {
        name: plain or _unescape(quoted) for name, quoted, plain in _LOGFMT_PAIR.findall(text)
    }
    is_labelled = str(found.get("labels", "")).startswith("{")
    is_of_origin = is_labelled or not found.keys().isdisjoint(ORIGINS)
    return found if is_of_origin and is_entry(found) and has_time(found) else None


def read_tabbed(text: str) -> Json | None:
    """Return the fields of a line of LTSV or TSKV; None unless they are an entry."""
    if _TABBED.fullmatch(text) is None:
        return None
    found: Json = {}
    name = ""
    for field in text.split("\t", _TABBED_MAX):
        pair = _TABBED_FIELD.fullmatch(field)
        if pair is not None:
            name = pair[1]
            found[name] = pair[2]
        elif name:  # a message may have tabs
            found[name] += f"\t{field}"
    found = {name: _unquote(value) for name, value in found.items()}
    if "tag" in found and found.keys().isdisjoint(ORIGINS):  # fluentd's route, a name of the stream
        found["container.name"] = found["tag"]
    return found if is_entry(found) else None


def _unescape(quoted: str) -> str:
    """Return a quoted value, as Go's and JSON's writers escape it."""
    try:
        return msgspec.json.decode(f'"{quoted}"', type=str)
    except msgspec.DecodeError:
        return quoted.replace('\\"', '"').replace("\\\\", "\\")


def _unquote(value: str) -> str:
    """Return a value without the quotes around it, whose inner ones Fluent Bit does not escape."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
