"""A decoder of one client's connection to one broker: bytes in, requests and responses out.

Theory of operation. Sans I/O: proxy, capture and pcap feed the same object. A direction is *in
step* when its frame starts are known. It is out of step after a start in mid-stream or a loss
inside a wanted frame. Then each piece (a TCP segment, usually the start of a frame) is tried, and
reading continues with the first one that looks like a frame of this connection. Unreadable bytes
make the connection opaque: it is counted, and no longer read. Nothing here raises.
"""

import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.errors import DecodeError
from agent.wire.codec.apis import (
    APIS,
    VERSION_MAX,
    Message,
    UnknownVersionError,
    read_request,
    read_response,
)
from agent.wire.codec.correlation import Correlation, RequestBudget
from agent.wire.codec.framing import FRAME_LIMIT, Framer
from agent.wire.codec.messages import HostPort
from metrics.model.names import clip_name

_REQUEST = struct.Struct(">ihhih")
"""Length, API key, version, correlation id, length of the client id."""
_RESPONSE = struct.Struct(">ii")
_REQUEST_BYTES_MAX = 256 << 20
"""No request is longer (socket.request.max.bytes is 100 MiB); TLS' first bytes read as 369 MB."""
_LONG_FRAME_BYTES = 64 << 10
_FRAME_BYTES = 4 << 10
"""A request without assignments, and the first segments of any other one."""
_API_KEY_MAX = 255
"""Far above the highest of Kafka 4.3 (93)."""
APIS_WITH_RESPONSE = frozenset(key for key, api in APIS.items() if api.response is not None)
"""The APIs with a wanted response."""


@dataclass(slots=True)
class FrameBudget:
    """Bytes of incomplete frames that the connections of one source may buffer together.

    Beyond the limit a long frame is given up, and beyond one and a half times the limit each one
    of more than 4 KiB: many peers may send half of a short one.
    """

    limit_bytes: int = 64 << 20
    """Eight frames of the longest kind; nearly all frames arrive whole."""
    used_bytes: int = 0
    requests: RequestBudget = field(default_factory=RequestBudget)

    def has_room_for(self, size_bytes: int) -> bool:
        """Return whether a connection may go on to buffer so many bytes, which are counted."""
        if self.used_bytes <= self.limit_bytes:
            return True
        is_far = self.used_bytes > self.limit_bytes * 3 // 2
        return size_bytes <= (_FRAME_BYTES if is_far else _LONG_FRAME_BYTES)


class SentRequest(NamedTuple):
    """A request that waits for its response, without its content."""

    api_key: int
    version: int
    at: float


