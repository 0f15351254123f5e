"""Admin requests and responses: kio's schemas and writer, and an own reader that checks counts."""

import dataclasses
import hashlib
import io
import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cache
from types import UnionType
from typing import Any, get_args, get_type_hints

from agent.errors import DecodeError
from agent.wire.codec.buffer import Buffer
from agent.wire.codec.kio_import import without_hypothesis
from agent.wire.codec.schema import LOADING, Fields, response_layout

with without_hypothesis():
    from kio.index import load_request_schema
    from kio.serial import entity_writer

STRUCT_WEIGHT = 5
"""A structure counts as so many elements: 2,000,000 listed groups took 735 MB."""


class Api(IntEnum):
    """The APIs that inspection uses."""

    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    DESCRIBE_CLUSTER = 60
    CONSUMER_GROUP_DESCRIBE = 69
    SHARE_GROUP_DESCRIBE = 77
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90

    @property
    def label(self) -> str:
        """Return the API's name as Kafka writes it."""
        return "".join(part.capitalize() for part in self.name.split("_"))


_LAST_FIELDS = {
    Api.LIST_OFFSETS: ("topics",),
    Api.METADATA: ("topics",),
    Api.OFFSET_FETCH: ("topics", "groups"),
    Api.FIND_COORDINATOR: ("port", "coordinators"),
    Api.DESCRIBE_GROUPS: ("groups",),
    Api.LIST_GROUPS: ("groups",),
    Api.SASL_HANDSHAKE: ("mechanisms",),
    Api.API_VERSIONS: ("api_keys",),
    Api.DESCRIBE_CONFIGS: ("results",),
    Api.SASL_AUTHENTICATE: ("auth_bytes", "session_lifetime"),
    Api.DESCRIBE_CLUSTER: ("cluster_authorized_operations",),
    Api.CONSUMER_GROUP_DESCRIBE: ("groups",),
    Api.SHARE_GROUP_DESCRIBE: ("groups",),
    Api.STREAMS_GROUP_DESCRIBE: ("groups",),
    Api.DESCRIBE_SHARE_GROUP_OFFSETS: ("groups",),
}
"""The last field of a response that is read, by version; the bytes after it are not decoded."""

SUPPORTED_VERSIONS = {
    Api.LIST_OFFSETS: (1, 5),
    Api.METADATA: (4, 4),
    Api.OFFSET_FETCH: (2, 9),
    Api.FIND_COORDINATOR: (0, 6),
    Api.DESCRIBE_GROUPS: (0, 6),
    Api.LIST_GROUPS: (0, 5),
    Api.SASL_HANDSHAKE: (1, 1),
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.SASL_AUTHENTICATE: (0, 2),
    Api.DESCRIBE_CLUSTER: (0, 2),
    Api.CONSUMER_GROUP_DESCRIBE: (0, 1),
    Api.SHARE_GROUP_DESCRIBE: (1, 1),
    Api.STREAMS_GROUP_DESCRIBE: (0, 1),
    Api.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
}
"""The oldest and the newest version that inspection speaks."""

_THROTTLED_FROM = {
    Api.LIST_OFFSETS: 2,
    Api.METADATA: 3,
    Api.OFFSET_FETCH: 3,
    Api.FIND_COORDINATOR: 1,
    Api.DESCRIBE_GROUPS: 1,
    Api.LIST_GROUPS: 1,
    Api.DESCRIBE_CONFIGS: 0,
    Api.DESCRIBE_CLUSTER: 0,
    Api.CONSUMER_GROUP_DESCRIBE: 0,
    Api.SHARE_GROUP_DESCRIBE: 0,
    Api.STREAMS_GROUP_DESCRIBE: 0,
    Api.DESCRIBE_SHARE_GROUP_OFFSETS: 0,
}
"""The first version of a response that begins with ``throttle_time_ms``."""
_CORRELATION_BYTES = 4
API_VERSIONS_VERSION = 3
"""The first that names the client's software (KIP-511); brokers below 2.4 respond with v0."""


_FALSE = b"\0"
_REQUESTS_LIKE = {(Api.STREAMS_GROUP_DESCRIBE, 1): (0, _FALSE)}  # no topology description
"""Requests that kio cannot write: the version that it can, and the bytes of fields at its end."""


def encode(api: Api, version: int, correlation_id: int, client_id: str, **values: Any) -> bytes:
    """Return a request's frame; fields that its version lacks are left out."""
    known_version, appended = _REQUESTS_LIKE.get((api, version), (version, b""))
    with LOADING:
        schema = load_request_schema(api, known_version)
        known = {field.name for field in dataclasses.fields(schema)}
        given = {key: value for key, value in values.items() if key in known}
        request, write = _entity(schema, given), _writer(api, known_version)
    name = client_id.encode()
    frame = io.BytesIO()
    frame.write(struct.pack(">hhih", api, version, correlation_id, len(name)) + name)
    frame.write(bytes(schema.__flexible__))  # no tagged fields in the header
    write(frame, request)
    content = frame.getvalue()
    if appended:
        content = content[:-1] + appended + content[-1:]  # the last byte: no tagged fields
    return struct.pack(">i", len(content)) + content


def _entity(schema: Any, values: Mapping[str, Any]) -> Any:
    """Return kio's entity; a list of mappings becomes a tuple of nested entities."""
    nested = [key for key, value in values.items() if isinstance(value, list)]
    hints = get_type_hints(schema) if nested else {}
    return schema(**dict(values) | {key: _tuple(hints[key], values[key]) for key in nested})


def _tuple(hint: Any, values: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    (kind, *_) = get_args(get_args(hint)[0] if isinstance(hint, UnionType) else hint)
    known = {field.name for field in dataclasses.fields(kind)}
    return tuple(
        _entity(kind, {key: value for key, value in each.items() if key in known})
        for each in values
    )


@cache
def _writer(api: Api, version: int) -> Any:
    return entity_writer(load_request_schema(api, version))


def correlation_id(frame: bytes) -> int:
    """Return the correlation id of a response."""
    return int.from_bytes(frame[:_CORRELATION_BYTES], "big", signed=True)


def throttle_s(api: Api, version: int, frame: bytes) -> float:
    """Return the delay of the next response by a broker's quota, in seconds (KIP-124)."""
    if api not in _THROTTLED_FROM or version < _THROTTLED_FROM[api]:
        return 0.0
    layout = response_layout(api, version, _LAST_FIELDS[api], strict=True)
    start = _CORRELATION_BYTES + (layout is not None and layout.flexible)
    return max(0, int.from_bytes(frame[start : start + 4], "big", signed=True)) / 1000


def digest(frame: bytes) -> bytes:
    """Return a hash of a response without its correlation id: equal for equal content."""
    body = memoryview(frame)[_CORRELATION_BYTES:]
    return hashlib.blake2b(body, digest_size=16).digest()


def decode(api: Api, version: int, frame: bytes, element_limit: int) -> Fields:
    """Return the fields of a response's frame, of so many array elements at most.

    Raises:
        DecodeError: the bytes are not such a response.

    """
    layout = response_layout(api, version, _LAST_FIELDS[api], strict=True)
    if layout is None:
        raise DecodeError(f"{api.label} v{version}: this version is not known")
    buffer = Buffer(frame, element_limit, struct_weight=STRUCT_WEIGHT)
    buffer.take(_CORRELATION_BYTES)
    if layout.flexible and api is not Api.API_VERSIONS:  # KIP-511: its header stays the oldest
        buffer.skip_tags()
    return layout.read(buffer)
