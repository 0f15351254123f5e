"""The kernel's part of a capture: a classic BPF program that passes coordinator connections only.

Theory of operation. The program runs on packets that begin with their IP header (SOCK_DGRAM). It
has one list of connections for each `FilterRule`. Of all other connections it passes handshakes,
requests for no records, and short responses. So nothing of a new connection is missed, even if it
is added to a list late. The kernel drops all other packets.

Instructions: https://docs.kernel.org/networking/filter.html. A program has 4,096 of them at most,
and its size counts against net.core.optmem_max, so the lists are bounded. A connection is known by
its two ports and the sum of its two addresses' last 32 bits: a collision passes without need, and
its reader drops it.
"""

import ctypes
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

RECORD_APIS = frozenset({0, 1, 78})
"""Produce, Fetch, ShareFetch."""
GROUP_APIS = frozenset({8, 11, 12, 13, 14, 68, 76, 88})
"""OffsetCommit, JoinGroup, Heartbeat, LeaveGroup, SyncGroup, the newer protocols' heartbeats."""
CONNECTIONS_LIMIT = 400
SHORT_BYTES = 16 << 10
"""Payload of most messages that are not records; bulk comes in segments of up to 64 KiB."""
WHOLE = 0x40000
"""Bytes of a packet that are copied: more than any has (Linux' BIG TCP is not configured so)."""
REJECT_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0)

_SO_ATTACH_FILTER = 26
_FRAME_BYTES = 8 << 20
_API_KEY_MAX, _VERSION_MAX = 255, 31
_FIN_SYN_RST = 0x07
_OTHERHOST, _OUTGOING = 3, 4
_LOOPBACK = 772
"""ARPHRD_LOOPBACK."""
_AD_PKTTYPE, _AD_HATYPE = 0xFFFFF004, 0xFFFFF01C
_SLOTS = 7
_ENDS, _ADDRESSES, _BODY, _SIZE, _ANSWER, _TOTAL, _SAVED = range(_SLOTS)
"""Scratch memory: the ports (client's first), the addresses' sum, payload's offset and size,
whether the broker sent it, the packet's length."""


class FilterRule(IntEnum):
    """The packets of a connection that pass."""

    ALL = 0
    SHORT = 1
    """No segment longer than `SHORT_BYTES`."""
    REQUESTS = 2
    """Requests of the group APIs, nothing else."""


class ConnectionKey(NamedTuple):
    """A connection, by the endpoints (address and port) as they stand in its packets."""

    client: bytes
    server: bytes


class _Op(NamedTuple):
    """An instruction, or (without a code) a label. A jump goes to the next label of that name."""

    code: int | None
    k: int = 0
    yes: str = ""
    no: str = ""
    name: str = ""


def build_program(ports: Sequence[int], connections: Mapping[ConnectionKey, FilterRule]) -> bytes:
    """Return the program for brokers at ``ports``."""
    lists = [[ends for ends, what in connections.items() if what is each] for each in FilterRule]
    return _assemble(
        [
            *_IP,
            *_tcp(ports),
            *_drop_before("known"),
            _load(_ENDS),
            *_find(lists[FilterRule.ALL], [_ret(WHOLE)]),
            *_find(
                lists[FilterRule.SHORT], [_load(_SIZE), _jump_gt(SHORT_BYTES, "drop"), _ret(WHOLE)]
            ),
            *_find(
                lists[FilterRule.REQUESTS],
                [_load(_ANSWER), _Op(_JEQ, 1, yes="drop"), _Op(_JA, yes="group request")],
            ),
            *_UNKNOWN,
            *_GROUP_REQUEST,
        ]
    )


