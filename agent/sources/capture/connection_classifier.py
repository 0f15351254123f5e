"""Which connections a capture follows: found by what they carry, for there need not be a beginning.

Theory of operation. A connection that begins is followed until it shows what it is for: the first
request of a group API keeps it, a Fetch or a Produce without one before ends it. Of a connection
that was there before the capture the first request of a group API is its beginning. FindCoordinator
alone would not do: its answer names a broker and so its port, but records move on other connections
to that broker, and it was asked before the capture began. What shares a connection with records
(some clients do that) is read as far as its segments are short.
"""

import struct
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from enum import Enum, auto

from agent.sources.capture.bpf import CONNECTIONS_LIMIT, GROUP_APIS, RECORD_APIS, Ends, Pass
from agent.wire.connection import looks_like_request
from agent.wire.tcp.packets import ACK, FIN, RST, SYN, Segment

UNPROVEN_BYTES = 1 << 20
"""What a connection may carry before its first group request: logins, metadata."""
_DULL_AFTER = 8
"""Packets of a connection that has asked for nothing of interest."""
_DULL_LIMIT = CONNECTIONS_LIMIT // 2
_LISTED_LIMIT = CONNECTIONS_LIMIT - _DULL_LIMIT
_UNLISTED_LIMIT = 10_000
"""Group connections beyond what the filter can list: their requests and short answers pass it."""
_API_KEY = struct.Struct(">4xh")
_TLS_HANDSHAKE = b"\x16\x03"


class Kind(Enum):
    """What is known of a followed connection."""

    NEW = auto()
    GROUP = auto()
    MIXED = auto()
    """Group requests and records on one connection."""


@dataclass(slots=True)
class Followed:
    """A connection whose packets are read."""

    kind: Kind
    seen_bytes: int = 0


class Fate(Enum):
    """What is to be done with a segment."""

    SKIP = auto()
    READ = auto()
    FORGET = auto()
    """Skip it, and what was read of its connection is of no use."""


@dataclass(slots=True)
class Watch:
    """The connections to brokers at some ports."""

    ports: frozenset[int]
    counts: Counter[str] = field(default_factory=Counter)
    joined: list[Ends] = field(default_factory=list)
    """Connections that were found in mid-stream; for the caller to tell and to clear."""
    changed: bool = False
    """`connections` differs from what it was; for the caller to clear."""
    _followed: OrderedDict[Ends, Followed] = field(default_factory=OrderedDict)
    _unlisted: OrderedDict[Ends, Followed] = field(default_factory=OrderedDict)
    """Followed as well, but for their long answers, until there is room in the filter's list."""
    _dull: OrderedDict[Ends, int] = field(default_factory=OrderedDict)
    """Connections of no interest, by how many packets were seen."""

    @property
    def connections(self) -> dict[Ends, Pass]:
        """What of which connection is to pass the filter."""
        dull = (ends for ends, packets in self._dull.items() if packets >= _DULL_AFTER)
        return dict.fromkeys(dull, Pass.REQUESTS) | {
            ends: Pass.ALL if each.kind is Kind.GROUP else Pass.SHORT
            for ends, each in self._followed.items()
        }

    def take(self, segment: Segment) -> Fate:
        """Tell what to do with a segment, and learn from it."""
        asks = int.from_bytes(segment.target[-2:], "big") in self.ports
        ends = Ends(*((segment.source, segment.target)[:: 1 if asks else -1]))
        if segment.flags & SYN:
            return self._begin(ends, is_answer=bool(segment.flags & ACK))
        followed = self._followed.get(ends) or self._unlisted.get(ends)
        if segment.flags & (FIN | RST):
            return self._end(ends)
        if followed is not None:
            return self._follow(ends, followed, segment, asks=asks)
        if asks and _api_key(segment.data) in GROUP_APIS:
            self.joined.append(ends)
            self._add(ends, Kind.GROUP)
            return Fate.READ
        self._bore(ends)
        return Fate.SKIP

    def _begin(self, ends: Ends, *, is_answer: bool) -> Fate:
        if ends not in self._followed or not is_answer:
            self._add(ends, Kind.NEW)
        return Fate.READ

    def _end(self, ends: Ends) -> Fate:
        """Let go of a connection; that it still stands in the filter harms nobody."""
        self._dull.pop(ends, None)
        followed = self._followed.pop(ends, None) or self._unlisted.pop(ends, None)
        return Fate.SKIP if followed is None else Fate.READ

    def _follow(self, ends: Ends, followed: Followed, segment: Segment, *, asks: bool) -> Fate:
        key = _api_key(segment.data) if asks else None
        if ends in self._followed:
            self._followed.move_to_end(ends)
        elif key in GROUP_APIS and len(self._followed) < _LISTED_LIMIT:
            self._followed[ends] = self._unlisted.pop(ends)
            self.changed = True
        else:
            self._unlisted.move_to_end(ends)
        kind = followed.kind
        if key in GROUP_APIS and kind is Kind.NEW:
            followed.kind = Kind.GROUP
        elif key in RECORD_APIS and kind is Kind.GROUP:
            followed.kind = Kind.MIXED
            self.counts["mixed_connection"] += 1
        elif kind is Kind.NEW and self._is_none(followed, key, segment, asks=asks):
            self._dismiss(ends)
            return Fate.FORGET
        self.changed |= followed.kind is not kind
        return Fate.READ

    def _is_none(
        self, followed: Followed, key: int | None, segment: Segment, *, asks: bool
    ) -> bool:
        """Tell whether a connection without a group request so far will have none."""
        followed.seen_bytes += len(segment.data)
        if asks and segment.data.startswith(_TLS_HANDSHAKE):
            self.counts["encrypted"] += 1
            return True
        return key in RECORD_APIS or followed.seen_bytes > UNPROVEN_BYTES

    def _add(self, ends: Ends, kind: Kind) -> None:
        self._dull.pop(ends, None)
        self._unlisted.pop(ends, None)
        self._followed[ends] = Followed(kind)
        self._followed.move_to_end(ends)
        if len(self._followed) > _LISTED_LIMIT:
            self._unlist(*self._followed.popitem(last=False))
        self.changed = True

    def _unlist(self, ends: Ends, followed: Followed) -> None:
        self.counts["connection_evicted"] += 1
        if followed.kind is not Kind.NEW:
            self._unlisted[ends] = followed
            if len(self._unlisted) > _UNLISTED_LIMIT:
                self._unlisted.popitem(last=False)

    def _dismiss(self, ends: Ends) -> None:
        del self._followed[ends]
        self._dull[ends] = _DULL_AFTER
        if len(self._dull) > _DULL_LIMIT:
            self._dull.popitem(last=False)
        self.changed = True

    def _bore(self, ends: Ends) -> None:
        """Count a packet for nothing; of too many such connections the first ones are listed."""
        if ends in self._dull or len(self._dull) < _DULL_LIMIT:
            packets = self._dull[ends] = self._dull.get(ends, 0) + 1
            self.changed |= packets == _DULL_AFTER


def _api_key(data: bytes) -> int | None:
    """Return the API of the request that starts here, if one does."""
    if not looks_like_request(data):
        return None
    key: int = _API_KEY.unpack_from(data)[0]
    return key
