"""IP packets for tests, from their IP header on."""

import ipaddress
import struct
from typing import NamedTuple

from agent.sources.capture.bpf import ConnectionKey

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
_PUSH_ACK = 0x18
Address = tuple[str, int]


class Talk(NamedTuple):
    """A connection."""

    client: Address
    server: Address

    @property
    def ends(self) -> ConnectionKey:
        return ConnectionKey(_endpoint(self.client), _endpoint(self.server))


V4 = Talk(("10.0.0.2", 40_000), ("10.0.0.9", 9092))
V6 = Talk(("fd00::2", 40_000), ("fd00::9", 9092))


def to_broker(
    talk: Talk,
    payload: bytes,
    flags: int = _PUSH_ACK,
    *,
    seq: int = 0,
    ack: int = 0,
    options: bytes = b"",
) -> bytes:
    """Return a packet of the client."""
    return _packet(talk.client, talk.server, _tcp(payload, flags, seq, ack, options))


def from_broker(
    talk: Talk,
    payload: bytes,
    flags: int = _PUSH_ACK,
    *,
    seq: int = 0,
    ack: int = 0,
    options: bytes = b"",
) -> bytes:
    """Return a packet of the broker."""
    return _packet(talk.server, talk.client, _tcp(payload, flags, seq, ack, options))


def _tcp(payload: bytes, flags: int, seq: int, ack: int, options: bytes) -> bytes:
    offset = (5 + len(options) // 4) << 4
    return struct.pack(">IIBBHHH", seq, ack, offset, flags, 65535, 0, 0) + options + payload


def _packet(source: Address, target: Address, tcp: bytes) -> bytes:
    one, other = (ipaddress.ip_address(each[0]) for each in (source, target))
    body = struct.pack(">HH", source[1], target[1]) + tcp
    if one.version == 4:
        head = struct.pack(">BxHxxxxBBxx", 0x45, (20 + len(body)) % (1 << 16), 64, 6)
    else:
        head = struct.pack(">IHBB", 6 << 28, len(body) % (1 << 16), 6, 64)
    return head + one.packed + other.packed + body


def _endpoint(address: Address) -> bytes:
    return ipaddress.ip_address(address[0]).packed + address[1].to_bytes(2, "big")