def attach_program(sock: socket.socket, code: bytes) -> None:
    """Replace the program, at once and without a packet in between.

    Raises:
        OSError: ENOMEM if it is too long for the kernel's net.core.optmem_max.

    """
    instructions = ctypes.create_string_buffer(code, len(code))
    fprog = struct.pack("@HP", len(code) // 8, ctypes.addressof(instructions))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, fprog)


_LDB, _LDH, _LDW, _LD_LEN, _LD_MEM = 0x30, 0x28, 0x20, 0x80, 0x60
_LDB_X, _LDH_X, _LDW_X = 0x50, 0x48, 0x40
_LD, _LDX, _LDX_MEM, _LDX_HEADER, _ST, _STX, _TAX = 0x00, 0x01, 0x61, 0xB1, 0x02, 0x03, 0x07
_ADD, _ADD_X, _SUB_X, _OR_X, _LSH, _RSH = 0x04, 0x0C, 0x1C, 0x4C, 0x64, 0x74
_JA, _JEQ, _JEQ_X, _JGT, _JSET, _RET = 0x05, 0x15, 0x1D, 0x25, 0x45, 0x06


def _label(name: str) -> _Op:
    return _Op(None, name=name)


def _load(slot: int) -> _Op:
    return _Op(_LD_MEM, slot)


def _ret(size_bytes: int) -> _Op:
    return _Op(_RET, size_bytes)


def _jump_gt(limit: int, to: str) -> _Op:
    return _Op(_JGT, limit, yes=to)


def _drop_before(name: str) -> list[_Op]:
    """Insert a nearby end for all jumps that drop a packet; the program continues after it."""
    return [_Op(_JA, yes=name), _label("drop"), _ret(0), _label(name)]


def _sum_addresses(source: int, target: int) -> list[_Op]:
    return [
        _Op(_LDW, source),
        _Op(_TAX),
        _Op(_LDW, target),
        _Op(_ADD_X),
        _Op(_ST, _ADDRESSES),
    ]


_IP = [
    # the kernel wants each slot stored before it is loaded, and does not look past a return
    _Op(_LD, 0),
    *(_Op(_ST, slot) for slot in range(_SLOTS)),
    # loopback shows each packet as it goes out and as it comes in
    _Op(_LDB, _AD_PKTTYPE),
    _Op(_JEQ, _OTHERHOST, yes="drop"),
    _Op(_JEQ, _OUTGOING, no="network"),
    _Op(_LDW, _AD_HATYPE),
    _Op(_JEQ, _LOOPBACK, yes="drop"),
    _label("network"),
    _Op(_LDB, 0),
    _Op(_RSH, 4),
    _Op(_JEQ, 6, yes="ipv6"),
    _Op(_JEQ, 4, no="drop"),
    _Op(_LDB, 9),
    _Op(_JEQ, socket.IPPROTO_TCP, no="drop"),
    _Op(_LDH, 6),
    _Op(_JSET, 0x3FFF, yes="drop"),  # a fragment
    *_sum_addresses(12, 16),
    _Op(_LDX_HEADER, 0),
    _Op(_LDH, 2),
    _Op(_JEQ, 0, yes="length", no="total"),
    _label("ipv6"),
    _Op(_LDB, 6),
    _Op(_JEQ, socket.IPPROTO_TCP, no="drop"),  # no stack sends TCP behind extension headers
    *_sum_addresses(20, 36),
    _Op(_LDX, 40),
    _Op(_LDH, 4),
    _Op(_JEQ, 0, yes="length"),
    _Op(_ADD, 40),
    _Op(_JA, yes="total"),
    _label("length"),  # BIG TCP: the header cannot hold it
    _Op(_LD_LEN),
    _label("total"),
    _Op(_ST, _TOTAL),
    *_drop_before("tcp"),
]
"""Leaves the TCP header's offset in X."""


def _tcp(ports: Sequence[int]) -> list[_Op]:
    """Find the connection, the sender and the size of a packet; handshakes and ends pass."""
    return [
        _Op(_LDH_X, 2),
        *(_Op(_JEQ, port, yes="request") for port in ports),
        _Op(_LDH_X, 0),
        *(_Op(_JEQ, port, yes="from broker") for port in ports),
        _ret(0),
        _label("from broker"),
        _Op(_STX, _SAVED),
        _Op(_ST, _ENDS),
        _Op(_LDH_X, 2),
        _Op(_LSH, 16),
        _Op(_LDX_MEM, _ENDS),
        _Op(_OR_X),
        _Op(_ST, _ENDS),
        _Op(_LDX_MEM, _SAVED),
        _Op(_LD, 1),
        _Op(_ST, _ANSWER),
        _Op(_JA, yes="flags"),
        _label("request"),
        _Op(_LDW_X, 0),
        _Op(_ST, _ENDS),
        _label("flags"),
        _Op(_LDB_X, 13),
        _Op(_JSET, _FIN_SYN_RST, no="body"),
        _ret(WHOLE),
        _label("body"),
        _Op(_LDB_X, 12),
        _Op(_RSH, 4),
        _Op(_LSH, 2),
        _Op(_ADD_X),
        _Op(_ST, _BODY),
        _Op(_TAX),
        _load(_TOTAL),
        _Op(_SUB_X),
        _Op(_ST, _SIZE),
        _Op(_JEQ, 0, yes="drop"),
    ]


def _find(connections: Iterable[ConnectionKey], then: list[_Op]) -> Iterator[_Op]:
    """Look for the packet's connection in a list; ``then`` ends the program."""
    for ends in connections:
        yield _Op(_JEQ, _ports(ends), no="next")
        yield _load(_ADDRESSES)
        yield _Op(_JEQ, _addresses(ends), no="other")
        yield from then
        yield from (_label("drop"), _ret(0), _label("other"), _load(_ENDS), _label("next"))


def _ports(ends: ConnectionKey) -> int:
    return int.from_bytes(ends.client[-2:] + ends.server[-2:], "big")


def _addresses(ends: ConnectionKey) -> int:
    return sum(int.from_bytes(each[-6:-2], "big") for each in ends) & 0xFFFFFFFF


_UNKNOWN = [
    _load(_SIZE),
    _jump_gt(SHORT_BYTES, "group request"),
    _Op(_LDX_MEM, _BODY),
    _Op(_LDW_X, 0),
    _Op(_ADD, 4),
    _Op(_TAX),
    _load(_SIZE),
    _Op(_JEQ_X, no="group request"),  # not exactly one frame
    _load(_ANSWER),
    _Op(_JEQ, 1, no="request"),
    _ret(WHOLE),
    _label("request"),
    _Op(_LDX_MEM, _BODY),
    _Op(_LDH_X, 4),
    *(_Op(_JEQ, key, yes="drop") for key in sorted(RECORD_APIS)),
    _Op(_JA, yes="head"),
]

_GROUP_REQUEST = [
    _label("group request"),
    _load(_ANSWER),
    _Op(_JEQ, 1, yes="drop"),
    _Op(_LDX_MEM, _BODY),
    _Op(_LDH_X, 4),
    *(_Op(_JEQ, key, yes="head") for key in sorted(GROUP_APIS)),
    _ret(0),
    _label("head"),
    _Op(_LDH_X, 4),
    _jump_gt(_API_KEY_MAX, "drop"),
    _Op(_LDH_X, 6),
    _jump_gt(_VERSION_MAX, "drop"),
    _Op(_LDW_X, 0),
    _jump_gt(_FRAME_BYTES, "drop"),
    _Op(_LDW_X, 8),
    _Op(_JSET, 0x80000000, yes="drop"),  # correlation ids are not negative
    _ret(WHOLE),
    _label("drop"),
    _ret(0),
]


def _assemble(ops: Sequence[_Op]) -> bytes:
    """Resolve the labels, from the end: a jump goes to the next one of its name."""
    at, places, out = 0, dict[str, int](), list[bytes]()
    for op in reversed(ops):
        if op.code is None:
            places[op.name] = at
            continue
        yes = at - places[op.yes] if op.yes else 0
        no = at - places[op.no] if op.no else 0
        if op.code == _JA:
            out.append(struct.pack("=HBBI", op.code, 0, 0, yes))
        else:
            out.append(struct.pack("=HBBI", op.code, yes, no, op.k))
        at += 1
    return b"".join(reversed(out))
