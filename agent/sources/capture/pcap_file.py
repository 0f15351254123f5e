"""Recorded packets: pcap and pcapng files, gzipped ones too, and either of them on stdin.

Formats: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html and
https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html. Read here and not by a library:
each interface of a capture has its own link type and time resolution, and a file that ends within a
packet (the capture was killed) must yield all before it (docs/decisions/0041-pcap-reader.md).
"""

import gzip
import heapq
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from agent.errors import SourceError, reason_of
from agent.sources.base import TICK_S, Tick
from agent.sources.capture.capture_faults import CaptureFaults
from agent.sources.capture.magic_numbers import GZIP, PCAP, PCAPNG
from agent.sources.lines.whole_files.recordings import Failed, fail
from agent.wire.connection import ConnectionClosed, DecodedRequest, Event
from agent.wire.decoder_errors import decode_safely
from agent.wire.members.disconnects import DisconnectTracker, EndedOrigin
from agent.wire.members.group_decoder import GroupDecoder
from agent.wire.tcp.packets import is_known_link, read_segment
from agent.wire.tcp.sessions import TcpSessions
from metrics.model.signals import Signal

_SECTION, _INTERFACE, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 3, 6
_BYTE_ORDER = 0x1A2B3C4D
_IF_TSRESOL = 9
_NO_LINK = -1
_PATIENCE_PACKETS = 16
"""Packets that may come before an earlier one: a recording waits without cost."""
_INTERFACES_MAX = 10_000
"""Of a section; packets of further ones are counted as of an unknown link type."""
_PACKET_BYTES_MAX = 16 << 20
"""No capture has longer packets (libpcap's own limit is 256 KiB, of USB 128 MiB)."""


class Packet(NamedTuple):
    """A captured frame; ``at`` is Unix seconds."""

    at: float
    link_type: int
    data: bytes


Reads = Generator[Packet, None, bool]
"""Packets, and whether the file is complete."""


class CaptureInterface(NamedTuple):
    """A pcapng section's description of an interface."""

    link_type: int
    unit_s: float


_NO_INTERFACE = CaptureInterface(_NO_LINK, 0.0)
"""Of a packet that names none; it has no time."""


def signals(
    paths: Iterable[str],
    cluster: str,
    counts: Counter[str],
    failed: Failed = fail,
    faults: CaptureFaults | None = None,
) -> Generator[Signal | Tick, None, int]:
    """Yield the captures' signals, by time; return the number of requests.

    Several files are one capture, cut or side by side. ``counts`` takes unreadable input, by a
    short reason, ``failed`` the SourceError of a file that cannot be read or is no capture; if it
    raises none, the others go on. ``faults`` takes every segment.
    """
    sessions = TcpSessions(counts, patience=_PATIENCE_PACKETS)
    interpreter = GroupDecoder(cluster, counts)
    disconnects = DisconnectTracker(interpreter.registry)
    decode = partial(_decode, interpreter, disconnects)
    captures = [_report_failure(packets(path, counts), failed) for path in paths]
    ticked_at, last_at, requests = 0.0, 0.0, 0
    for packet in heapq.merge(*captures, key=attrgetter("at")):
        last_at = max(last_at, packet.at)
        segment = read_segment(packet.link_type, packet.data)
        if segment is None:
            counts["link_type"] += not is_known_link(packet.link_type)
            continue
        if faults is not None:
            faults.observe(segment)
        for event in sessions.push(segment, packet.at):
            requests += isinstance(event, DecodedRequest)
            yield from decode(event)
        if packet.at >= ticked_at + TICK_S:
            yield _end(packet.at, disconnects.take_expired(packet.at))
            ticked_at = packet.at
    for event in sessions.flush():
        requests += isinstance(event, DecodedRequest)
        yield from decode(event)
    if last_at:
        yield _end(last_at, disconnects.take_all())
    return requests


def _end(at: float, ended: Sequence[EndedOrigin]) -> Tick:
    return Tick(
        at,
        tuple(each.name for each in ended if each.by_client),
        tuple(each.name for each in ended if not each.by_client),
    )


def _decode(
    interpreter: GroupDecoder, disconnects: DisconnectTracker, event: Event
) -> Iterable[Signal]:
    """Return the signals of an event, and note the end of a connection."""
    if isinstance(event, ConnectionClosed):
        disconnects.record(event)
    return decode_safely(interpreter, event)


