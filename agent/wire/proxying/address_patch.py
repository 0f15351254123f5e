"""A reader of a response's start that notes the changes of addresses on its way."""

import struct
from collections.abc import Callable
from typing import NamedTuple

from agent.errors import DecodeError

Route = Callable[[str, int], tuple[str, int] | None]
"""The address under which clients reach a broker's; None leaves it unchanged."""
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_VARINT_BYTES = 5


class TruncatedError(DecodeError):
    """More bytes of the response are needed: at least ``missing``."""

    def __init__(self, missing: int) -> None:
        super().__init__(f"{missing} bytes more wanted")
        self.missing = missing


class RewrittenHead(NamedTuple):
    """``head`` takes the place of the response's first ``consumed`` bytes."""

    head: bytes
    consumed: int


class AddressReader:
    """A position in a response, and the changes before it."""

    __slots__ = ("_data", "_flexible", "_kept", "_out", "_route", "at")

    def __init__(self, data: bytes, route: Route, *, flexible: bool) -> None:
        self._data, self._route, self._flexible = data, route, flexible
        self.at = self._kept = 0
        self._out: list[bytes] = []

    def skip(self, size: int) -> None:
        """Pass over bytes."""
        self.at += size
        if self.at > len(self._data):
            raise TruncatedError(self.at - len(self._data))

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
        """Pass over tagged fields, if the version has any."""
        if self._flexible:
            for _ in range(self.varint()):
                self.varint()
                self.skip(self.varint())

    def rewrite_address(self) -> None:
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

    def take_part(self, size: int) -> "AddressReader":
        """Return a reader of the next bytes alone, and pass over them."""
        self.skip(size)
        data = self._data[self.at - size : self.at]
        return AddressReader(data, self._route, flexible=self._flexible)

    def result(self) -> RewrittenHead:
        return RewrittenHead(b"".join((*self._out, self._data[self._kept : self.at])), self.at)

    def _address(self, host: str, port: int) -> bytes:
        text = host.encode()
        size = encode_varint(len(text) + 1) if self._flexible else _INT16.pack(len(text))
        return size + text + _INT32.pack(port)


def encode_varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