@dataclass(slots=True, eq=False)
class ConnectionDecoder:
    """A connection, and the progress of its two directions."""

    client: HostPort
    server: HostPort
    counts: Counter[str]
    in_step: bool = True
    """Seen from its first byte."""
    client_id: str | None = None
    gaps: int = 0
    """Losses of bytes with an unknown meaning."""
    opaque: bool = False
    budget: FrameBudget = field(default_factory=FrameBudget)
    _buffer_bytes: int = 0
    """This connection's part of the budget."""
    _correlation: Correlation[SentRequest] = field(init=False)
    _requests: Framer = field(default_factory=lambda: Framer(8))
    _responses: Framer = field(default_factory=lambda: Framer(4))
    _has_request: bool = False
    """A request was seen; anything later that does not look like one is a raw SASL token."""
    _requests_in_step: bool = field(init=False)
    _responses_in_step: bool = field(init=False)

    def __post_init__(self) -> None:
        self._requests_in_step = self._responses_in_step = self.in_step
        self._correlation = Correlation(budget=self.budget.requests)

    def feed_client(self, data: bytes, at: float) -> "list[DecodedRequest]":
        """Take bytes of the client; return the complete requests."""
        if self.opaque or not (self._requests_in_step or self._find_request(data)):
            return []
        try:
            frames = self._requests.feed(data, self._is_request_wanted)
        except DecodeError:
            self._give_up("frame" if self._has_request else "foreign")
            return []
        self._account()
        return [request for frame in frames for request in self._read_request(frame, at)]

    def feed_broker(self, data: bytes, at: float) -> "list[DecodedResponse]":
        """Take bytes of the broker; return the complete and wanted responses."""
        if self.opaque or not (self._responses_in_step or self._find_response(data)):
            return []
        try:
            frames = self._responses.feed(data, self._is_response_wanted)
        except DecodeError:
            self._give_up("frame")
            return []
        self._account()
        return [response for frame in frames for response in self._read_response(frame, at)]

    def skip_client(self, size_bytes: int) -> None:
        """Pass over bytes of the client that were never seen."""
        if not self._requests.skip_lost(size_bytes):
            self._requests_in_step = False
            self._count_gap()

    def skip_broker(self, size_bytes: int) -> None:
        """Pass over bytes of the broker that were never seen."""
        if not self._responses.skip_lost(size_bytes):
            self._responses_in_step = False
            self._count_gap()

    def shrink_buffers(self) -> None:
        """Give up, as memory is short, if long frames are incomplete: nothing more is decoded."""
        if self._requests.buffer_bytes + self._responses.buffer_bytes > _LONG_FRAME_BYTES:
            self._give_up("memory")

    def close(self) -> None:
        """Decode nothing more."""
        self.opaque = True
        self._requests.reset()
        self._responses.reset()
        self._correlation.clear()
        self._account()

    def _account(self) -> None:
        """Update the budget; beyond it a long incomplete frame ends the decoding."""
        size = self._requests.buffer_bytes + self._responses.buffer_bytes
        if size == self._buffer_bytes:
            return
        self.budget.used_bytes += size - self._buffer_bytes
        self._buffer_bytes = size
        if not self.budget.has_room_for(size):
            self._give_up("memory")

    def _is_request_wanted(self, head: bytes, size: int) -> bool:
        if not self._has_request:
            if not _is_plausible(size, *_HEAD.unpack(head)):
                raise DecodeError("the first bytes are no Kafka request")
            self._has_request = True
        return head[0] == 0 and head[1] in APIS and self._fits(size)

    def _is_response_wanted(self, head: bytes, size: int) -> bool:
        return _INT32.unpack(head)[0] in self._correlation and self._fits(size)

    def _fits(self, size: int) -> bool:
        if size > FRAME_LIMIT:
            self.counts["oversized"] += 1
        return size <= FRAME_LIMIT

    def _read_request(self, frame: bytes, at: float) -> "list[DecodedRequest]":
        api_key, version, correlation_id = _HEAD.unpack_from(frame)
        try:
            client_id, message = read_request(api_key, version, frame, self.counts)
        except UnknownVersionError:
            self.counts[f"version_{api_key}_{version}"] += 1
            return []
        except DecodeError:
            self._give_up("request")
            return []
        self.client_id = client_id
        if api_key in APIS_WITH_RESPONSE:
            self._correlation.add(correlation_id, SentRequest(api_key, version, at))
        return [DecodedRequest(self, correlation_id, message, at)]

    def _read_response(self, frame: bytes, at: float) -> "list[DecodedResponse]":
        correlation_id = _INT32.unpack_from(frame)[0]
        request = self._correlation.take(correlation_id)
        if request is None:
            return []
        try:
            message = read_response(request.api_key, request.version, frame, self.counts)
        except UnknownVersionError:
            self.counts[f"version_{request.api_key}_{request.version}"] += 1
            return []
        except DecodeError:
            self._give_up("answer")
            return []
        return [DecodedResponse(self, correlation_id, request.at, message, at)]

    def _find_request(self, data: bytes) -> bool:
        if looks_like_request(data) and self.client_id in {None, _client_id(data)}:
            self._requests_in_step = True
        return self._requests_in_step

    def _find_response(self, data: bytes) -> bool:
        if len(data) >= _RESPONSE.size and _RESPONSE.unpack_from(data)[1] in self._correlation:
            self._responses_in_step = True
        return self._responses_in_step

    def _count_gap(self) -> None:
        self.gaps += 1
        self.counts["gap"] += 1

    def _give_up(self, why: str) -> None:
        self.counts[f"opaque_{why}"] += 1
        self.close()


@dataclass(slots=True, eq=False)
class DecodedRequest:
    """A decoded request. ``at`` is the time of its last byte (Unix seconds)."""

    connection: ConnectionDecoder
    correlation_id: int
    message: Message
    """A class of `agent.wire.codec.messages`; None: only the response is wanted."""
    at: float


@dataclass(frozen=True, slots=True)
class DecodedResponse:
    """A decoded response. ``sent_at`` and ``at`` are the times of the request and of itself."""

    connection: ConnectionDecoder
    correlation_id: int
    sent_at: float
    message: Message
    at: float


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The connection has ended."""

    connection: ConnectionDecoder
    at: float
    by_client: bool = False
    """The client's side has ended it first; False also where that is not known."""


Event = DecodedRequest | DecodedResponse | ConnectionClosed

_HEAD = struct.Struct(">hhi")
_INT32 = struct.Struct(">i")


def looks_like_request(data: bytes) -> bool:
    """Return whether a request starts here: a header with a client id, within Kafka's limits."""
    if len(data) < _REQUEST.size:
        return False
    size, api_key, version, correlation_id, id_size = _REQUEST.unpack_from(data)
    return (
        _is_plausible(size, api_key, version, correlation_id)
        and size >= _REQUEST.size - 4 + id_size
        and _client_id(data) is not None
    )


def _is_plausible(size: int, api_key: int, version: int, correlation_id: int) -> bool:
    return (
        size <= _REQUEST_BYTES_MAX
        and 0 <= api_key <= _API_KEY_MAX
        and 0 <= version <= VERSION_MAX
        and correlation_id >= 0
    )


def _client_id(data: bytes) -> str | None:
    """Read the client id of a request's first bytes; None if there is no readable one."""
    size = _REQUEST.unpack_from(data)[4]
    if not 0 < size <= len(data) - _REQUEST.size:
        return None
    try:
        return clip_name(data[_REQUEST.size : _REQUEST.size + size].decode())
    except UnicodeDecodeError:
        return None
