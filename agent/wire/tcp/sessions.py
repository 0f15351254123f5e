"""The TCP connections of a capture: the client's end, and the decoder's events of each.

Theory of operation. A SYN shows the client, and starts a new connection on reused ports. A capture
that begins in mid-stream has no SYN: then the client is the side that sends to a known broker, or
sends bytes that look like a request. Until that is known nothing is read. A connection ends with
the first FIN or RST of either side.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass

from agent.wire.byte_budget import ByteBudget
from agent.wire.connection import (
    ConnectionClosed,
    ConnectionDecoder,
    Event,
    FrameBudget,
    looks_like_request,
)
from agent.wire.tcp.packets import ACK, RST, SYN, TcpSegment, format_endpoint
from agent.wire.tcp.reassembly import StreamChunk, TcpStream

_SERVERS_LIMIT = 10_000
_TICK_S = 0.1
_LATE_SYN_BYTES = 1 << 16
"""Bytes that a client sends before its window opens: data that was captured before the SYN."""


@dataclass(slots=True)
class TcpSession:
    """A TCP connection. Direction 0 is from the lesser endpoint to the greater."""

    endpoints: tuple[bytes, bytes]
    stream: TcpStream
    client: int | None = None
    """The direction of requests, once it is known."""
    connection: ConnectionDecoder | None = None
    first_seq: int | None = None
    """The client's initial sequence number, from its SYN."""
    ended: bool = False

    def is_opened_by(self, client: int, first_seq: int) -> bool:
        """Return whether a SYN is this connection's: repeated, or captured after the first data."""
        begun = self.stream.directions[client].next
        if self.first_seq is not None or begun is None:
            return self.first_seq == first_seq
        return 0 <= (begun - first_seq - 1) % (1 << 32) < _LATE_SYN_BYTES


