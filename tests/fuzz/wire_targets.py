"""Fuzz targets of `agent.wire`: any bytes are a value or a `DecodeError`, and bounded in memory.

A target takes bytes and returns; every exception is a finding. The first bytes choose parameters,
the rest are the bytes of a peer.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from agent.errors import DecodeError
from agent.sources.capture.bpf import build_program
from agent.sources.capture.connection_classifier import ConnectionClassifier
from agent.wire.codec import connect_protocol as connect_assignment
from agent.wire.codec.apis import APIS, read_request, read_response
from agent.wire.codec.consumer_protocol import read_assignment, read_subscription
from agent.wire.codec.messages import HostPort
from agent.wire.codec.streams_user_data import (
    SubscriptionInfo,
    find_follow_up,
    read_assignment_info,
    read_subscription_info,
)
from agent.wire.connection import ConnectionDecoder
from agent.wire.members.group_decoder import GroupDecoder
from agent.wire.proxying.frame_forwarder import FrameForwarder
from agent.wire.tcp.packets import ACK, FIN, RST, SYN, TcpSegment, read_segment
from agent.wire.tcp.reassembly import PENDING_BYTES, TcpStream
from agent.wire.tcp.sessions import TcpSessions
from tests.fuzz.cursor import Cursor

_KEYS = sorted(APIS)
_WITHHELD_BYTES_MAX = (1 << 20) + (256 << 10)
"""What a proxied direction may hold back: an answer up to its last address."""
_PORT = 0x2384
_ENDS = (b"\x0a\0\0\x01\xc3\x51", b"\x0a\0\0\x09\x23\x84")


def messages(data: bytes) -> None:
    """One frame of any API in any version."""
    cursor = Cursor(data)
    chosen, version = cursor.number(), cursor.number()
    api_key = _KEYS[chosen % len(_KEYS)]
    with suppress(DecodeError):
        if chosen & 0x80:
            read_response(api_key, version % 32, bytes(4) + cursor.rest())
        else:
            read_request(api_key, version % 32, bytes(8) + cursor.rest())


def user_data(data: bytes) -> None:
    """Embedded subscriptions and assignments, Connect's too, and Streams' user data."""
    cursor = Cursor(data)
    chosen, rest = cursor.number(), cursor.rest()
    with suppress(DecodeError):
        match chosen % 5:
            case 0:
                read_subscription_info(read_subscription(rest).user_data)
            case 1:
                read_assignment_info(read_assignment(rest).user_data)
            case 2:
                read_subscription_info(rest)
            case 3:
                connect_assignment.read_assignment(rest)
            case _:
                sent = SubscriptionInfo(version=chosen >> 4, endpoint=HostPort("h", 1))
                find_follow_up(sent, read_assignment_info(rest), 1.0)


def conversation(data: bytes) -> None:
    """Both directions of a connection, in pieces: decoded, and passed through a proxy."""
    cursor = Cursor(data)
    chosen = cursor.number()
    counts: Counter[str] = Counter()
    connection = ConnectionDecoder(
        HostPort("c", 1), HostPort("b", 2), counts, in_step=bool(chosen & 1)
    )
    interpreter = GroupDecoder(counts=counts)
    proxied = ConnectionDecoder(HostPort("c", 3), HostPort("b", 2), counts)

    def route(_host: str, _port: int) -> tuple[str, int] | None:
        return ("proxy", 9) if chosen & 2 else None

    passage = FrameForwarder(
        route,
        counts,
        lambda data: proxied.feed_client(data, 1.0),
        lambda data: proxied.feed_broker(data, 2.0),
    )
    sent, passed = bytearray(), bytearray()
    received_bytes = answered_bytes = 0
    while cursor:
        control = cursor.number()
        piece = cursor.take(cursor.number(1 + (control >> 7)))
        if control & 2:
            lose = connection.skip_client if control & 1 else connection.skip_broker
            lose(len(piece) << (control >> 2 & 0x1F))
        elif control & 1:
            sent += piece
            passed += passage.feed_client(piece)
            for request in connection.feed_client(piece, 1.0):
                interpreter.decode(request)
        else:
            received_bytes += len(piece)
            answered_bytes += len(passage.feed_broker(piece))
            for answer in connection.feed_broker(piece, 2.0):
                interpreter.decode(answer)
    assert sent.startswith(passed)
    assert len(sent) - len(passed) <= _WITHHELD_BYTES_MAX
    if not chosen & 2:
        assert 0 <= received_bytes - answered_bytes <= _WITHHELD_BYTES_MAX


@cache
def _sent_by(direction: int) -> bytes:
    """Return the bytes of one side of a connection; each byte's value depends on its place."""
    return bytes((at * 7 + (at >> 8) * 13 + direction * 101) & 0xFF for at in range(4_096))


