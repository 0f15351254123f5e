"""A captured frame's TCP segment: link layer, IPv4 and IPv6.

Link types by their numbers at https://www.tcpdump.org/linktypes.html. Anything that is no TCP, and
every IP fragment (brokers and clients avoid them by path MTU discovery), is None. Nothing raises:
odd bytes are no segment.
"""

import socket
import struct
from collections.abc import Callable
from typing import NamedTuple

from agent.wire.codec.messages import HostPort

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

_IPV4, _IPV6 = 0x0800, 0x86DD
_VLAN = {0x8100, 0x88A8, 0x9100}
_TCP = 6
_IPV4_HEADER_BYTES = 20
"""Without options; a packet that claims less has no addresses."""
_EXTENSIONS = {0, 43, 60, 135}
"""Hop-by-hop, routing, destination options, mobility: next header, length in 8 bytes minus one."""
_TCP_HEADER = struct.Struct(">HHIIBB")


class TcpSegment(NamedTuple):
    """A TCP segment. An endpoint is the address and port as they stand in the packet."""

    source: bytes
    target: bytes
    seq: int
    ack: int
    flags: int
    data: bytes
    missing: int
    """Bytes at the end of ``data`` that the capture cut off."""


def format_endpoint(endpoint: bytes) -> HostPort:
    """Return the address of an endpoint for people."""
    family = socket.AF_INET if len(endpoint) == 6 else socket.AF_INET6
    return HostPort(socket.inet_ntop(family, endpoint[:-2]), int.from_bytes(endpoint[-2:], "big"))


def read_segment(link_type: int, frame: bytes) -> TcpSegment | None:
    """Return the segment in a captured frame, if it holds one."""
    strip = _LINKS.get(link_type)
    if strip is None:
        return None
    try:
        packet = strip(frame)
        match packet[0] >> 4:
            case 4:
                return _read_ipv4(packet)
            case 6:
                return _read_ipv6(packet)
    except (IndexError, struct.error):
        return None
    return None


def is_known_link(link_type: int) -> bool:
    """Return whether frames of this link type can be read."""
    return link_type in _LINKS


def _strip_ethernet(frame: bytes) -> bytes:
    at, kind = 14, int.from_bytes(frame[12:14], "big")
    while kind in _VLAN:
        at, kind = at + 4, int.from_bytes(frame[at + 2 : at + 4], "big")
    return frame[at:] if kind in {_IPV4, _IPV6} else b"\0"


def _strip_linux_sll(frame: bytes) -> bytes:
    return frame[16:] if int.from_bytes(frame[14:16], "big") in {_IPV4, _IPV6} else b"\0"


def _strip_linux_sll2(frame: bytes) -> bytes:
    return frame[20:] if int.from_bytes(frame[:2], "big") in {_IPV4, _IPV6} else b"\0"


_LINKS: dict[int, Callable[[bytes], bytes]] = {
    0: lambda frame: frame[4:],  # BSD loopback
    1: _strip_ethernet,
    12: bytes,  # raw IP, as some systems number it
    14: bytes,
    101: bytes,  # raw IP
    108: lambda frame: frame[4:],  # OpenBSD loopback
    113: _strip_linux_sll,
    228: bytes,  # raw IPv4
    229: bytes,  # raw IPv6
    276: _strip_linux_sll2,
}


def _read_ipv4(packet: bytes) -> TcpSegment | None:
    total, fragment = struct.unpack_from(">H2xH", packet, 2)
    if packet[9] != _TCP or fragment & 0x3FFF:  # more fragments, or an offset
        return None
    head = (packet[0] & 0x0F) * 4
    if head < _IPV4_HEADER_BYTES:
        return None
    return _read_tcp(packet, head, total or len(packet), packet[12:16], packet[16:20])


def _read_ipv6(packet: bytes) -> TcpSegment | None:
    size, kind, at = int.from_bytes(packet[4:6], "big"), packet[6], 40
    while kind in _EXTENSIONS:
        kind, at = packet[at], at + 8 + 8 * packet[at + 1]
    if kind != _TCP:
        return None
    return _read_tcp(packet, at, 40 + size if size else len(packet), packet[8:24], packet[24:40])


def _read_tcp(packet: bytes, at: int, end: int, source: bytes, target: bytes) -> TcpSegment:
    """Read the segment at ``at``; ``end`` is the packet's length on the wire."""
    _, _, seq, ack, offset, flags = _TCP_HEADER.unpack_from(packet, at)
    body = at + (offset >> 4) * 4
    data = packet[body:end]  # without the padding of a short Ethernet frame
    missing = max(0, end - body - len(data))
    source, target = source + packet[at : at + 2], target + packet[at + 2 : at + 4]
    return TcpSegment(source, target, seq, ack, flags, data, missing)
