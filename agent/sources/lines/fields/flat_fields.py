"""Entries without braces: lines of logfmt, of LTSV and of TSKV."""

import re

from agent.sources.lines.fields.decoding import Json
from agent.sources.lines.fields.entry_keys import has_time, is_entry
from agent.sources.lines.fields.entry_origin import ORIGINS

_LOGFMT = re.compile(r'[A-Za-z_@][\w.@/-]{0,63}=(?:"|[^\s"=]{0,1024}(?: |$))', re.ASCII)
_LOGFMT_PAIR = re.compile(
    r'(?<!\S)([A-Za-z_@][\w.@/-]{0,63})=(?:"((?:[^"\\]|\\.){0,65536})"|([^\s"]{0,8192}))(?!\S)'
)
_TABBED_FIELD = re.compile(r"([A-Za-z_][\w.-]{0,63})[:=]([^\t]{0,65536})")
# https://ltsv.org/ and the format TSKV of ClickHouse
_TABBED = re.compile(
    r"(?:tskv\t)?[A-Za-z_][\w.-]{0,63}[:=][^\t]*(?:\t[A-Za-z_][\w.-]{0,63}[:=][^\t]*){1,64}"
)


def read_pairs(text: str) -> Json | None:
    """Return the pairs of a line of logfmt; None unless they name an origin, a time, a message."""
    if _LOGFMT.match(text) is None:
        return None
    found: Json = {
        name: plain or quoted.replace('\\"', '"').replace("\\\\", "\\")
        for name, quoted, plain in _LOGFMT_PAIR.findall(text)
    }
    is_labelled = str(found.get("labels", "")).startswith("{")
    is_of_origin = is_labelled or not found.keys().isdisjoint(ORIGINS)
    return found if is_of_origin and is_entry(found) and has_time(found) else None


def read_tabbed(text: str) -> Json | None:
    """Return the fields of a line of LTSV or TSKV; None unless they are an entry."""
    if _TABBED.fullmatch(text) is None:
        return None
    fields = (_TABBED_FIELD.fullmatch(field) for field in text.split("\t"))
    found: Json = {field[1]: field[2] for field in fields if field is not None}
    return found if is_entry(found) else None
