"""Text as an object: JSON, also with half characters, and maps that Python or Clojure printed."""

import contextlib
import json
import re
from ast import literal_eval
from typing import Any

import msgspec

Json = dict[str, Any]
_REPR_MAX_CHARS = 1 << 16
_DECODER = json.JSONDecoder()
"""Reads an object with text behind it, which msgspec refuses."""
_HALF = re.compile(r"\\u[dD][89a-fA-F][\da-fA-F]{2}", re.ASCII)
"""An escape of UTF-16 for half of a character, as Python's JSON writes a byte that is no UTF-8."""
_OF_CLOJURE = re.compile(
    r':([\w./-]{1,64}) ((?:#inst )?"(?:[^"\\]|\\.){0,65536}"|[^\s,{}"\[\]()]{1,256})'
)
"""A keyword and its value in a map of EDN, as mulog prints it; inner maps are not read."""


def decode(text: str) -> Json | None:
    """Return the object that a text is, None for anything else."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # cut off, or nested without end
        return _decode_other(text)
    return found if isinstance(found, dict) else None


def decode_first(text: str, begin: int) -> tuple[Json, int]:
    """Return the object that begins at a brace, and the place behind it.

    Raises:
        ValueError, RecursionError: there is no such object.

    """
    found, end = _DECODER.raw_decode(text, begin)
    return (found if _HALF.search(text, begin, end) is None else _write_halves(found)), end


def _write_halves(found: Json) -> Json:
    """Return an object with a question mark for each half of a character, which no text can hold.

    Raises:
        ValueError, RecursionError: a value that JSON cannot hold.

    """
    text = json.dumps(found, ensure_ascii=False).encode(errors="replace")
    return msgspec.json.decode(text, type=Json)


def _decode_other(text: str) -> Json | None:
    """Return an object with half of a character, or what Python or Clojure printed as a map."""
    if text.startswith("{:"):
        pairs = _OF_CLOJURE.findall(text[:_REPR_MAX_CHARS])
        return {name: _read_clojure(value) for name, value in pairs} or None
    if text.startswith("{'"):
        return _decode_repr(text)
    if text.startswith("{") and _HALF.search(text) is not None:
        with contextlib.suppress(ValueError, RecursionError):
            found, end = decode_first(text, 0)
            return None if text[end:].strip() else found
    return None


def _read_clojure(value: str) -> Any:
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(value)
    return value.removeprefix("#inst ").strip('"')


def _decode_repr(text: str) -> Json | None:
    """Return a dictionary that Python printed; None for anything else."""
    try:
        found = literal_eval(text) if len(text) <= _REPR_MAX_CHARS else None
        found = msgspec.to_builtins(found, str_keys=True)  # a key may be a number
        return _check(found) if isinstance(found, dict) else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _check(found: Json) -> Json:
    """Return an object whose values can be written: a number in hex may have any length.

    Raises:
        ValueError, RecursionError: a value that JSON cannot hold.

    """
    try:
        msgspec.json.encode(found)
    except UnicodeEncodeError:
        return _write_halves(found)
    return found
