"""A proxied connection's bytes, in any pieces: passed on unchanged or rewritten.

Theory of operation. Both directions are cut into frames by their lengths, apart from the decoder:
its faults must not end the rewriting. The decoder gets whole frames, and only those that it reads.
Only requests that expect addresses in the response, or that the decoder reads, are remembered.
At most a frame's first bytes are withheld, and a response's bytes up to its last address. If the
addresses are at the end, after too many records, or all connections together withhold too much, the
response passes unchanged and is counted.
Other protocols (TLS, a bad length) make both directions a tunnel; raw SASL tokens have lengths too,
and pass.
"""

import struct
from collections import Counter
from collections.abc import Callable, Sized

from agent.errors import DecodeError
from agent.wire.byte_budget import ByteBudget
from agent.wire.codec.apis import APIS
from agent.wire.codec.correlation import Correlation, RequestBudget
from agent.wire.codec.framing import FRAME_LIMIT
from agent.wire.connection import APIS_WITH_RESPONSE, looks_like_request
from agent.wire.proxying.address_patch import RewrittenHead, Route, TruncatedError
from agent.wire.proxying.address_rewriter import (
    APIS_WITH_ADDRESSES,
    PRODUCE,
    has_addresses,
    has_addresses_at_end,
    is_too_new,
    names_no_broker,
    rewrite,
)

FRAME_BYTES_MAX = (1 << 31) - 1
ENDLESS = 1 << 62
"""The rest of a body without an end."""
_REWRITE_BYTES_MAX = 4 << 20
"""Bound of withheld bytes: the addresses of some 40,000 brokers, or a share group's records."""
_SASL_HANDSHAKE = 17
_REQUEST = struct.Struct(">hhi")
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_REQUEST_BYTES_MAX = 256 << 20
"""No request is longer (socket.request.max.bytes is 100 MiB); TLS' first bytes read as 369 MB."""
Visit = Callable[[bytes, int, int], RewrittenHead | None]
"""(data, start of a frame's body, its size): the replacement of its start, with the length.

It may raise `TruncatedError`, to see the frame again with more of it.
"""
Decode = Callable[[bytes], object]
"""Takes bytes for the decoder."""


