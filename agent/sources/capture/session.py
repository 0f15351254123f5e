"""One stretch of capturing without a break: a packet socket's requests and responses."""

from collections import Counter
from collections.abc import Iterable

from agent.errors import SourceError
from agent.sources.capture.bpf import ConnectionKey, build_program
from agent.sources.capture.connection_classifier import ConnectionClassifier, PacketAction
from agent.sources.capture.packet_socket import PacketSocket
from agent.wire.connection import Event
from agent.wire.tcp.packets import read_segment
from agent.wire.tcp.sessions import TcpSessions

_RAW_IP = 101
"""LINKTYPE_RAW."""


class CaptureSession:
    """A socket's events, and its filter."""

    def __init__(self, sock: PacketSocket, ports: Iterable[int], counts: Counter[str]) -> None:
        """Begin with a filter that looks for groups.

        Raises:
            SourceError: the kernel takes no filter.

        """
        self.is_behind = False
        """There may be more to read at once."""
        self.watermark = 0.0
        """When the last packet was captured (Unix seconds)."""
        self._sock, self._counts = sock, counts
        self._configured = frozenset(ports)
        self._classifier = ConnectionClassifier(self._configured, counts)
        self._sessions = TcpSessions(counts)
        self._read_bytes = 0
        self._set_filter()

    def read(self) -> list[Event]:
        """Read the available packets, a batch at most.

        Raises:
            OSError: the interface is gone.

        """
        packets = self._sock.read()
        self.is_behind = len(packets) == self._sock.batch
        events: list[Event] = []
        for packet in packets:
            self._read_bytes += len(packet.data)
            self.watermark = packet.at
            events += self._push(packet.data, packet.at)
        if self._classifier.changed:
            self._set_filter()
        return events

    def follow(self, ports: Iterable[int]) -> None:
        """Look for brokers at these ports too, beside those of the beginning."""
        wanted = self._configured.union(ports)
        if wanted != self._classifier.ports:
            self._classifier.ports = wanted
            self._set_filter()

    def expire(self, at: float) -> list[Event]:
        """Return the events after gaps that count as lost at Unix seconds ``at``."""
        return self._sessions.expire(at)

    def shrink_buffers(self) -> list[Event]:
        """Drop long incomplete frames; return the events after gaps."""
        return self._sessions.shrink_buffers()

    def count_drops(self) -> None:
        """Count the packets that the kernel had no room for."""
        self._counts["lost_packets"] += self._sock.take_drops()

    def take_read_bytes(self) -> int:
        """Return how much was read since the last call."""
        size, self._read_bytes = self._read_bytes, 0
        return size

    def take_joined(self) -> list[ConnectionKey]:
        """Return the connections that were found in mid-stream since the last call."""
        joined, self._classifier.joined_mid_stream = self._classifier.joined_mid_stream, []
        return joined

    def _push(self, data: bytes, at: float) -> list[Event]:
        segment = read_segment(_RAW_IP, data)
        if segment is None:
            return []
        match self._classifier.classify(segment):
            case PacketAction.READ:
                return self._sessions.push(segment, at)
            case PacketAction.FORGET:
                return self._sessions.forget(segment.source, segment.target)
            case PacketAction.SKIP:
                return []

    def _set_filter(self) -> None:
        self._classifier.changed = False
        ports, wanted = sorted(self._classifier.ports), list(self._classifier.connections.items())
        while not self._sock.set_filter(build_program(ports, dict(wanted))):
            if not wanted:
                raise SourceError("capture: net.core.optmem_max has no room for any filter")
            self._counts["filter_too_long"] += 1
            wanted = wanted[len(wanted) // 2 + 1 :]  # the longest silent go first
