"""Moves one direction of a connection: copied where frames start, spliced through opaque bodies.

Theory of operation. What was read must be written before more is read: that is the back-pressure,
and the bound of memory. `os.splice` moves a body from socket to socket through a pipe, without a
copy into the process; a pipe is lent while a body passes. Within a long body the kernel is asked
to wake nobody for a few bytes (SO_RCVLOWAT): that halves what a gigabyte costs.
"""

import fcntl
import os
from contextlib import suppress
from functools import cached_property
from typing import Protocol

from agent.sources.proxy_ends import CHUNK_BYTES, End
from agent.wire.passage import FRAME_BYTES_MAX

SPLICE_MIN_BYTES = CHUNK_BYTES
"""A shorter rest of a body is copied: cheaper than the two more system calls."""
_PIPE_BYTES = 1 << 20
_BUFFER_BYTES = 256 << 10
"""Sixteen TLS records."""
_AWAIT_BYTES = 768 << 10
"""Fewer bytes of a longer body wake nobody: a client can do nothing with part of an answer. With
512 KiB a Java consumer cost 7 % more; with 1 MiB a fetcher of 4 MiB answers was slower."""
_ROUNDS = 16
"""Steps before others have their turn: at most 16 MiB."""
_PIPES_KEPT = 16
_FLAGS = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK


class Pipes:
    """Pipes to lend."""

    def __init__(self) -> None:
        self._idle: list[tuple[int, int]] = []

    @cached_property
    def buffer(self) -> memoryview:
        """What TLS passes through; each user empties it at once."""
        return memoryview(bytearray(_BUFFER_BYTES))

    def lend(self) -> tuple[int, int]:
        """Return an empty pipe's two ends, to read and to write."""
        if self._idle:
            return self._idle.pop()
        pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError):  # the user's pipes are as large as they may be: 64 KiB will do
            fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return pipe

    def give_back(self, pipe: tuple[int, int], *, empty: bool) -> None:
        """Take a pipe back; one that is not empty is closed."""
        if empty and len(self._idle) < _PIPES_KEPT:
            self._idle.append(pipe)
        else:
            os.close(pipe[0])
            os.close(pipe[1])

    def close(self) -> None:
        """Close those that are not lent."""
        for pipe in self._idle:
            os.close(pipe[0])
            os.close(pipe[1])
        self._idle.clear()


class Flow(Protocol):
    """What a direction's bytes mean."""

    def copied(self, data: bytes) -> bytes:
        """Take bytes that were read; return what to write for them."""

    def opaque(self) -> int:
        """Return how many bytes come next that nobody needs to see; 0 if they are few."""

    def carried(self, size: int) -> None:
        """Take note of bytes that have passed unseen."""


