"""Moves one direction of a connection: copied where frames start, spliced through opaque bodies.

Theory of operation. What was read must be written before more is read: that is the back-pressure,
and the bound of memory. `os.splice` moves a body from socket to socket through a pipe, without a
copy into the process; a pipe is lent while bytes are in it.
"""

import fcntl
import os
from contextlib import suppress
from functools import cached_property
from typing import Protocol

from agent.sources.proxy_ends import CHUNK_BYTES, End

SPLICE_MIN_BYTES = CHUNK_BYTES
"""A shorter rest of a body is copied: cheaper than the two more system calls."""
_PIPE_BYTES = 1 << 20
_BUFFER_BYTES = 256 << 10
"""Sixteen TLS records."""
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

    def spliceable(self) -> int:
        """Return how many bytes come next that nobody needs to see."""

    def spliced(self, size: int) -> None:
        """Take note of bytes that have passed unseen."""


class Pump:
    """One direction."""

    __slots__ = (
        "_flow",
        "_out",
        "_pipe",
        "_piped",
        "_pipes",
        "_splices",
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

    def run(self) -> bool:
        """Move what can be moved; return whether there may be more at once."""
        for _ in range(_ROUNDS):
            if self.wants_write and not self._write():
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
                self._piped -= os.splice(self._pipe[0], self.target.fd, self._piped, flags=_FLAGS)
            except BlockingIOError:
                return False
            if not self._piped:
                self.close()
        return not self.wants_write

    def _read(self) -> bool:
        """Read once and write that; return whether there may be more at once."""
        size = self._flow.spliceable()
        if size < SPLICE_MIN_BYTES:
            return self._copy()
        return self._splice(size) if self._splices else self._shuttle(size)

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

    def _splice(self, size: int) -> bool:
        self._pipe = self._pipe or self._pipes.lend()
        wanted = min(size, _PIPE_BYTES)
        try:
            moved = os.splice(self.source.fd, self._pipe[1], wanted, flags=_FLAGS)
        except BlockingIOError:
            self.close()
            return False
        self._piped = moved
        self._pass_unseen(moved)
        return self.ended or moved == wanted

    def _shuttle(self, size: int) -> bool:
        """Move a body through one buffer of all connections: TLS must see it, nobody else."""
        buffer = self._pipes.buffer
        moved = self.source.recv_into(buffer[: min(size, len(buffer))])
        if moved is None:
            return False
        self._out = buffer[:moved]
        self._pass_unseen(moved)
        self._out = bytes(self._out)  # what the target did not take
        return self.ended or self.source.more

    def _pass_unseen(self, size: int) -> None:
        self.ended = not size
        self.moved_bytes += size
        self._flow.spliced(size)
        if size:
            self._write()
