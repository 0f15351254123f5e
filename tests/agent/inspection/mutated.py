"""Simulated brokers whose responses have some hostile fields.

The encoder is the test's own: it writes values that a broker's own writer refuses, such as a null
where the schema has none, a count that is no count, or text that is not UTF-8.
"""

import dataclasses
import random
import struct
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from types import UnionType
from typing import Any, get_args, get_type_hints
from uuid import UUID

from kio.index import load_response_schema

from agent.inspection.connection.admin_requests import Api
from agent.wire.codec.schema import Fields
from tests.agent.inspection.simulated import Simulated

_INTS = {
    "bool": "b",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "error_code": "h",
}
_TEXTS = (
    None,
    b"",
    b"orders",
    b"clicks",
    b"127.0.0.1",
    b"[::1",
    b"a..b",
    b"a\0b",
    b"Dead",
    b"Rebalancing",
    b"share",
    b"sr",
    b"connect",
    b"re:(",
    b"\xed\xa0\x80",
    b"\xff",
    "\u202e\x1b[2J\r\n|<script>".encode(),
    "\u00e9\U0001f4a5".encode(),
    b"x" * 30_000,
    b"1" * 5_000,
)
_BYTES = (None, b"", b"\0", b"\0\0", b"\xff" * 64, b"{" * 2_000, b"[" * 100_000, b'{"host": 1}')


@dataclass(slots=True)
class Mutated(Simulated):
    """A cluster that changes each field of its responses with the chance ``rate``."""

    rate: float = 0.0
    dice: random.Random = field(default_factory=random.Random)

    def encoded(self, node_id: int, api: Api, version: int, asked: Fields) -> bytes:
        schema = load_response_schema(api, version)
        encoder = Encoder(self.dice, self.rate)
        encoder.struct(schema, self._answer(node_id, api, asked))
        out = bytes(encoder.out)
        if self.dice.random() < self.rate / 4:
            out = out[: self.dice.randrange(len(out) + 1)]
        if self.dice.random() < self.rate / 4:
            out += self.dice.randbytes(self.dice.randrange(64))
        return out


class Encoder:
    """Writes a message by its schema, with mutations."""

    def __init__(self, dice: random.Random, rate: float) -> None:
        self.out = bytearray()
        self._dice, self._rate = dice, rate

    def struct(self, schema: Any, values: Fields) -> None:
        flexible = bool(schema.__flexible__)
        for each, hint in _fields(schema):
            self._field(each, hint, values.get(each.name), flexible)
        if flexible:
            self._varint(0)

    def _field(self, each: dataclasses.Field[Any], hint: Any, value: Any, flexible: bool) -> None:
        nullable = isinstance(hint, UnionType)
        hint = next(h for h in get_args(hint) if h is not type(None)) if nullable else hint
        kind = each.metadata.get("kafka_type")
        if getattr(hint, "__origin__", None) is tuple:
            self._array(kind or get_args(hint)[0], value, flexible, nullable)
        elif kind:
            self._scalar(kind, value, flexible, nullable)
        elif nullable:
            self.out += b"\xff" if value is None else b"\x01"
            if value is not None:
                self.struct(hint, value)
        else:
            self.struct(hint, value or {})

    def _array(self, kind: Any, value: Any, flexible: bool, nullable: bool) -> None:
        elements = value if value is not None or nullable else ()
        if self._is_hit():
            elements = self._other_elements(list(elements or ()))
        count = -1 if elements is None else len(elements)
        if self._is_hit(8):
            count = self._dice.choice((-1, -2, 1 << 20, (1 << 31) - 1, count + 1))
        self._count(count, flexible)
        for each in elements or ():
            if isinstance(kind, str):
                self._scalar(kind, each, flexible, nullable=False)
            else:
                self.struct(kind, each)

    def _other_elements(self, elements: list[Any]) -> list[Any] | None:
        match self._dice.randrange(5):
            case 0:
                return None
            case 1:
                return []
            case 2:
                return elements * 2
            case 3:
                return elements[1:]
            case _:
                return elements[::-1] * self._dice.choice((1, 3))

    def _scalar(self, kind: str, value: Any, flexible: bool, nullable: bool) -> None:
        if kind in _INTS:
            self._number(_INTS[kind], value)
        elif kind == "uuid":
            self.out += (value or UUID(int=0)).bytes
        else:
            self._text(kind, value, flexible, nullable)

    def _number(self, form: str, value: Any) -> None:
        if isinstance(value, timedelta):
            value = int(value.total_seconds() * 1000)
        value = int(value or 0)
        if self._is_hit():
            bits = 8 * struct.calcsize(form)
            high = (1 << bits if form == "H" else 1 << (bits - 1)) - 1
            low = 0 if form == "H" else -high - 1
            some = (low, high, 0, -1, 1, 2, value + 1, 15, 16, 29, 30, 35, 69, 9092, 70_000)
            value = min(high, max(low, self._dice.choice(some)))
        self.out += struct.pack(">" + form, value)

    def _text(self, kind: str, value: Any, flexible: bool, nullable: bool) -> None:
        data = value.encode() if isinstance(value, str) else value
        if data is None and not nullable:
            data = b""
        if self._is_hit():
            data = self._dice.choice(
                _TEXTS if kind == "string" else (*_BYTES, *cuts(data, self._dice))
            )
        size = -1 if data is None else len(data)
        if flexible:
            self._varint(size + 1)
        else:
            self.out += struct.pack(">h" if kind == "string" else ">i", size)
        self.out += data or b""

    def _count(self, count: int, flexible: bool) -> None:
        if flexible:
            self._varint((count + 1) % (1 << 32))
        else:
            self.out += struct.pack(">i", count)

    def _varint(self, value: int) -> None:
        while value >= 0x80:
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)

    def _is_hit(self, rarer: int = 1) -> bool:
        return self._dice.random() < self._rate / rarer


def cuts(data: bytes | None, dice: random.Random) -> list[bytes]:
    """Return pieces of some bytes, and the bytes with another one among them."""
    data = data or b"\0"
    at = dice.randrange(len(data))
    return [data[:at], data[at:], data[:at] + dice.randbytes(1) + data[at + 1 :], data * 2]


@cache
def _fields(schema: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = get_type_hints(schema)
    fields = [each for each in dataclasses.fields(schema) if "tag" not in each.metadata]
    return [(each, hints[each.name]) for each in fields]
