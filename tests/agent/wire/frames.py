"""Kafka frames for tests, as a client and a broker would send them, written by kio's writers."""

import dataclasses
import io
import struct
from datetime import timedelta
from functools import cache
from types import UnionType
from typing import Any, get_args, get_type_hints

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_writer

METADATA, OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT = 3, 8, 10, 11, 12
LEAVE_GROUP, SYNC_GROUP, API_VERSIONS, DESCRIBE_CLUSTER = 13, 14, 18, 60
CONSUMER_HEARTBEAT, SHARE_HEARTBEAT, STREAMS_HEARTBEAT = 68, 76, 88
FETCH, SASL_AUTHENTICATE = 1, 36

_EMPTY: dict[type, Any] = {bool: False, int: 0, str: "", bytes: b"", timedelta: timedelta(0)}


def request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, **values: Any
) -> bytes:
    """Return a request's frame; fields that are not given are empty."""
    schema = load_request_schema(api_key, version)
    name = (client_id or "").encode()
    head = struct.pack(">hhih", api_key, version, correlation_id, len(name)) + name
    return _frame(head + bytes(schema.__flexible__), schema, values)


def answer(api_key: int, version: int, correlation_id: int, **values: Any) -> bytes:
    """Return an answer's frame; fields that are not given are empty."""
    schema = load_response_schema(api_key, version)
    return _frame(struct.pack(">i", correlation_id) + bytes(schema.__flexible__), schema, values)


def opaque(api_key: int, correlation_id: int, client_id: str, size: int) -> bytes:
    """Return a request that nobody decodes, with a body of ``size`` bytes."""
    name = client_id.encode()
    body = struct.pack(">hhih", api_key, 0, correlation_id, len(name)) + name + b"\x7f" * size
    return struct.pack(">i", len(body)) + body


def subscription(
    topics: list[str],
    owned: dict[str, list[int]] | None = None,
    user_data: bytes = b"",
    version: int = 1,
) -> bytes:
    """Return a ConsumerProtocolSubscription."""
    out = struct.pack(">hi", version, len(topics)) + b"".join(map(_string, topics))
    out += struct.pack(">i", len(user_data)) + user_data
    return out + (_partitions(owned or {}) if version >= 1 else b"")


def assignment(partitions: dict[str, list[int]], user_data: bytes = b"", version: int = 1) -> bytes:
    """Return a ConsumerProtocolAssignment."""
    out = struct.pack(">h", version) + _partitions(partitions)
    return out + struct.pack(">i", len(user_data)) + user_data


def _partitions(topics: dict[str, list[int]]) -> bytes:
    out = struct.pack(">i", len(topics))
    for topic, numbers in topics.items():
        out += _string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return out


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _frame(head: bytes, schema: Any, values: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    entity_writer(schema)(body, _fill(schema, values))
    frame = head + body.getvalue()
    return struct.pack(">i", len(frame)) + frame


@cache
def _defaults(schema: Any) -> dict[str, tuple[Any, Any]]:
    """Return type and empty value of each field; they are immutable."""
    hints = get_type_hints(schema)
    return {
        field.name: (hints[field.name], _empty(hints[field.name]))
        for field in dataclasses.fields(schema)
    }


def _fill(schema: Any, values: dict[str, Any]) -> Any:
    filled = {
        name: _value(hint, values[name]) if name in values else empty
        for name, (hint, empty) in _defaults(schema).items()
    }
    return schema(**filled)


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    hint = _bare(hint)
    if getattr(hint, "__origin__", None) is tuple:
        return tuple(_value(get_args(hint)[0], each) for each in value)
    return _fill(hint, value) if isinstance(value, dict) else _scalar(hint, value)


def _scalar(hint: Any, value: Any) -> Any:
    enum = getattr(hint, "__members__", None)
    return hint(value) if enum is not None else value


def _empty(hint: Any) -> Any:
    if isinstance(hint, UnionType):
        return None
    if getattr(hint, "__origin__", None) is tuple:
        return ()
    if dataclasses.is_dataclass(hint):
        return _fill(hint, {})
    if hasattr(hint, "__members__"):
        return hint(0)
    return next(
        value for kind, value in _EMPTY.items() if issubclass(hint, kind) or _is(hint, kind)
    )


def _is(hint: Any, kind: type) -> bool:
    """Tell whether kio's phantom type is bound to ``kind``."""
    return isinstance(_EMPTY[kind], hint)


def _bare(hint: Any) -> Any:
    if isinstance(hint, UnionType):
        return next(arg for arg in get_args(hint) if arg is not type(None))
    return hint
