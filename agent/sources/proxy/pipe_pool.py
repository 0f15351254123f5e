"""A pool of pipes that bodies pass through from socket to socket."""

import fcntl
import os
from collections import defaultdict
from contextlib import suppress
from functools import cached_property

_BUFFER_BYTES = 256 << 10
"""Sixteen TLS records."""
_PIPES_KEPT = 16


class PipePool:
    """Pipes to lend."""

    def __init__(self) -> None:
        self._idle: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    @cached_property
    def buffer(self) -> memoryview:
        """A buffer for bodies under TLS; each user empties it at once."""
        return memoryview(bytearray(_BUFFER_BYTES))

    def lend(self, size: int) -> tuple[int, int]:
        """Return the ends of an empty pipe of ``size`` bytes: to read, and to write."""
        if self._idle[size]:
            return self._idle[size].pop()
        pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError):  # the user's pipes are as large as they may be: any will do
            fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, size)
        return pipe

    def give_back(self, pipe: tuple[int, int], size: int, *, empty: bool) -> None:
        """Take a pipe back; one that is not empty is closed."""
        if empty and len(self._idle[size]) < _PIPES_KEPT:
            self._idle[size].append(pipe)
        else:
            _close(pipe)

    def close(self) -> None:
        """Close those that are not lent."""
        for pipes in self._idle.values():
            for pipe in pipes:
                _close(pipe)
        self._idle.clear()


def _close(pipe: tuple[int, int]) -> None:
    for end in pipe:
        os.close(end)
