"""Bytes in any pieces in, Kafka frames out; one framer a direction of a connection.

Theory of operation. A frame is a length and that many bytes. Its head (the first bytes after the
length) shows whether it is wanted. The body of any other frame is skipped by its length and never
stored, so a claim of 2 GiB costs nothing. The store is one wanted frame, and no more of it than has
arrived.
"""

import struct
from collections.abc import Callable

from agent.errors import DecodeError

FRAME_LIMIT = 8 << 20
"""Upper bound of wanted bytes: a JoinGroup response to the leader of 1,000 Streams members of 4 KiB
each fits twice.
"""
_LENGTH = struct.Struct(">i")
Wanted = Callable[[bytes, int], bool]
"""(a frame's head, its size): whether anyone wants it. Not kept: it may be its keeper's method."""


class Framer:
    """Cuts one direction of a connection into frames."""

    __slots__ = ("_buffer", "_head", "_need", "_skip")

    def __init__(self, head_bytes: int) -> None:
        """Cut frames that are recognised by their first ``head_bytes``."""
        self._head = _LENGTH.size + head_bytes
        self._skip = 0
        self._buffer = bytearray()
        self._need = 0

    @property
    def buffer_bytes(self) -> int:
        """Bytes that have arrived of an incomplete frame."""
        return len(self._buffer)

    def feed(self, data: bytes, wanted: Wanted) -> list[bytes]:
        """Return the frames that are ``wanted`` and complete now, without their length.

        Raises:
            DecodeError: a length that no frame has; the stream is not Kafka's or was misread.

        """
        frames: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if self._skip:
                step = min(self._skip, end - at)
                self._skip -= step
                at += step
            elif self._buffer:
                at = self._collect(data, at, wanted, frames)
            else:
                at = self._start(data, at, wanted, frames)
        return frames

    def skip_lost(self, size_bytes: int) -> bool:
        """Pass over bytes that were never seen; False if the place in the stream is lost."""
        if size_bytes <= self._skip:
            self._skip -= size_bytes
            return True
        self.reset()
        return False

    def reset(self) -> None:
        """Expect a frame's start next."""
        self._skip, self._need = 0, 0
        self._buffer.clear()

    def _start(self, data: bytes, at: int, wanted: Wanted, frames: list[bytes]) -> int:
        """Read the frame that starts at ``at``; return the position after it."""
        end = len(data)
        if end - at < self._head:
            self._buffer += data[at : at + _LENGTH.size]
            self._need = _LENGTH.size
            return self._advance(at + len(self._buffer), wanted, frames)
        size = self._size(data, at)
        body = at + _LENGTH.size
        if size < self._head - _LENGTH.size:
            self._skip = size
            return body
        is_wanted = wanted(data[body : at + self._head], size)
        if body + size <= end:
            if is_wanted:
                frames.append(data[body : body + size])
        elif is_wanted:
            self._buffer += data[at:]
            self._need = _LENGTH.size + size
        else:
            self._skip = body + size - end
        return min(body + size, end)

    def _collect(self, data: bytes, at: int, wanted: Wanted, frames: list[bytes]) -> int:
        """Complete the length, the head and the body of a frame that arrived in pieces."""
        step = min(self._need - len(self._buffer), len(data) - at)
        self._buffer += data[at : at + step]
        return self._advance(at + step, wanted, frames)

    def _advance(self, at: int, wanted: Wanted, frames: list[bytes]) -> int:
        """Choose the next state of the buffered frame; passes ``at`` on."""
        buffer = self._buffer
        if len(buffer) < self._need:
            return at
        size = self._size(buffer, 0)
        if len(buffer) == _LENGTH.size:
            self._expect_head(size)
        elif len(buffer) == self._head and not wanted(bytes(buffer[_LENGTH.size :]), size):
            self._skip = _LENGTH.size + size - self._head
            buffer.clear()
        elif len(buffer) == _LENGTH.size + size:
            frames.append(bytes(buffer[_LENGTH.size :]))
            buffer.clear()
        else:
            self._need = _LENGTH.size + size
        return at

    def _expect_head(self, size: int) -> None:
        if size < self._head - _LENGTH.size:  # a raw SASL token: older than SaslAuthenticate
            self._skip = size
            self._buffer.clear()
        else:
            self._need = self._head

    def _size(self, data: bytes | bytearray, at: int) -> int:
        size: int = _LENGTH.unpack_from(data, at)[0]
        if size < 0:
            raise DecodeError(f"a frame of {size} bytes")
        return size
