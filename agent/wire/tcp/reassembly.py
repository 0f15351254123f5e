"""TCP reassembly for captured traffic: segments in, bytes of both directions in causal order out.

Theory of operation. A segment is delivered after all bytes before it, and after all bytes that its
sender had acknowledged. So a response never overtakes its request, in any order of the capture. The
bytes of a gap were lost by the capture if the other end has acknowledged them (they are not sent
again), else on the network (they are sent again). The first is given up after `LOST_AFTER_S`, the
second after `RESENT_WITHIN_S`, both when too much waits; a loss is a separate chunk. Nothing
is delivered twice: duplicates, retransmissions and overlaps are cut by their sequence numbers
(RFC 9293; compared modulo 2^32).
"""

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.wire.byte_budget import ByteBudget
from agent.wire.tcp.packets import ACK, FIN, SYN, TcpSegment

LOST_AFTER_S = 0.5
"""Captures mix packets of several queues by milliseconds."""
RESENT_WITHIN_S = 60.0
"""Linux sends again after 0.2 s and doubles that each time."""
PENDING_BYTES = 4 << 20
"""Bytes that may wait behind a gap: about a receive window."""
_PENDING_SEGMENTS = 4_096
_SEGMENT_BYTES = 256
"""Memory of a segment that waits, beside its data."""
_RANGE = 1 << 32


class StreamChunk(NamedTuple):
    """Bytes of a direction, or as many bytes of it that were lost; neither is its end."""

    direction: int
    data: bytes
    lost: int


class PendingSegment(NamedTuple):
    """A segment that is not delivered yet, by its position in the stream."""

    at: int
    ack: int
    data: bytes
    missing: int
    last: bool


@dataclass(slots=True)
class Direction:
    """One direction. Positions are sequence numbers without their wrapping around."""

    next: int | None = None
    """Position of the next byte to deliver; None before the first segment."""
    acked: int = 0
    """The last position that the other end acknowledged, and the time of that (Unix seconds)."""
    acked_at: float = 0.0
    pending: list[PendingSegment] = field(default_factory=list)

    def position(self, seq: int) -> int:
        """Return the position of a sequence number: the one nearest to ``next``."""
        if self.next is None:
            return seq
        return self.next + (seq - self.next + _RANGE // 2) % _RANGE - _RANGE // 2


@dataclass(slots=True)
class TcpStream:
    """Both directions (0 and 1) of one connection."""

    directions: tuple[Direction, Direction] = field(
        default_factory=lambda: (Direction(), Direction())
    )
    budget: ByteBudget = field(default_factory=ByteBudget)
    reorder_packets: int = 0
    """Packets of the capture that must pass, too, before a loss is sure."""
    stuck_at: float | None = None
    """Start of a wait without progress (Unix seconds)."""
    stuck_since: int = 0
    """The same in packets of the capture."""
    _waiting_bytes: int = 0
    """This stream's part of the budget."""

    def push(
        self, direction: int, segment: TcpSegment, at: float, number: int = 0
    ) -> list[StreamChunk]:
        """Take a segment, the capture's packet ``number``; return the deliverable chunks."""
        half, peer = self.directions[direction], self.directions[1 - direction]
        ack = self._acknowledge(peer, segment, at)
        if half.next is None:
            half.next = (segment.seq + bool(segment.flags & SYN)) % _RANGE
        if not (segment.data or segment.missing or segment.flags & FIN):
            return []
        position = half.position(segment.seq + bool(segment.flags & SYN))
        last = bool(segment.flags & FIN)
        heapq.heappush(
            half.pending, PendingSegment(position, ack, segment.data, segment.missing, last)
        )
        self._count(len(segment.data) + _SEGMENT_BYTES)
        out = self._drain()
        waits = bool(half.pending or peer.pending)
        if not waits:
            self.stuck_at = None
        else:
            if out or self.stuck_at is None:
                self.stuck_at, self.stuck_since = at, number
            out += self.expire(at, number)
        return out

    def expire(self, at: float, number: int = 0) -> list[StreamChunk]:
        """Give up lost bytes at Unix seconds ``at``."""
        out: list[StreamChunk] = []
        while self.stuck_at is not None and self._is_hopeless(self.stuck_at, at, number):
            out += self._give_up()
        return out

    def flush(self) -> list[StreamChunk]:
        """Give up all gaps: the input has ended."""
        out: list[StreamChunk] = []
        while self.stuck_at is not None:
            out += self._give_up()
        return out

    def close(self) -> None:
        """Drop what waits: the connection is followed no longer."""
        for half in self.directions:
            half.pending.clear()
        self.stuck_at = None
        self._count(-self._waiting_bytes)

    def _count(self, size_bytes: int) -> None:
        self._waiting_bytes += size_bytes
        self.budget.used_bytes += size_bytes

    def _acknowledge(self, peer: Direction, segment: TcpSegment, at: float) -> int:
        if not segment.flags & ACK:
            return peer.next or 0
        if peer.next is None:
            peer.next = segment.ack
        ack = peer.position(segment.ack)
        if ack > peer.acked:
            peer.acked, peer.acked_at = ack, at
        return ack

    def _drain(self) -> list[StreamChunk]:
        out: list[StreamChunk] = []
        before = -1
        while before < len(out):
            before = len(out)
            self._deliver(0, out)
            self._deliver(1, out)
        return out

    def _deliver(self, direction: int, out: list[StreamChunk]) -> None:
        half, peer = self.directions[direction], self.directions[1 - direction]
        while half.pending and half.next is not None:
            first = half.pending[0]
            if first.at > half.next or first.ack > (peer.next or 0):
                return
            heapq.heappop(half.pending)
            self._count(-len(first.data) - _SEGMENT_BYTES)
            data = first.data[half.next - first.at :]
            end = first.at + len(first.data) + first.missing
            if data:
                out.append(StreamChunk(direction, data, 0))
                half.next += len(data)
            if end > half.next:  # the capture cut the segment short
                out.append(StreamChunk(direction, b"", end - half.next))
                half.next = end
            if first.last:
                out.append(StreamChunk(direction, b"", 0))

    def _is_hopeless(self, stuck_at: float, at: float, number: int) -> bool:
        segments = sum(len(half.pending) for half in self.directions)
        data_bytes = self._waiting_bytes - segments * _SEGMENT_BYTES
        if segments > _PENDING_SEGMENTS or data_bytes > PENDING_BYTES:
            return True
        if not self.budget.has_room_for(self._waiting_bytes):
            return True
        half = self.directions[self._hole()[0]]
        if half.acked > (half.next or 0):  # the other end has it: it will not come again
            patient = number - self.stuck_since < self.reorder_packets
            return not patient and at - min(stuck_at, half.acked_at) >= LOST_AFTER_S
        return at - stuck_at >= RESENT_WITHIN_S

    def _hole(self) -> tuple[int, int]:
        """Return the direction with a gap, and the gap's end."""
        for direction, half in enumerate(self.directions):
            if half.pending and half.pending[0].at > (half.next or 0):
                return direction, half.pending[0].at
        direction = 0 if self.directions[1].pending else 1
        return direction, self.directions[1 - direction].pending[0].ack

    def _give_up(self) -> list[StreamChunk]:
        direction, end = self._hole()
        half = self.directions[direction]
        out = [StreamChunk(direction, b"", end - (half.next or 0))]
        half.next = end
        out += self._drain()
        if not (self.directions[0].pending or self.directions[1].pending):
            self.stuck_at = None
        return out