def packets(path: str, counts: Counter[str] | None = None) -> Iterator[Packet]:
    """Yield the packets of a file, or of stdin (``-``); one that ends within a packet is counted.

    Raises:
        SourceError: the file cannot be read, or is no capture.

    """
    try:
        with ExitStack() as stack:
            file = sys.stdin.buffer if path == "-" else stack.enter_context(Path(path).open("rb"))
            magic = file.read(4)
            if magic[:2] == GZIP:
                whole = cast("BinaryIO", _Rewind(file, magic))
                file = cast("BinaryIO", stack.enter_context(gzip.open(whole)))
                magic = file.read(4)
            if not (yield from _read(path, file, magic)) and counts is not None:
                counts["cut_short"] += 1
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"{path}: {reason_of(error)}") from error


class _Rewind:
    """A file with its first bytes read already; stdin cannot seek."""

    def __init__(self, file: BinaryIO, head: bytes) -> None:
        self._file, self._head = file, head

    def read(self, size: int) -> bytes:
        head, self._head = self._head[:size], self._head[size:]
        return head or self._file.read(size)


def _report_failure(read: Iterator[Packet], failed: Failed) -> Iterator[Packet]:
    try:
        yield from read
    except SourceError as error:
        failed(error)


def _read(path: str, file: BinaryIO, magic: bytes) -> Reads:
    if magic in PCAP:
        return (yield from _pcap(file, *PCAP[magic]))
    if magic == PCAPNG:
        return (yield from _pcapng(file))
    if magic:
        raise SourceError(f"{path}: no pcap or pcapng file; it starts with {magic!r}")
    return True


def _pcap(file: BinaryIO, order: str, unit_s: float) -> Reads:
    head = file.read(20)
    if len(head) < 20:
        return False
    link_type = struct.unpack(f"{order}I", head[16:])[0] & 0xFFFF
    record = struct.Struct(f"{order}IIII")
    while len(head := file.read(record.size)) == record.size:
        seconds, fraction, size, _ = record.unpack(head)
        data = file.read(min(size, _PACKET_BYTES_MAX))
        if len(data) < size:
            return False
        yield Packet(seconds + fraction * unit_s, link_type, data)
    return not head


def _pcapng(file: BinaryIO) -> Reads:
    """Read blocks; the type of the first one was read already."""
    order, interfaces, kind = "<", list[CaptureInterface](), _SECTION
    while True:
        if kind == _SECTION:
            order, interfaces = _section(file), []
        elif (body := _body(file, order)) is None:
            return False
        elif kind == _INTERFACE:
            _add_interface(interfaces, body, order)
        elif kind in {_ENHANCED, _SIMPLE} and interfaces:
            packet = _packet(kind, body, order, interfaces)
            if packet is not None:
                yield packet
        head = file.read(4)
        if len(head) < 4:
            return not head
        kind = struct.unpack(f"{order}I", head)[0]


def _section(file: BinaryIO) -> str:
    """Read a section header block; return its byte order."""
    size, magic = file.read(4), file.read(4)
    order = "<" if magic == struct.pack("<I", _BYTE_ORDER) else ">"
    if len(magic) == 4:
        file.read(max(0, min(struct.unpack(f"{order}I", size)[0], _PACKET_BYTES_MAX) - 12))
    return order


def _body(file: BinaryIO, order: str) -> bytes | None:
    """Return a block without its type and lengths; None at the file's end."""
    head = file.read(4)
    if len(head) < 4:
        return None
    size = struct.unpack(f"{order}I", head)[0] - 8
    if not 4 <= size <= _PACKET_BYTES_MAX:
        return None
    body = file.read(size)
    return body[:-4] if len(body) == size else None


def _add_interface(interfaces: list[CaptureInterface], body: bytes, order: str) -> None:
    if len(interfaces) < _INTERFACES_MAX:
        interfaces.append(_interface(body, order))


def _interface(body: bytes, order: str) -> CaptureInterface:
    if len(body) < 2:  # its packets are of a link that nobody knows
        return _NO_INTERFACE
    link_type, unit_s, at = struct.unpack_from(f"{order}H", body)[0], 1e-6, 8
    while at + 4 <= len(body):
        code, size = struct.unpack_from(f"{order}HH", body, at)
        if code == _IF_TSRESOL and size >= 1 and at + 4 < len(body):
            exponent = body[at + 4]
            unit_s = 2.0 ** -(exponent & 0x7F) if exponent & 0x80 else 10.0**-exponent
        at += 4 + size + -size % 4
    return CaptureInterface(link_type, unit_s)


def _packet(
    kind: int, body: bytes, order: str, interfaces: list[CaptureInterface]
) -> Packet | None:
    if kind == _SIMPLE:  # has no time: all at the epoch, the read order rules
        return Packet(0.0, interfaces[0].link_type, body[4:])
    if len(body) < 20:
        return None
    number, high, low, size = struct.unpack_from(f"{order}IIII", body)
    interface = interfaces[number] if number < len(interfaces) else _NO_INTERFACE
    at = ((high << 32) | low) * interface.unit_s
    return Packet(at, interface.link_type, body[20 : 20 + size])
