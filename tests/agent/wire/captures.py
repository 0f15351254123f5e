"""Captures for tests: conversations as TCP segments, as packets and as files."""

import struct
from dataclasses import dataclass, field

from agent.wire.tcp.packets import ACK, FIN, SYN, TcpSegment
from tests.agent.wire.frames import FETCH, LEAVE_GROUP, opaque
from tests.agent.wire.talk import Talk, Wire

CLIENT = b"\x0a\0\0\x01\xc3\x51"
SERVER = b"\x0a\0\0\x09\x23\x84"
TICK_S = 0.005

Timed = tuple[float, TcpSegment]


@dataclass(slots=True)
class Dialogue:
    """A TCP connection that is written down segment by segment."""

    client: bytes = CLIENT
    server: bytes = SERVER
    at: float = 1_000.0
    seqs: list[int] = field(default_factory=lambda: [2**32 - 50, 2**32 - 300])
    """The next sequence numbers of client and server; they wrap around early."""
    segments: list[Timed] = field(default_factory=list)

    def open(self) -> None:
        self._send(0, b"", SYN, ack=False)
        self._send(1, b"", SYN)
        self._send(0, b"")

    def opened(self) -> list[Timed]:
        """Open the connection; return the handshake."""
        self.open()
        return self.segments

    def close(self) -> None:
        self._send(0, b"", FIN)
        self._send(1, b"", FIN)

    def say(self, from_client: bool, data: bytes, size: int = 1_400) -> None:
        """Send data in segments of ``size``; the other side acknowledges."""
        side = 0 if from_client else 1
        for at in range(0, len(data), size):
            self._send(side, data[at : at + size])
        self._send(1 - side, b"")

    def _send(self, side: int, data: bytes, flags: int = 0, *, ack: bool = True) -> None:
        self.at += TICK_S
        ends = (self.client, self.server)
        segment = TcpSegment(
            source=ends[side],
            target=ends[1 - side],
            seq=self.seqs[side],
            ack=self.seqs[1 - side] if ack else 0,
            flags=flags | (ACK if ack else 0),
            data=data,
            missing=0,
        )
        self.segments.append((self.at, segment))
        extra = 1 if flags & (SYN | FIN) else 0
        self.seqs[side] = (self.seqs[side] + len(data) + extra) % 2**32


def converse() -> Talk:
    """Return a member's life: it joins, is told to rebalance, rejoins, and leaves."""
    talk = Wire().connect()
    talk.join("")
    talk.joined(error=79)
    talk.settle()
    talk.send(opaque(FETCH, 1_000, "m1", 5_000))
    talk.heartbeat()
    talk.heartbeat(error=27)
    talk.join(reason="group is already rebalancing")
    talk.joined(generation=2)
    talk.sync(generation=2)
    talk.synced({"t": [0]})
    talk.heartbeat(generation=2, error=25)
    talk.join("")
    talk.joined("m1-b", error=79)
    talk.settle("m1-b", generation=3)
    talk.ask(LEAVE_GROUP, 5, group_id="g", members=({"member_id": "m1-b"},))
    return talk


CODES = [2, 0, 1, 0, 3, 0, 6, 0]
"""What `converse` comes to."""


def dialogue(size: int = 1_400, *, opened: bool = True, client: bytes = CLIENT) -> Dialogue:
    """Return `converse` as TCP, in segments of ``size``."""
    out = Dialogue(client=client)
    if opened:
        out.open()
    for from_client, data in converse().log:
        out.say(from_client, data, size)
    out.close()
    return out


def packet(segment: TcpSegment) -> bytes:
    """Return a segment as an IP packet."""
    source, target = segment.source[:-2], segment.target[:-2]
    ports = segment.source[-2:] + segment.target[-2:]
    head = struct.pack(">IIBBHHH", segment.seq, segment.ack, 5 << 4, segment.flags, 0, 0, 0)
    body = ports + head + segment.data
    if len(source) == 4:
        total = 20 + len(body) + segment.missing
        return struct.pack(">BBHIBBH", 0x45, 0, total, 0, 64, 6, 0) + source + target + body
    return (
        struct.pack(">IHBB", 6 << 28, len(body) + segment.missing, 6, 64) + source + target + body
    )


def ethernet(segment: TcpSegment) -> bytes:
    """Return a segment as an Ethernet frame."""
    kind = 0x0800 if len(segment.source) == 6 else 0x86DD
    return bytes(12) + struct.pack(">H", kind) + packet(segment)
