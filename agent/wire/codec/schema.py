"""Readers of a message's head by kio's schema of its API version, loaded at first use.

Theory of operation. kio has every version of every message as a dataclass. Its own native reader
(0.6.5) allocates for the counts in the bytes before it checks them: one hostile frame of 20 bytes
aborts the process. So the bytes are read here, each count is checked against the rest, and reading
stops at the last wanted field. The members that a leader receives and the assignments that it sends
are after that field and cost nothing. A version's classes take 50 KiB and are used once, so they
are unloaded. A lock lets one thread load at a time, because sources decode in several threads.
"""

import dataclasses
import gc
import sys
from collections.abc import Callable, Iterator
from functools import cache
from threading import Lock
from types import UnionType
from typing import Any, NamedTuple, get_args, get_type_hints

from agent.errors import DecodeError
from agent.wire.codec.buffer import Buffer
from agent.wire.codec.kio_import import without_hypothesis

with without_hypothesis():
    from kio.index import KioIndexError, load_request_schema, load_response_schema

LOADING = Lock()
"""Held while kio's modules are loaded, inspected or unloaded."""

Fields = dict[str, Any]
Read = Callable[[Buffer], Any]

_FIXED: dict[str, Read] = {
    "bool": lambda buffer: buffer.int8() != 0,
    "int8": Buffer.int8,
    "int16": Buffer.int16,
    "uint16": Buffer.uint16,
    "int32": Buffer.int32,
    "int64": Buffer.int64,
    "timedelta_i32": Buffer.int32,
    "timedelta_i64": Buffer.int64,
    "error_code": Buffer.int16,
    "uuid": lambda buffer: buffer.take(16),
    "compact string": Buffer.compact_string,
    "absent struct": lambda buffer: _require_absence(buffer.int8()),
}
_TEXT: dict[tuple[str, bool], Read] = {
    ("string", False): Buffer.nullable_string,
    ("string", True): Buffer.compact_string,
    ("bytes", False): Buffer.nullable_bytes,
    ("bytes", True): Buffer.compact_bytes,
}


class SimilarVersion(NamedTuple):
    """A version that kio has no schema of, by one that it has: how far they differ."""

    version: int
    added: tuple[tuple[str, str], ...] = ()
    """A field that only the former has: its kind, and the name of the field behind it."""
    removed: frozenset[str] = frozenset()
    appended: tuple[tuple[str, str], ...] = ()
    """Fields that only the former has, at the end: kind and name."""
    within: str = ""
    """The field of structs that differ; by default the message itself."""


# Read in clients/src/main/resources/common/message of Kafka 2.8.2, 4.0.0 and 4.4.0. Fields
# behind the last one that is wanted may differ as well.
_REQUESTS_LIKE = {
    (8, 1): SimilarVersion(2),  # OffsetCommit: old librdkafka and sarama
    (18, 5): SimilarVersion(4),  # ApiVersions: KIP-1242
    (76, 0): SimilarVersion(1),  # ShareGroupHeartbeat: Kafka 4.0
    (88, 1): SimilarVersion(0),  # StreamsGroupHeartbeat: KIP-1331
}
_RESPONSES_LIKE = {
    (8, 1): SimilarVersion(2),
    (76, 0): SimilarVersion(1),
    (89, 1): SimilarVersion(  # StreamsGroupDescribe: KIP-1331, KIP-1357
        0,
        appended=(
            ("absent struct", "topology_description"),
            ("int8", "topology_description_status"),
            ("compact string", "assignor_name"),
        ),
        within="groups",
    ),
    (88, 1): SimilarVersion(
        0,
        added=(("int64", "status"), ("bool", "endpoint_information_epoch")),
        removed=frozenset({"acceptable_recovery_lag"}),
    ),
}


class Layout(NamedTuple):
    """How a message of one version is read."""

    flexible: bool
    """KIP-482: compact types, and tagged fields in its header."""
    read: Callable[[Buffer], Fields]
    """Return the fields by name; a field that the version lacks is absent."""


@cache
def request_layout(api_key: int, version: int, wanted: tuple[str, ...]) -> Layout | None:
    """Return the reader of a request's ``wanted`` fields; None for an unknown version."""
    kin = _REQUESTS_LIKE.get((api_key, version), SimilarVersion(version))
    return _load_layout(load_request_schema, api_key, kin, wanted)


@cache
def response_layout(
    api_key: int, version: int, wanted: tuple[str, ...], *, strict: bool = False
) -> Layout | None:
    """Return the reader of a response's ``wanted`` fields; None for an unknown version.

    A ``strict`` reader refuses a null where the schema has none, as Kafka's own readers do.
    """
    kin = _RESPONSES_LIKE.get((api_key, version), SimilarVersion(version))
    return _load_layout(load_response_schema, api_key, kin, wanted, strict=strict)


