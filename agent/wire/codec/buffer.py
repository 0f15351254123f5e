"""A reader of big-endian fields; any fault in the bytes is a `DecodeError`.

It serves the parts that no schema covers or that must survive unknown versions: embedded
subscriptions, Kafka Streams' user data, the head of a Metadata response.
"""

import struct
from collections.abc import Callable
from typing import TypeVar

from agent.errors import DecodeError
from metrics.model.names import NAME_MAX_CHARS, clip_name

_T = TypeVar("_T")
_INT8, _INT16, _UINT16 = struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">H")
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")
ELEMENT_LIMIT = 250_000
"""Array elements of one message: more than a member has partitions (brokers advise 200,000 for a
whole cluster), and some 50 MB as Python objects."""
_VARINT_BYTES = 5
"""An unsigned varint of 32 bits takes five bytes at most."""


class Buffer:
    """A position in some bytes. Every method raises `DecodeError` beyond their end."""

    __slots__ = ("_at", "_data", "_element_limit", "_elements", "_struct_weight", "clipped_names")

    def __init__(
        self, data: bytes, element_limit: int = ELEMENT_LIMIT, *, struct_weight: int = 1
    ) -> None:
        """A structure in an array counts as ``struct_weight`` elements."""
        self._data = data
        self._element_limit, self._struct_weight = element_limit, struct_weight
        self._at = 0
        self._elements = 0
        self.clipped_names = 0
        """Texts that were longer than a name may be."""

    @property
    def is_at_end(self) -> bool:
        """Whether no byte is left."""
        return self._at >= len(self._data)

    def int8(self) -> int:
        return self._int(_INT8)

    def int16(self) -> int:
        return self._int(_INT16)

    def int32(self) -> int:
        return self._int(_INT32)

    def int64(self) -> int:
        return self._int(_INT64)

    def uint16(self) -> int:
        return self._int(_UINT16)

    def take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise DecodeError(f"{size} bytes wanted, {len(self._data) - self._at} left")
        out, self._at = self._data[self._at : end], end
        return out

    def text(self, size: int) -> str:
        """Read a name; Kafka allows 32 KiB, a long one is clipped."""
        try:
            text = self.take(size).decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"text is not UTF-8: {error}") from error
        if len(text) <= NAME_MAX_CHARS:
            return text
        self.clipped_names += 1
        return clip_name(text)

    def string(self) -> str:
        """Read Kafka's STRING."""
        return self.text(self.int16())

    def nullable_string(self) -> str | None:
        size = self.int16()
        return None if size == -1 else self.text(size)

    def java_utf(self) -> str:
        """Read the output of ``DataOutputStream.writeUTF`` (host and topic names are plain)."""
        return self.text(self.uint16())

    def nullable_bytes(self) -> bytes:
        """Read Kafka's BYTES; null and empty are the same to us."""
        size = self.int32()
        return b"" if size == -1 else self.take(size)

    def compact_string(self) -> str | None:
        size = self.varint()
        return None if size == 0 else self.text(size - 1)

    def compact_bytes(self) -> bytes:
        size = self.varint()
        return b"" if size == 0 else self.take(size - 1)

    def varint(self) -> int:
        at = self._at
        if at < len(self._data) and self._data[at] < 0x80:  # nearly every one
            self._at = at + 1
            return self._data[at]
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise DecodeError("a varint of more than five bytes")

    def skip_tags(self) -> None:
        """Pass over the tagged fields of a flexible version."""
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())

    def int32s(self, count: int) -> list[int]:
        """Read ``count`` numbers at once; they cost less than others do, and count like them."""
        self._count(count)
        return list(struct.unpack(f">{count}i", self.take(4 * count)))

    def array(self, read: Callable[["Buffer"], _T], count: int) -> list[_T]:
        """Read ``count`` elements; each takes a byte at least, so a false count fails at once."""
        self._count(count)
        return [read(self) for _ in range(count)]

    def structs(self, read: Callable[["Buffer"], _T], count: int) -> list[_T]:
        """Read ``count`` structures, as `array` does."""
        self._count(count, self._struct_weight)
        return [read(self) for _ in range(count)]

    def _count(self, count: int, weight: int = 1) -> None:
        if count > 0:
            self._elements += count * weight
            if count > len(self._data) - self._at or self._elements > self._element_limit:
                raise DecodeError(f"an array of {count} in {len(self._data) - self._at} bytes")

    def _int(self, field: struct.Struct) -> int:
        try:
            value: int = field.unpack_from(self._data, self._at)[0]
        except struct.error as error:
            raise DecodeError(f"{field.size} bytes wanted: {error}") from error
        self._at += field.size
        return value
