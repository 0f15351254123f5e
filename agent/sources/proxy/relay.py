"""One direction of a connection: copied at frame starts, spliced through opaque bodies.

Theory of operation. Bytes that were read must be written before more is read: that is the
back-pressure, and it limits the memory. `os.splice` moves a body from socket to socket through a
pipe, without a copy into the process; a pipe is borrowed for each body. Within a long body the
kernel wakes the loop only for many bytes (SO_RCVLOWAT). The best number differs by direction: a
client reads a response as it arrives, but a broker can use a request only when it is complete.
"""

import os
from collections.abc import Sized
from contextlib import suppress
from typing import NamedTuple, Protocol

from agent.sources.proxy.pipe_pool import PipePool
from agent.sources.proxy.socket_endpoint import CHUNK_BYTES, Endpoint
from agent.wire.proxying.frame_forwarder import FRAME_BYTES_MAX

_SPLICE_MIN_BYTES = CHUNK_BYTES
"""A body with a shorter rest behind its first read is copied: cheaper than a pipe. Splicing goes on
to the end of a body: its last bytes would take another turn."""
_TURN_BYTES = 4 << 20
"""Bytes of a body in one turn, before other connections have theirs."""
_ROUNDS = 8
"""Steps before others have their turn: at most 32 MiB."""


class SpliceTuning(NamedTuple):
    """How bodies of one direction are moved."""

    pipe_bytes: int
    """The size of a pipe, and of one move."""
    await_bytes: int
    """Fewer bytes of a longer body wake the loop for nothing."""
    flags: int = 0
    """Of all parts of a body but its last."""
    shuts_down_target: bool = False
    """Whether the target's sending side is shut down at the source's end."""


RESPONSES = SpliceTuning(pipe_bytes=64 << 10, await_bytes=1 << 20)
"""Pipes of 128 KiB take a little less CPU for a slow reader, and a tenth more for a fast one; so
does a wait for 2 MiB. With 768 KiB and SPLICE_F_MORE a third of the throughput was left: the kernel
keeps bytes back from the reader. To stop at a short piece costs a fifth more: a pipe is full with
16 of them, and more is there."""
REQUESTS = SpliceTuning(
    pipe_bytes=1 << 20, await_bytes=768 << 10, flags=os.SPLICE_F_MORE, shuts_down_target=True
)
"""A producer's batches come in many small pieces; a pipe of 64 KiB holds 16 of them."""


class FrameFilter(Protocol):
    """The frames of a direction: a `FrameSplitter`."""

    skip: int
    """Bytes up to the next frame's start; the relay subtracts those that pass without `feed`."""
    is_decoded: bool
    """Whether the decoder gets those."""

    @property
    def rewrites(self) -> Sized:
        """Not empty while the next frame may change; else all passes if nothing is `pending`."""

    @property
    def pending(self) -> Sized:
        """Bytes that were read and not yet written."""

    def feed(self, data: bytes) -> bytes:
        """Take read bytes; return the bytes to write for them."""

    def track(self, data: bytes) -> None:
        """Take bytes that pass unchanged."""


