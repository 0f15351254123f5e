"""Rewrites the broker addresses in an answer's first bytes; nothing else in it changes.

Theory of operation. Whatever names a broker stands near the start of its answer, but for Produce's
new leaders (KIP-951), whose answers are small. So a prefix is read by hand up to the last address
and replaced; what follows passes unread. Brokers also name new leaders at the far end of a Fetch
answer, behind the records: there the version is held below the one that has them (`_cap_versions`),
which costs the client nothing but a Metadata request.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from agent.errors import DecodeError

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS, DESCRIBE_CLUSTER = 0, 1, 3, 10, 18, 60
Route = Callable[[str, int], tuple[str, int] | None]
"""Where clients reach a broker's host and port; None leaves the address as it is."""

_VERSIONS = {
    PRODUCE: range(10, 14),
    METADATA: range(14),
    FIND_COORDINATOR: range(7),
    API_VERSIONS: range(5),
    DESCRIBE_CLUSTER: range(3),
}
"""The versions that are read. Produce's have addresses since KIP-951."""
_LAST_VERSION = {
    PRODUCE: 13,
    FETCH: 15,  # KIP-951 came with 16; 17 and 18 are for replicas
    METADATA: 13,
    FIND_COORDINATOR: 6,
    DESCRIBE_CLUSTER: 2,
}
"""What clients may use at most, so that no address passes by."""
_FIRST_FLEXIBLE = {PRODUCE: 9, METADATA: 9, FIND_COORDINATOR: 3, DESCRIBE_CLUSTER: 0}
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_VERSION_RANGE = struct.Struct(">hhh")
_VARINT_BYTES = 5


class TruncatedError(DecodeError):
    """More bytes of the answer are needed."""


class Rewritten(NamedTuple):
    """``head`` takes the place of the answer's first ``consumed`` bytes."""

    head: bytes
    consumed: int


def has_addresses(api_key: int, version: int) -> bool:
    """Tell whether `rewrite` reads the answers of an API's version."""
    return version in _VERSIONS.get(api_key, ())


def is_too_new(api_key: int, version: int) -> bool:
    """Tell whether an API's version may have addresses that nobody here can read."""
    return version > _LAST_VERSION.get(api_key, version)


def rewrite(api_key: int, version: int, data: bytes, route: Route) -> Rewritten:
    """Rewrite an answer, of which ``data`` is the start, from its correlation id on.

    Raises:
        TruncatedError: the addresses are not complete yet.
        DecodeError: odd bytes.

    """
    if api_key == API_VERSIONS:
        return _cap_versions(version, data)
    reader = _Reader(data, route, flexible=version >= _FIRST_FLEXIBLE[api_key])
    reader.skip(4)  # correlation id
    reader.tags()
    _WALKS[api_key](reader, version)
    return reader.rewritten()


class _Reader:
    """A position in an answer, and what changes before it."""

    __slots__ = ("_data", "_flexible", "_kept", "_out", "_route", "at")

    def __init__(self, data: bytes, route: Route, *, flexible: bool) -> None:
        self._data, self._route, self._flexible = data, route, flexible
        self.at = self._kept = 0
        self._out: list[bytes] = []

    def skip(self, size: int) -> None:
        """Pass over bytes."""
        self.at += size
        if self.at > len(self._data):
            raise TruncatedError(f"{self.at - len(self._data)} bytes more wanted")

    def int32(self) -> int:
        self.skip(4)
        value: int = _INT32.unpack_from(self._data, self.at - 4)[0]
        return value

    def varint(self) -> int:
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES, 7):
            self.skip(1)
            byte = self._data[self.at - 1]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise DecodeError("a varint of more than five bytes")

    def count(self) -> int:
        return self.varint() - 1 if self._flexible else self.int32()

    def text(self) -> bytes:
        if self._flexible:
            size = self.varint() - 1
        else:
            self.skip(2)
            size = _INT16.unpack_from(self._data, self.at - 2)[0]
        start = self.at
        self.skip(max(0, size))
        return self._data[start : self.at]

    def tags(self) -> None:
        """Pass over tagged fields, where the version has any."""
        if self._flexible:
            for _ in range(self.varint()):
                self.varint()
                self.skip(self.varint())

    def node(self) -> None:
        """Read a node id, its host and its port, and have the address rewritten."""
        self.skip(4)
        start = self.at
        host = self.text()
        port = self.int32()
        try:
            routed = self._route(host.decode(), port) if host and port > 0 else None
        except UnicodeDecodeError as error:
            raise DecodeError(f"a host is not UTF-8: {host!r}") from error
        if routed is not None:
            self.replace(start, self._address(*routed))

    def replace(self, start: int, by: bytes) -> None:
        """Put bytes in the place of those from ``start`` up to here."""
        self._out += (self._data[self._kept : start], by)
        self._kept = self.at

    def part(self, size: int) -> "_Reader":
        """Return a reader of the next bytes alone, and pass over them."""
        self.skip(size)
        data = self._data[self.at - size : self.at]
        return _Reader(data, self._route, flexible=self._flexible)

    def rewritten(self) -> Rewritten:
        return Rewritten(b"".join((*self._out, self._data[self._kept : self.at])), self.at)

    def _address(self, host: str, port: int) -> bytes:
        text = host.encode()
        size = varint(len(text) + 1) if self._flexible else _INT16.pack(len(text))
        return size + text + _INT32.pack(port)


def varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _metadata(reader: _Reader, version: int) -> None:
    if version >= 3:
        reader.skip(4)  # throttle time
    for _ in range(reader.count()):
        reader.node()
        if version >= 1:
            reader.text()  # rack
        reader.tags()


def _find_coordinator(reader: _Reader, version: int) -> None:
    if version >= 1:
        reader.skip(4)  # throttle time
    if version < 4:
        reader.skip(2)  # error
        if version >= 1:
            reader.text()  # its message
        reader.node()
        return
    for _ in range(reader.count()):
        reader.text()  # key
        reader.node()
        reader.skip(2)  # error
        reader.text()  # its message
        reader.tags()


def _describe_cluster(reader: _Reader, version: int) -> None:
    reader.skip(4 + 2)  # throttle time, error
    reader.text()  # its message
    if version >= 1:
        reader.skip(1)  # kind of endpoints
    reader.text()  # cluster id
    reader.skip(4)  # controller
    for _ in range(reader.count()):
        reader.node()
        reader.text()  # rack
        if version >= 2:
            reader.skip(1)  # whether it is fenced
        reader.tags()


def _produce(reader: _Reader, version: int) -> None:
    for _ in range(reader.count()):
        if version >= 13:
            reader.skip(16)  # topic id
        else:
            reader.text()  # topic
        for _ in range(reader.count()):
            reader.skip(4 + 2 + 8 + 8 + 8)  # partition, error, base offset, time, start offset
            for _ in range(reader.count()):
                reader.skip(4)  # index in the batch
                reader.text()  # what is wrong with this record
                reader.tags()
            reader.text()  # the error's message
            reader.tags()
        reader.tags()
    reader.skip(4)  # throttle time
    for _ in range(reader.varint()):
        tag, start = reader.varint(), reader.at
        field = reader.part(reader.varint())
        if tag == 0:
            _endpoints(field)
            changed = field.rewritten().head
            reader.replace(start, varint(len(changed)) + changed)


def _endpoints(reader: _Reader) -> None:
    for _ in range(reader.count()):
        reader.node()
        reader.text()  # rack
        reader.tags()


_WALKS: dict[int, Callable[[_Reader, int], None]] = {
    PRODUCE: _produce,
    METADATA: _metadata,
    FIND_COORDINATOR: _find_coordinator,
    DESCRIBE_CLUSTER: _describe_cluster,
}


def _cap_versions(version: int, data: bytes) -> Rewritten:
    """Hold APIs with addresses to the versions that are read; the size stays."""
    flexible = version >= 3
    reader = _Reader(data, lambda _host, _port: None, flexible=flexible)
    reader.skip(4 + 2)  # correlation id (its header has no tags in any version), error
    if data[4:6] != b"\0\0":  # such an answer may be of version 0, whatever was asked
        return reader.rewritten()
    for _ in range(reader.count()):
        start = reader.at
        reader.skip(_VERSION_RANGE.size)
        api_key, first, last = _VERSION_RANGE.unpack_from(data, start)
        capped = max(first, min(last, _LAST_VERSION.get(api_key, last)))
        if capped != last:
            reader.replace(start, _VERSION_RANGE.pack(api_key, first, capped))
        reader.tags()
    return reader.rewritten()