class TcpSessions:
    """The connections of one capture; segments in, requests and responses out."""

    def __init__(self, counts: Counter[str], limit: int = 10_000, patience: int = 0) -> None:
        """Follow up to ``limit`` connections; the longest silent one goes first.

        ``counts`` takes unreadable input, by a short reason. ``patience`` is the number of
        packets that may come between two related ones.
        """
        self.counts = counts
        self._budget, self._pending = FrameBudget(), ByteBudget()
        self._limit = limit
        self._reorder_packets = patience
        self._number = 0
        self._sessions: OrderedDict[tuple[bytes, bytes], TcpSession] = OrderedDict()
        self._stuck: dict[tuple[bytes, bytes], TcpSession] = {}
        self._servers: OrderedDict[bytes, None] = OrderedDict()
        self._ticked_at = 0.0
        self._now = 0.0

    def push(self, segment: TcpSegment, at: float) -> list[Event]:
        """Take a segment seen at Unix seconds ``at``; a clock that runs back is held."""
        self._now = at = max(self._now, at)
        self._number += 1
        out = self._tick(at)
        source, target = segment.source, segment.target
        direction = 0 if source < target else 1
        key = (source, target) if direction == 0 else (target, source)
        session = self._sessions.get(key)
        if segment.flags & SYN:
            session = self._open(session, key, direction, segment, out)
        if session is None:
            if not segment.data:
                return out
            session = self._add(key, out)
        self._sessions.move_to_end(key)
        return out + self._feed(session, direction, segment, at)

    def flush(self) -> list[Event]:
        """Return the events after gaps, at the end of the capture."""
        return [
            event
            for session in list(self._stuck.values())
            for event in self._read(session, session.stream.flush())
        ]

    def shrink_buffers(self) -> list[Event]:
        """Drop long incomplete frames, because memory is short; return the events after gaps."""
        for session in self._sessions.values():
            if session.connection is not None:
                session.connection.shrink_buffers()
        return self.flush()

    def expire(self, at: float) -> list[Event]:
        """Give up lost bytes at Unix seconds ``at``, if no segment brings a time."""
        self._now = max(self._now, at)
        return self._tick(self._now)

    def forget(self, one: bytes, other: bytes) -> list[Event]:
        """Follow a connection no longer; its later bytes have no beginning."""
        session = self._sessions.pop((min(one, other), max(one, other)), None)
        return [] if session is None else self._end(session)

    def _feed(
        self, session: TcpSession, direction: int, segment: TcpSegment, at: float
    ) -> list[Event]:
        if session.ended:
            return []
        out = self._read(session, session.stream.push(direction, segment, at, self._number))
        if session.stream.stuck_at is not None:
            self._stuck[session.endpoints] = session
        if segment.flags & RST:
            out += self._read(session, session.stream.flush()) + self._end(session, direction)
        return out

    def _open(
        self,
        session: TcpSession | None,
        key: tuple[bytes, bytes],
        direction: int,
        segment: TcpSegment,
        out: list[Event],
    ) -> TcpSession:
        """Start a session with its SYN or SYN-ACK; a repeated one changes nothing."""
        client = 1 - direction if segment.flags & ACK else direction
        first_seq = (segment.ack - 1) % (1 << 32) if segment.flags & ACK else segment.seq
        if session is not None and session.is_opened_by(client, first_seq):
            return session
        if session is not None:
            out += self._read(session, session.stream.flush()) + self._end(session)
        session = self._add(key, out)
        session.first_seq = first_seq
        self._orient(session, client, in_step=True)
        return session

    def _add(self, key: tuple[bytes, bytes], out: list[Event]) -> TcpSession:
        session = self._sessions[key] = TcpSession(
            key, TcpStream(budget=self._pending, reorder_packets=self._reorder_packets)
        )
        if len(self._sessions) > self._limit:
            _, forgotten = self._sessions.popitem(last=False)
            out += self._end(forgotten)
            self.counts["session_evicted"] += 1
        return session

    def _orient(self, session: TcpSession, client: int, *, in_step: bool) -> None:
        session.client = client
        session.connection = ConnectionDecoder(
            client=format_endpoint(session.endpoints[client]),
            server=format_endpoint(session.endpoints[1 - client]),
            counts=self.counts,
            in_step=in_step,
            budget=self._budget,
        )

    def _end(self, session: TcpSession, ended_by: int | None = None) -> list[Event]:
        """End a session; the side of direction ``ended_by`` has ended it, if that is known."""
        if session.ended:
            return []
        session.ended = True
        session.stream.close()
        self._stuck.pop(session.endpoints, None)
        connection, session.connection = session.connection, None
        if connection is None:
            return []
        connection.close()
        by_client = ended_by is not None and ended_by == session.client
        return [ConnectionClosed(connection, self._now, by_client=by_client)]

    def _tick(self, at: float) -> list[Event]:
        """Give up losses in the connections that wait, every now and then."""
        if not self._stuck or at < self._ticked_at + _TICK_S:
            return []
        self._ticked_at = at
        out: list[Event] = []
        for key, session in list(self._stuck.items()):
            out += self._read(session, session.stream.expire(at, self._number))
            if session.stream.stuck_at is None:
                self._stuck.pop(key, None)
        return out

    def _read(self, session: TcpSession, pieces: list[StreamChunk]) -> list[Event]:
        out: list[Event] = []
        for piece in pieces:
            if session.connection is None and piece.data:
                self._guess(session, piece)
            if not piece.data and not piece.lost:
                out += self._end(session, piece.direction)
            elif session.connection is not None and not session.ended:
                out += self._deliver(session, session.connection, piece)
        return out

    def _deliver(
        self, session: TcpSession, connection: ConnectionDecoder, piece: StreamChunk
    ) -> list[Event]:
        if piece.direction == session.client:
            if piece.lost:
                connection.skip_client(piece.lost)
                return []
            return self._feed_client(session, connection, piece.data)
        if piece.lost:
            connection.skip_broker(piece.lost)
            return []
        return list(connection.feed_broker(piece.data, self._now))

    def _feed_client(
        self, session: TcpSession, connection: ConnectionDecoder, data: bytes
    ) -> list[Event]:
        requests = connection.feed_client(data, self._now)
        if requests and session.client is not None:
            self._servers[session.endpoints[1 - session.client]] = None
            if len(self._servers) > _SERVERS_LIMIT:
                self._servers.popitem(last=False)
        return list(requests)

    def _guess(self, session: TcpSession, piece: StreamChunk) -> None:
        """Find the client of a connection with an unseen start."""
        sender, receiver = piece.direction, 1 - piece.direction
        if session.endpoints[receiver] in self._servers or looks_like_request(piece.data):
            self._orient(session, sender, in_step=False)
        elif session.endpoints[sender] in self._servers:
            self._orient(session, receiver, in_step=False)
