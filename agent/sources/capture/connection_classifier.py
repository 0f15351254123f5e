"""Choice of the connections that a capture follows, by their content: a start may be unseen.

Theory of operation. A new connection is followed until its first typical request: a group API keeps
it, a Fetch or a Produce before that ends it. An older connection begins with its first request of a
group API. FindCoordinator alone would not do. Its response names a broker and so its port, but
records move on other connections to that broker, and the request may precede the capture. A
connection that carries records as well (some clients share one) is read in its short segments only.
"""

import struct
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from enum import Enum, auto

from agent.sources.capture.bpf import (
    CONNECTIONS_LIMIT,
    GROUP_APIS,
    RECORD_APIS,
    ConnectionKey,
    FilterRule,
)
from agent.wire.connection import looks_like_request
from agent.wire.tcp.packets import ACK, FIN, RST, SYN, TcpSegment

UNPROVEN_BYTES = 1 << 20
"""Bytes that a connection may carry before its first group request: logins, metadata."""
_IGNORED_AFTER = 8
"""Packets of a connection without a request of interest."""
_IGNORED_LIMIT = CONNECTIONS_LIMIT // 2
_LISTED_LIMIT = CONNECTIONS_LIMIT - _IGNORED_LIMIT
_UNLISTED_LIMIT = 10_000
"""Group connections beyond the filter's list: their requests and short responses pass it."""
_API_KEY = struct.Struct(">4xh")
_TLS_HANDSHAKE = b"\x16\x03"


class ConnectionKind(Enum):
    """The kind of a followed connection."""

    NEW = auto()
    GROUP = auto()
    MIXED = auto()
    """Group requests and records on one connection."""


@dataclass(slots=True)
class FollowedConnection:
    """A connection with packets that are read."""

    kind: ConnectionKind
    seen_bytes: int = 0


class PacketAction(Enum):
    """The handling of a segment."""

    SKIP = auto()
    READ = auto()
    FORGET = auto()
    """Skip it, and forget the earlier packets of its connection."""