def reassembly(data: bytes) -> None:
    """Two true streams as segments that are cut, repeated, reordered and lost.

    Every delivered byte must be at its place, and none twice.
    """
    cursor = Cursor(data)
    base = cursor.number() << 24
    stream, at = TcpStream(reorder_packets=cursor.number() % 4), 0.0
    while cursor:
        control = cursor.number()
        direction = control & 1
        start, size, ack = cursor.number(2) % 4_096, cursor.number(), cursor.number(2) % 4_097
        body = _sent_by(direction)[start : start + size]
        flags = (ACK if control & 2 else 0) | (FIN if control & 0x70 == 0x70 else 0)
        seqs = (base + start) % 2**32, (base + ack) % 2**32
        missing = 100 * (control & 0x0C == 0x0C)
        segment = TcpSegment(*_ENDS, *seqs, flags, body, missing)
        at += (control >> 4) ** 2 / 50
        before = [half.next for half in stream.directions]
        for piece in stream.push(direction, segment, at):
            _check_place(piece.direction, piece.data, before, base)
            place = before[piece.direction]
            if place is not None:
                before[piece.direction] = place + len(piece.data) + piece.lost
            assert piece.lost >= 0
    stream.flush()
    assert not any(half.pending for half in stream.directions)


def _check_place(direction: int, data: bytes, before: list[int | None], base: int) -> None:
    place = before[direction]
    if place is not None and data:
        start = (place - base) % 2**32
        assert _sent_by(direction)[start : start + len(data)] == data


def segments(data: bytes) -> None:
    """Segments with any numbers and any bytes, on some connections, decoded."""
    counts: Counter[str] = Counter()
    sessions, interpreter = TcpSessions(counts, limit=4), GroupDecoder(counts=counts)
    for segment, at in _segments(data):
        for event in sessions.push(segment, at):
            interpreter.decode(event)
    for event in sessions.flush():
        interpreter.decode(event)
    for session in sessions._sessions.values():
        waiting = [each for half in session.stream.directions for each in half.pending]
        assert sum(len(each.data) for each in waiting) <= PENDING_BYTES


def watched(data: bytes) -> None:
    """The same segments before a capture: it chooses connections and makes its filter."""
    watch = ConnectionClassifier(frozenset({_PORT}))
    for segment, _ in _segments(data):
        watch.classify(segment)
    build_program([_PORT], watch.connections)


def _segments(data: bytes) -> Iterator[tuple[TcpSegment, float]]:
    cursor, at = Cursor(data), 0.0
    while cursor:
        control = cursor.number()
        client = _ENDS[0][:-1] + bytes([control >> 6])
        one, other = (client, _ENDS[1])[:: 1 if control & 1 else -1]
        seq, ack = (cursor.number(4) if control & 2 else cursor.number() for _ in range(2))
        flags = cursor.number() & (FIN | SYN | RST | ACK)
        missing = cursor.number(4) if control & 4 else 0
        body = cursor.take(cursor.number())
        at += cursor.number() / 4
        segment = TcpSegment(one, other, seq, ack, flags, body, missing)
        yield segment, at


def packets(data: bytes) -> None:
    """A captured frame of any link type."""
    read_segment(Cursor(data).number(), data[1:])
    read_segment(276, data)
