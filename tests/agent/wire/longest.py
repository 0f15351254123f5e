"""Messages that have every field at its longest, of any API and version, by kio's schemas."""

import dataclasses
from datetime import timedelta
from types import UnionType
from typing import Any, get_args, get_type_hints

from kio.index import load_request_schema, load_response_schema

from tests.agent.wire.frames import assignment, subscription

TEXT_CHARS = 32_767
"""Kafka's longest STRING."""
_ELEMENTS = 3
_PLAIN: dict[type, Any] = {bool: True, int: 1, timedelta: timedelta(seconds=1)}


def longest_values(api_key: int, version: int, *, is_request: bool) -> dict[str, Any]:
    """Return a message's fields; an error code is 0, as a refusal would end the conversation."""
    load = load_request_schema if is_request else load_response_schema
    return _entity(load(api_key, version), str(api_key))


def _entity(schema: Any, where: str) -> dict[str, Any]:
    hints = get_type_hints(schema)
    return {
        field.name: _value(hints[field.name], f"{where}.{field.name}")
        for field in dataclasses.fields(schema)
    }


def _value(hint: Any, where: str) -> Any:
    if isinstance(hint, UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
    if getattr(hint, "__origin__", None) is tuple:
        return tuple(_value(get_args(hint)[0], f"{where}[{i}]") for i in range(_ELEMENTS))
    if dataclasses.is_dataclass(hint):
        return _entity(hint, where)
    if hasattr(hint, "__members__"):
        return 0
    if _is(hint, "x"):
        return where + "x" * (TEXT_CHARS - len(where))
    if _is(hint, b"x"):
        topic = "t" * TEXT_CHARS
        parts = {topic: [1, 2, 3]}
        is_assignment = where.endswith("assignment")
        return assignment(parts) if is_assignment else subscription([topic], parts)
    return next((value for value in _PLAIN.values() if _is(hint, value)), None)


def _is(hint: Any, value: object) -> bool:
    """Return whether a value is of a type, or of kio's phantom type."""
    try:
        return isinstance(value, hint)
    except TypeError:
        return False