@dataclass(slots=True)
class ConnectionClassifier:
    """The connections to brokers at some ports."""

    ports: frozenset[int]
    counts: Counter[str] = field(default_factory=Counter)
    joined_mid_stream: list[ConnectionKey] = field(default_factory=list)
    """Connections that were found in mid-stream; for the caller to report and to clear."""
    changed: bool = False
    """Whether `connections` has changed; for the caller to clear."""
    _followed: OrderedDict[ConnectionKey, FollowedConnection] = field(default_factory=OrderedDict)
    _unlisted: OrderedDict[ConnectionKey, FollowedConnection] = field(default_factory=OrderedDict)
    """Followed as well, except for their long responses, until the filter's list has room."""
    _ignored: OrderedDict[ConnectionKey, int] = field(default_factory=OrderedDict)
    """Connections of no interest, by their number of packets."""

    @property
    def connections(self) -> dict[ConnectionKey, FilterRule]:
        """The filter's rule for each connection."""
        dull = (ends for ends, packets in self._ignored.items() if packets >= _IGNORED_AFTER)
        return dict.fromkeys(dull, FilterRule.REQUESTS) | {
            ends: FilterRule.ALL if each.kind is ConnectionKind.GROUP else FilterRule.SHORT
            for ends, each in self._followed.items()
        }

    def classify(self, segment: TcpSegment) -> PacketAction:
        """Return the handling of a segment, and update the connection's classification by it."""
        asks = int.from_bytes(segment.target[-2:], "big") in self.ports
        ends = ConnectionKey(*((segment.source, segment.target)[:: 1 if asks else -1]))
        if segment.flags & SYN:
            return self._open(ends, is_answer=bool(segment.flags & ACK))
        followed = self._followed.get(ends) or self._unlisted.get(ends)
        if segment.flags & (FIN | RST):
            return self._end(ends)
        if followed is not None:
            return self._follow(ends, followed, segment, asks=asks)
        if asks and _api_key(segment.data) in GROUP_APIS:
            self.joined_mid_stream.append(ends)
            self._add(ends, ConnectionKind.GROUP)
            return PacketAction.READ
        self._count_ignored(ends)
        return PacketAction.SKIP

    def _open(self, ends: ConnectionKey, *, is_answer: bool) -> PacketAction:
        if ends not in self._followed or not is_answer:
            self._add(ends, ConnectionKind.NEW)
        return PacketAction.READ

    def _end(self, ends: ConnectionKey) -> PacketAction:
        """Forget a connection; an entry left in the filter does no harm."""
        self._ignored.pop(ends, None)
        followed = self._followed.pop(ends, None) or self._unlisted.pop(ends, None)
        return PacketAction.SKIP if followed is None else PacketAction.READ

    def _follow(
        self, ends: ConnectionKey, followed: FollowedConnection, segment: TcpSegment, *, asks: bool
    ) -> PacketAction:
        key = _api_key(segment.data) if asks else None
        if ends in self._followed:
            self._followed.move_to_end(ends)
        elif key in GROUP_APIS and len(self._followed) < _LISTED_LIMIT:
            self._followed[ends] = self._unlisted.pop(ends)
            self.changed = True
        else:
            self._unlisted.move_to_end(ends)
        kind = followed.kind
        if key in GROUP_APIS and kind is ConnectionKind.NEW:
            followed.kind = ConnectionKind.GROUP
        elif key in RECORD_APIS and kind is ConnectionKind.GROUP:
            followed.kind = ConnectionKind.MIXED
            self.counts["mixed_connection"] += 1
        elif kind is ConnectionKind.NEW and self._is_uninteresting(
            followed, key, segment, asks=asks
        ):
            self._dismiss(ends)
            return PacketAction.FORGET
        self.changed |= followed.kind is not kind
        return PacketAction.READ

    def _is_uninteresting(
        self, followed: FollowedConnection, key: int | None, segment: TcpSegment, *, asks: bool
    ) -> bool:
        """Return whether a connection without a group request so far will have none."""
        followed.seen_bytes += len(segment.data)
        if asks and segment.data.startswith(_TLS_HANDSHAKE):
            self.counts["encrypted"] += 1
            return True
        return key in RECORD_APIS or followed.seen_bytes > UNPROVEN_BYTES

    def _add(self, ends: ConnectionKey, kind: ConnectionKind) -> None:
        self._ignored.pop(ends, None)
        self._unlisted.pop(ends, None)
        self._followed[ends] = FollowedConnection(kind)
        self._followed.move_to_end(ends)
        if len(self._followed) > _LISTED_LIMIT:
            self._unlist(*self._followed.popitem(last=False))
        self.changed = True

    def _unlist(self, ends: ConnectionKey, followed: FollowedConnection) -> None:
        self.counts["connection_evicted"] += 1
        if followed.kind is not ConnectionKind.NEW:
            self._unlisted[ends] = followed
            if len(self._unlisted) > _UNLISTED_LIMIT:
                self._unlisted.popitem(last=False)

    def _dismiss(self, ends: ConnectionKey) -> None:
        del self._followed[ends]
        self._ignored[ends] = _IGNORED_AFTER
        if len(self._ignored) > _IGNORED_LIMIT:
            self._ignored.popitem(last=False)
        self.changed = True

    def _count_ignored(self, ends: ConnectionKey) -> None:
        """Count a packet for nothing; of too many such connections the first ones are listed."""
        if ends in self._ignored or len(self._ignored) < _IGNORED_LIMIT:
            packets = self._ignored[ends] = self._ignored.get(ends, 0) + 1
            self.changed |= packets == _IGNORED_AFTER


def _api_key(data: bytes) -> int | None:
    """Return the API of the request that starts here, if one does."""
    if not looks_like_request(data):
        return None
    key: int = _API_KEY.unpack_from(data)[0]
    return key