class FrameSplitter:
    """A splitter of one direction into frames."""

    __slots__ = (
        "_broken",
        "_budget",
        "_decode",
        "_head",
        "_held_bytes",
        "_missing",
        "_passed",
        "_visit",
        "is_decoded",
        "pending",
        "rewrites",
        "skip",
    )

    def __init__(  # noqa: PLR0913 - one argument a callback
        self,
        head_bytes: int,
        visit: Visit,
        decode: Decode,
        broken: Callable[[], None],
        rewrites: Sized,
        budget: ByteBudget,
    ) -> None:
        """Visit each frame, with at least its first ``head_bytes``.

        After bytes that are no frame, all pass, and ``broken`` is called.
        """
        self._budget, self._held_bytes = budget, 0
        self._head, self._visit, self._decode, self._broken = head_bytes, visit, decode, broken
        self.rewrites = rewrites
        """Not empty while a frame that comes next may be changed."""
        self.is_decoded = False
        """Whether the decoder gets the last visited frame: the visit sets it."""
        self.pending: list[bytes] = []
        """A frame's start, in pieces, until more has come; to look whether there is any."""
        self._missing = 0
        self._passed = 0
        """How many of the bytes that are held have passed nevertheless (`follow`)."""
        self.skip = 0
        """Bytes that come next and pass, whatever they are."""

    def close(self) -> None:
        """Drop the callbacks, to break the reference cycle with their owner."""
        self._visit, self._broken = _visit_nothing, _do_nothing
        self._hold(0)

    @property
    def is_between_frames(self) -> bool:
        """Whether the last frame was complete."""
        return not self.skip and not self.pending

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that are passed on now."""
        kept = 0
        if self.pending:
            self.pending.append(data)
            self._missing -= len(data)
            if self._hold(self._held_bytes + len(data)) and self._missing > 0:
                return b""
            data = b"".join(self.pending)
            self.pending.clear()
            self._hold(0)
            kept = self._passed
        elif self.skip:
            if self.is_decoded:
                self._decode(data[: self.skip])
            if self.skip >= len(data):
                self.skip -= len(data)
                return data
        return self._split(data, kept)

    def track(self, data: bytes) -> None:
        """Note bytes that were passed on unchanged: none is withheld, no frame needs a change."""
        self.feed(data)
        self._passed = sum(map(len, self.pending))

    def _split(self, data: bytes, kept: int) -> bytes:
        """Find the frames that start in ``data``; its first ``kept`` bytes were passed on."""
        out: list[bytes] = []
        at, end = self.skip, len(data)
        try:
            while at < end:
                size = self._size(data, at)
                self.is_decoded = False
                changed = self._visit(data, at + 4, size) if size >= self._head else None
                if changed is not None:
                    out += (data[kept:at], changed.head)
                    kept = at + changed.consumed
                if self.is_decoded:
                    self._decode(data[at : at + 4 + size])
                at += 4 + size
        except TruncatedError as error:
            self.pending.append(data[at:])
            self._hold(end - at)
            self._missing = error.missing
            self._passed = max(0, kept - at)
        except DecodeError:
            self._decode(data[at:])  # for it to see that this is no frame
            self._broken()
            at = ENDLESS
        self.skip = max(0, at - end)
        as_it_came = at >= end and not (out or kept)
        return data if as_it_came else b"".join((*out, data[kept : min(at, end)]))

    def _hold(self, size_bytes: int) -> bool:
        """Count the bytes that are held; return whether there is room for them."""
        self._budget.used_bytes += size_bytes - self._held_bytes
        self._held_bytes = size_bytes
        return self._budget.has_room_for(size_bytes)

    def _size(self, data: bytes, at: int) -> int:
        """Return a frame's size, once its head is complete."""
        left = len(data) - at
        if left < 4:
            raise TruncatedError(4 - left)
        size: int = _INT32.unpack_from(data, at)[0]
        if size < 0:
            raise DecodeError(f"a frame of {size} bytes")
        if left < 4 + self._head <= 4 + size:
            raise TruncatedError(4 + self._head - left)
        return size


