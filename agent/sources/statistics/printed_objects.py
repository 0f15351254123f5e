"""Statistics that a program printed through a logger, and a collector wrote on.

Theory of operation. librdkafka hands its statistics to a callback. A program prints them behind a
time, as a value of its own object, or a collector's object holds that line as a text. The object of
statistics is found by its keys, within objects and texts of objects. The name of the stream around
it is the client's origin: client names repeat.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from agent.sources.lines.envelopes.collector_prefix import match_prefix
from agent.sources.lines.fields.colours import strip_colours
from agent.sources.lines.fields.decoding import Json, decode_first
from agent.sources.lines.fields.entry_origin import JsonEntry, add_origin

_MARK = b"join_state"
"""A key that each consumer's object has, also within a text whose quotes are escaped."""
_KEYS = frozenset(("name", "client_id", "ts", "time", "cgrp"))
_TRIES, _DEPTH, _VALUES = 8, 6, 64


class PrintedStatistics(NamedTuple):
    """An object of statistics, as JSON, and its stream's name; that is empty if none is known."""

    line: bytes
    origin: str
    host: str


def find_statistics(line: bytes) -> PrintedStatistics | None:
    """Return the statistics within a line; None without any."""
    if _MARK not in line:
        return None
    text = strip_colours(line.decode(errors="replace"))
    prefix = match_prefix(text)
    begin = 0 if prefix is None else prefix.end
    for outer in _read_objects(text, begin):
        found = _find(outer, _DEPTH)
        if found is not None:
            entry = JsonEntry("", outer)
            if found is not outer:
                add_origin(entry, outer)
            origin, host = entry.origin, entry.host
            if prefix is not None and prefix.origin:
                origin, host = prefix.origin, prefix.host
            return PrintedStatistics(msgspec.json.encode(found), origin, host)
    return None


def _read_objects(text: str, begin: int) -> Iterator[Json]:
    """Yield the first objects of a text."""
    for _ in range(_TRIES):
        begin = text.find("{", begin)
        if begin < 0:
            return
        try:
            found, begin = decode_first(text, begin)
        except (ValueError, RecursionError):
            begin += 1
            continue
        if isinstance(found, dict):
            yield found


def _find(value: Any, depth: int) -> Json | None:
    """Return the statistics that a value is or holds."""
    if isinstance(value, dict) and value.keys() >= _KEYS:
        return value
    if isinstance(value, str):
        objects = _read_objects(value, 0) if _MARK.decode() in value else iter(())
        return next(filter(None, (_find(each, depth - 1) for each in objects)), None)
    inner = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(inner, list) or not depth:
        return None
    with contextlib.suppress(RecursionError):
        return next(filter(None, (_find(each, depth - 1) for each in inner[:_VALUES])), None)
    return None