def _load_layout(
    load: Callable[[int, int], Any],
    api_key: int,
    kin: SimilarVersion,
    wanted: tuple[str, ...],
    *,
    strict: bool = False,
) -> Layout | None:
    with LOADING:
        try:
            schema = load(api_key, kin.version)
        except KioIndexError:
            return None
        layout = Layout(
            bool(schema.__flexible__), _struct_reader(schema, wanted, kin, strict=strict)
        )
        _unload(schema.__module__.rpartition(".")[0])
        del schema
    gc.collect(1)  # the schema is young; a collection of all generations would hold traffic up
    return layout


def _unload(package: str) -> None:
    """Unload the modules of one version: its request and its response."""
    for name in (package, f"{package}.request", f"{package}.response"):
        sys.modules.pop(name, None)
    parent, _, version = package.rpartition(".")
    vars(sys.modules[parent]).pop(version, None)


def _struct_reader(
    schema: Any,
    wanted: tuple[str, ...] | None = None,
    kin: SimilarVersion | None = None,
    *,
    strict: bool = False,
) -> Callable[[Buffer], Fields]:
    """Return a reader of a struct; with ``wanted`` it stops after the last of these fields."""
    hints, flexible = get_type_hints(schema), bool(schema.__flexible__)
    fields = [field for field in dataclasses.fields(schema) if "tag" not in field.metadata]
    if wanted is not None:
        while fields and fields[-1].name not in wanted:
            fields.pop()
    inner = None if kin is None else kin._replace(within="")
    readers = [
        (
            field.name,
            _field_reader(
                field,
                hints[field.name],
                flexible,
                inner if kin is not None and kin.within == field.name else None,
                strict=strict,
            ),
        )
        for field in fields
    ]
    if kin is not None and not kin.within:
        readers = list(_adapt(readers, kin))
    tagged = flexible and wanted is None

    def read(buffer: Buffer) -> Fields:
        out = {name: read_field(buffer) for name, read_field in readers}
        if tagged:
            buffer.skip_tags()
        return out

    return read


def _adapt(readers: list[tuple[str, Read]], kin: SimilarVersion) -> Iterator[tuple[str, Read]]:
    added = {behind: kind for kind, behind in kin.added}
    for name, read in readers:
        if name in added:
            yield f"before {name}", _FIXED[added[name]]
        if name not in kin.removed:
            yield name, read
    for kind, name in kin.appended:
        yield name, _FIXED[kind]


def _require_absence(mark: int) -> None:
    if mark >= 0:
        raise DecodeError("found a struct that the request did not want")


def _field_reader(
    field: dataclasses.Field[Any],
    hint: Any,
    flexible: bool,
    kin: SimilarVersion | None = None,
    *,
    strict: bool = False,
) -> Read:
    nullable = isinstance(hint, UnionType)
    if nullable:
        hint = next(arg for arg in get_args(hint) if arg is not type(None))
    kind = field.metadata.get("kafka_type")
    if not kind and getattr(hint, "__origin__", None) is not tuple:
        struct = _struct_reader(hint, strict=strict)
        return _nullable_reader(struct) if nullable else struct
    read = _value_reader(kind, hint, flexible, kin, strict=strict)
    return _require_value(field.name, read) if strict and not nullable else read


def _value_reader(
    kind: str | None, hint: Any, flexible: bool, kin: SimilarVersion | None, *, strict: bool
) -> Read:
    """Return the reader of a scalar, or of an array of scalars or structs."""
    if getattr(hint, "__origin__", None) is not tuple:
        return _scalar_reader(str(kind), flexible)
    if kind == "int32":
        return _numbers_reader(flexible)
    if kind:
        element = _scalar_reader(kind, flexible)
        return _array_reader(_require_value(kind, element) if strict else element, flexible)
    return _structs_reader(_struct_reader(get_args(hint)[0], kin=kin, strict=strict), flexible)


def _require_value(name: str, read: Read) -> Read:
    def read_value(buffer: Buffer) -> Any:
        value = read(buffer)
        if value is None:
            raise DecodeError(f"{name} is null")
        return value

    return read_value


def _scalar_reader(kind: str, flexible: bool) -> Read:
    return _FIXED.get(kind) or _TEXT[kind, flexible]


def _array_reader(element: Read, flexible: bool) -> Read:
    def read(buffer: Buffer) -> list[Any] | None:
        count = buffer.varint() - 1 if flexible else buffer.int32()
        return None if count < 0 else buffer.array(element, count)

    return read


def _structs_reader(element: Read, flexible: bool) -> Read:
    def read(buffer: Buffer) -> list[Any] | None:
        count = buffer.varint() - 1 if flexible else buffer.int32()
        return None if count < 0 else buffer.structs(element, count)

    return read


def _numbers_reader(flexible: bool) -> Read:
    def read(buffer: Buffer) -> list[int] | None:
        count = buffer.varint() - 1 if flexible else buffer.int32()
        return None if count < 0 else buffer.int32s(count)

    return read


def _nullable_reader(struct: Read) -> Read:
    def read(buffer: Buffer) -> Any:
        return None if buffer.int8() < 0 else struct(buffer)

    return read