class FrameForwarder:
    """Both directions of one connection."""

    __slots__ = (
        "_counts",
        "_expected",
        "_has_request",
        "_last_request",
        "_last_response",
        "_pending",
        "_raw",
        "_route",
        "_withheld",
        "feed_broker",
        "feed_client",
        "requests",
        "responses",
    )

    def __init__(  # noqa: PLR0913 - one argument a part
        self,
        route: Route,
        counts: Counter[str],
        on_request: Decode,
        on_response: Decode,
        budget: RequestBudget | None = None,
        withheld: ByteBudget | None = None,
    ) -> None:
        """Rewrite with ``route``; ``counts`` takes each failure, by a short reason.

        ``on_request`` and ``on_response`` take the frames that the decoder reads. ``budget`` and
        ``withheld`` are shared by all connections of a source.
        """
        self._withheld = withheld or ByteBudget()
        self._route, self._counts = route, counts
        self._pending: Correlation[tuple[int, int]] = Correlation(budget=budget)
        self._expected: Correlation[bool] = Correlation(budget=budget)
        self._has_request = self._raw = False
        self._last_request: int | None = None
        self._last_response: int | None = None
        self.requests = FrameSplitter(
            _REQUEST.size, self._visit_request, on_request, self._tunnel, (), self._withheld
        )
        self.responses = FrameSplitter(
            _INT32.size,
            self._visit_response,
            on_response,
            self._tunnel,
            self._pending.pending,
            self._withheld,
        )
        self.feed_client = self.requests.feed
        """Takes bytes of the client; returns those that go on to the broker."""
        self.feed_broker = self.responses.feed
        """Takes bytes of the broker; returns those that go on to the client."""

    def close(self) -> None:
        """Take nothing more. Then its memory is free with its last owner."""
        self.requests.close()
        self.responses.close()
        self._pending.clear()
        self._expected.clear()

    @property
    def is_idle(self) -> bool:
        """Whether every request that expects a response has one, and no frame is incomplete."""
        between = self.requests.is_between_frames and self.responses.is_between_frames
        return between and self._last_request == self._last_response

    def _tunnel(self) -> None:
        self.requests.skip = self.responses.skip = ENDLESS
        self.requests.is_decoded = self.responses.is_decoded = False
        self._counts["tunnelled"] += 1

    def _visit_request(self, data: bytes, at: int, size: int) -> None:
        api_key, version, correlation_id = _REQUEST.unpack_from(data, at)
        if not self._has_request:
            if size > _REQUEST_BYTES_MAX or not 0 <= api_key < _API_KEYS or correlation_id < 0:
                raise DecodeError("the first bytes are no Kafka request")
            self._has_request = self.requests.is_decoded = True
        if self._raw and not looks_like_request(data[at - 4 :]):
            return
        self._raw = api_key == _SASL_HANDSHAKE and version == 0
        if api_key != PRODUCE or _expects_response(data, at, version):
            self._last_request = correlation_id
        if api_key in APIS and self._is_decodable(size):
            self.requests.is_decoded = True
            self._expected.add(correlation_id, api_key in APIS_WITH_RESPONSE)
        if api_key in APIS_WITH_ADDRESSES:
            self._remember_request(api_key, version, correlation_id)

    def _remember_request(self, api_key: int, version: int, correlation_id: int) -> None:
        """Remember a request with addresses in its response."""
        if has_addresses(api_key, version):
            self._pending.add(correlation_id, (api_key, version))
        elif is_too_new(api_key, version):
            self._counts[f"unread_addresses_{api_key}_{version}"] += 1

    def _visit_response(self, data: bytes, at: int, size: int) -> RewrittenHead | None:
        correlation_id = _INT32.unpack_from(data, at)[0]
        rewritten = None
        if correlation_id in self._pending:
            asked = self._pending.peek(correlation_id)
            rewritten = self._rewrite(data[at : at + size], size, *asked)
            self._pending.take(correlation_id)
        self.responses.is_decoded = bool(
            self._expected.take(correlation_id)
        ) and self._is_decodable(size)
        self._last_response = correlation_id
        if rewritten is None:
            return None
        head, consumed = rewritten
        return RewrittenHead(_INT32.pack(size + len(head) - consumed) + head, 4 + consumed)

    def _is_decodable(self, size: int) -> bool:
        """Whether the decoder reads a frame of this length."""
        if size > FRAME_LIMIT:
            self._counts["oversized"] += 1
        return size <= FRAME_LIMIT

    def _rewrite(self, data: bytes, size: int, api_key: int, version: int) -> RewrittenHead | None:
        missing = size - len(data)
        if not missing and names_no_broker(api_key, data):
            return None
        wanted = missing if has_addresses_at_end(api_key) else 0
        try:
            if not wanted:
                return rewrite(api_key, version, data, self._route)
        except TruncatedError as error:
            wanted = error.missing
        except DecodeError:
            pass
        has_room = self._withheld.has_room_for(len(data))
        if has_room and 0 < wanted <= min(missing, _REWRITE_BYTES_MAX - len(data)):
            raise TruncatedError(wanted)
        self._counts["addresses_unread"] += 1
        return None


_API_KEYS = 256


def _visit_nothing(_data: bytes, _at: int, _size: int) -> None:
    """Do nothing: a placeholder for a visit after `close`."""


def _do_nothing() -> None:
    """Do nothing: a placeholder for a callback after `close`."""


def _expects_response(data: bytes, at: int, version: int) -> bool:
    """Return whether a Produce request expects a response: not with acks=0."""
    try:
        at += _REQUEST.size
        at += 2 + max(0, _INT16.unpack_from(data, at)[0])  # client id
        if version >= 9:
            at += 1  # no client sends tagged fields in its header
            at += max(1, data[at])  # transactional id, shorter than 127 bytes
        elif version >= 3:
            at += 2 + max(0, _INT16.unpack_from(data, at)[0])
        acks: int = _INT16.unpack_from(data, at)[0]
    except (struct.error, IndexError):  # its head came in pieces
        return True
    return acks != 0