class Pump:
    """One direction."""

    __slots__ = (
        "_body",
        "_flow",
        "_out",
        "_pipe",
        "_piped",
        "_pipes",
        "_splices",
        "_unseen",
        "ended",
        "finished",
        "held",
        "moved_bytes",
        "source",
        "target",
    )

    def __init__(self, source: End, target: End, flow: Flow, pipes: Pipes) -> None:
        """Move nothing yet."""
        self.source, self.target, self._flow, self._pipes = source, target, flow, pipes
        self._out: bytes | memoryview = b""
        self._splices = source.can_splice and target.can_splice
        self._pipe: tuple[int, int] | None = None
        self._piped = 0
        self._body = 0
        """What is left of a body that nobody needs to see, and what has passed of it."""
        self._unseen = 0
        self.ended = False
        """Whether the source has said that nothing more comes."""
        self.finished = False
        """Whether that was passed on."""
        self.held = False
        """Whether nothing more is to be read."""
        self.moved_bytes = 0

    @property
    def wants_read(self) -> bool:
        """Whether it waits for its source."""
        return not (self.ended or self.held or self._out or self._piped)

    @property
    def wants_write(self) -> bool:
        """Whether it waits for its target."""
        return bool(self._out or self._piped)

    @property
    def in_body(self) -> bool:
        """Whether it waits for more of a body that nobody needs to see."""
        return self._body > 0 and not (self._out or self._piped)

    @property
    def _is_within_frame(self) -> bool:
        """Whether the rest of a body is sure to come; a tunnel waits for nothing."""
        return 0 < self._body <= FRAME_BYTES_MAX

    def carry(self) -> bool:
        """Move what is there of a body; return whether anything was."""
        return self._body > 0 and self._splices and self.in_body and self._splice() > 0

    def run(self) -> bool:
        """Move what can be moved; return whether there may be more at once."""
        for _ in range(_ROUNDS):
            if (self._out or self._piped) and not self._write():
                return False
            if self.ended and not self.finished:
                self.target.finish()
                self.finished = True
            if self.ended or self.held or not self._read():
                return False
        return True

    def close(self) -> None:
        """Let go of a pipe."""
        if self._pipe is not None:
            self._pipes.give_back(self._pipe, empty=not self._piped)
            self._pipe = None

    def _write(self) -> bool:
        """Write what was read; return whether nothing of it is left."""
        if self._out:
            sent = self.target.send(self._out)
            self._out = memoryview(self._out)[sent:] if sent < len(self._out) else b""
        elif self._pipe is not None:
            try:
                self._piped -= os.splice(
                    self._pipe[0], self.target.fd, self._piped, None, None, _FLAGS
                )
            except BlockingIOError:
                return False
            self._release()
        return not self.wants_write

    def _read(self) -> bool:
        """Read once and write that; return whether there may be more at once."""
        self._body = self._body or self._flow.opaque()
        if not self._body:
            return self._copy()
        if not self._splices:
            return self._shuttle()
        moved = self._splice()
        self.ended = not moved
        return self.ended or (moved == _PIPE_BYTES and self._body > 0)

    def _copy(self) -> bool:
        data = self.source.recv()
        if data is None:
            return False
        self.ended = not data
        self.moved_bytes += len(data)
        self._out = self._flow.copied(data) if data else b""
        if self._out:
            self._write()
        return self.ended or self.source.more

    def _splice(self) -> int:
        """Splice what is there of a body; return its size, -1 if there is nothing now."""
        body, moved = self._body, -1
        pipe = self._pipe = self._pipe or self._pipes.lend()
        try:
            wanted = min(body, _PIPE_BYTES)
            moved = self._piped = os.splice(self.source.fd, pipe[1], wanted, None, None, _FLAGS)
            self._carried(moved)
            flags = _FLAGS | os.SPLICE_F_MORE if self._is_within_frame else _FLAGS
            self._piped -= os.splice(pipe[0], self.target.fd, moved, None, None, flags)
        except BlockingIOError:
            pass
        self._release()
        self.source.await_bytes(_awaited(self._body) if self._is_within_frame else 1)
        return moved

    def _release(self) -> None:
        if not (self._piped or self._is_within_frame):
            self.close()

    def _shuttle(self) -> bool:
        """Move a body through one buffer of all connections: TLS must see it, nobody else."""
        buffer = self._pipes.buffer
        moved = self.source.recv_into(buffer[: min(self._body, len(buffer))])
        if moved is None:
            return False
        self.ended = not moved
        self._carried(moved)
        self._out = buffer[:moved]
        if moved:
            self._write()
        self._out = bytes(self._out)  # what the target did not take
        return self.ended or self.source.more

    def _carried(self, size: int) -> None:
        self.moved_bytes += size
        self._unseen += size
        self._body -= size
        if self._body < SPLICE_MIN_BYTES:
            self._flow.carried(self._unseen)
            self._body = self._unseen = 0


def _awaited(body: int) -> int:
    """Return how much of a body to wait for."""
    return body if body < 2 * _AWAIT_BYTES else _AWAIT_BYTES
