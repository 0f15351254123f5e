"""Faults of captures that hide requests: cut packets, TLS, and connections of one direction."""

from collections.abc import Iterator

from agent.wire.tcp.packets import TcpSegment

_CONNECTIONS_MAX = 10_000
"""Of further ones, nothing is known."""
_LEAST_SEGMENTS = 4
"""With data: a shorter connection may have one direction only."""
_TLS_HANDSHAKE = b"\x16\x03"
_KEEP = "capture whole packets of both directions: tcpdump -s 0 -w wire.pcap port 9092"


class CaptureFaults:
    """What the packets of a capture lack."""

    def __init__(self) -> None:
        self._cut = self._longest = 0
        self._connections: dict[tuple[bytes, bytes], list[int]] = {}
        """Segments with data, by the smaller endpoint and the other one."""
        self._encrypted = 0

    def observe(self, segment: TcpSegment) -> None:
        """Take the next segment."""
        if segment.missing:
            self._cut += 1
            self._longest = max(self._longest, len(segment.data))
        if not segment.data:
            return
        is_reverse = segment.source > segment.target
        ends = min(segment.source, segment.target), max(segment.source, segment.target)
        known = self._connections.get(ends)
        if known is None:
            if len(self._connections) >= _CONNECTIONS_MAX:
                return
            self._encrypted += segment.data.startswith(_TLS_HANDSHAKE)
            known = self._connections[ends] = [0, 0]
        known[is_reverse] += 1

    def describe(self, requests: int, gaps: int) -> Iterator[str]:
        """Yield what hides requests or responses, of which ``gaps`` were not read."""
        if not requests and self._encrypted:
            yield (
                f"{self._encrypted} connections carry TLS, which a capture cannot read: use the "
                "proxy, or the logs of clients or brokers"
            )
        if self._cut and (gaps or not requests):
            yield (
                f"{self._cut} packets are cut, to {self._longest} bytes of data at most, so "
                f"requests or responses are lost; {_KEEP}"
            )
        long = [each for each in self._connections.values() if sum(each) >= _LEAST_SEGMENTS]
        one_way = sum(0 in each for each in long)
        if one_way and 2 * one_way >= len(long) and (gaps or not requests):
            yield (
                f"of {one_way} connections only one direction was captured, so requests have no "
                f"responses; {_KEEP}"
            )