class Relay:
    """One direction.

    The path of a heartbeat (`copy`) has few calls: after each wait no cache is warm.
    """

    __slots__ = (
        "_filter",
        "_out",
        "_pipe",
        "_piped",
        "_pipes",
        "_recv",
        "_send",
        "_splices",
        "_tuning",
        "body",
        "ended",
        "finished",
        "is_paused",
        "source",
        "target",
        "total_bytes",
        "wants_write",
    )

    def __init__(
        self,
        source: Endpoint,
        target: Endpoint,
        flow: FrameFilter,
        pipes: PipePool,
        tuning: SpliceTuning,
    ) -> None:
        """Move nothing yet."""
        self._tuning = tuning
        self.source, self.target, self._filter, self._pipes = source, target, flow, pipes
        self._recv, self._send = source.recv, target.send
        self._out: bytes | memoryview = b""
        self._splices = source.can_splice and target.can_splice
        self._pipe: tuple[int, int] | None = None
        self._piped = 0
        self.body = self._count_opaque()
        """The rest of a body that the decoder does not get; 0 if that is little."""
        self.wants_write = False
        """Whether it waits for its target."""
        self.ended = False
        """Whether the source has ended."""
        self.finished = False
        """Whether that was passed on, as far as it is, and all before it."""
        self.is_paused = False
        """Whether nothing more is to be read."""
        self.total_bytes = 0

    @property
    def wants_read(self) -> bool:
        """Whether it waits for its source."""
        return not (self.ended or self.is_paused or self.wants_write)

    def run(self) -> bool:
        """Move available bytes; return whether there may be more at once."""
        for _ in range(_ROUNDS):
            if self.wants_write and not self._write():
                return False
            if self.ended and not self.finished:
                if self._tuning.shuts_down_target:
                    self.target.finish()
                self.finished = True
            if self.ended or self.is_paused:
                return False
            if not (self._move() if self.body else self.copy()):
                return False
        return True

    def copy(self) -> bool:
        """Read once at a frame's start, and write; return whether there may be more at once."""
        try:
            data = self._recv()
        except BlockingIOError:
            return False
        if not data:
            self.ended = True
            return True
        flow, out = self._filter, data
        rewrites = bool(flow.rewrites or flow.pending)
        if rewrites:
            out = flow.feed(data)
        if out:
            try:
                sent = self._send(out)
            except BlockingIOError:
                sent = 0
            if sent < len(out):
                self._out, self.wants_write = memoryview(out)[sent:], True
        if not rewrites:
            flow.track(data)
        self.total_bytes += len(data)
        self.body = flow.skip and self._count_opaque()
        return len(data) >= self.source.more_bytes

    def splice(self) -> bool:
        """Move the available part of a body; return whether there was any."""
        return self._splices and not self.wants_write and self._splice() > 0

    def close(self) -> None:
        """Give a pipe back."""
        if self._pipe is not None:
            self._pipes.give_back(self._pipe, self._tuning.pipe_bytes, empty=not self._piped)
            self._pipe = None

    def _write(self) -> bool:
        """Write the read bytes; return whether nothing of them is left."""
        with suppress(BlockingIOError):
            if self._out:
                sent = self._send(self._out)
                self._out = memoryview(self._out)[sent:] if sent < len(self._out) else b""
            elif self._pipe is not None:
                self._piped -= os.splice(self._pipe[0], self.target.fd, self._piped)
                if not (self._piped or _is_within_frame(self.body)):
                    self.close()
        self.wants_write = bool(self._out or self._piped)
        return not self.wants_write

    def _move(self) -> bool:
        """Move the available part of a body once; return whether there may be more at once."""
        if not self._splices:
            return self._copy_body()
        moved = self._splice()
        self.ended = not moved
        return self.ended or moved >= _TURN_BYTES

    def _splice(self) -> int:
        """Splice the available part of a body; return its size, 0 at the end, -1 without any."""
        moved = self._splice_body()
        if moved > 0:
            self._count_bytes(moved)
        left, await_bytes = self.body, self._tuning.await_bytes
        if _is_within_frame(left):  # a client can do nothing with a small part
            self.source.await_bytes(left if left < 2 * await_bytes else await_bytes)
        else:
            self.source.await_bytes(1)
            if not self._piped:
                self.close()
        return moved

    def _splice_body(self) -> int:
        """Do as `_splice`, and update nothing but the bytes in the pipe.

        A gigabyte takes 20,000 rounds with cold caches: each flag of a call costs as much as the
        kernel's work. All descriptors are non-blocking, so splices are without a flag.
        """
        left = body = self.body
        flags = self._tuning.flags if _is_within_frame(body) else 0
        pipe = self._pipe = self._pipe or self._pipes.lend(self._tuning.pipe_bytes)
        to_pipe, from_pipe, source, target = pipe[1], pipe[0], self.source.fd, self.target.fd
        splice, least = os.splice, max(0, body - _TURN_BYTES)
        piped = sent = 0
        try:
            while left > least:
                piped = sent = 0
                piped = splice(source, to_pipe, left)
                left -= piped
                if flags and left:
                    sent = splice(from_pipe, target, piped, None, None, flags)
                else:
                    sent = splice(from_pipe, target, piped)
                if sent != piped or not piped:
                    break
        except BlockingIOError:
            return body - left or -1
        finally:
            piped -= sent
            self._piped, self.wants_write = piped, piped > 0
        return body - left

    def _copy_body(self) -> bool:
        """Move a body through one buffer of all connections: TLS must see it."""
        buffer = self._pipes.buffer
        try:
            moved = self.source.recv_into(buffer[: min(self.body, len(buffer))])
        except BlockingIOError:
            return False
        self.ended = not moved
        self._count_bytes(moved)
        self._out = buffer[:moved]
        if moved:
            self._write()
        self._out = bytes(self._out)  # the part that the target did not take
        return True

    def _count_bytes(self, size: int) -> None:
        self.total_bytes += size
        self._filter.skip -= size
        self.body = self.body - size or self._count_opaque()

    def _count_opaque(self) -> int:
        flow = self._filter
        return 0 if flow.is_decoded or flow.skip < _SPLICE_MIN_BYTES else flow.skip


def _is_within_frame(body: int) -> bool:
    """Return whether more bytes of a body must follow; in a tunnel that is never certain."""
    return 0 < body <= FRAME_BYTES_MAX
