"""Bound on pages that wait for their readers, in bytes of all together.

A page of 20,000 members has some 20 MiB, and each of 64 connections may have one that it does not
read. Beyond the bound the connections end that have waited longest. Readers of one page share its
bytes; each has a buffer of its own for what its peer has not yet taken.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from agent.web.piece_response import PieceResponse

MAX_UNSENT_BYTES = 64 << 20
"""Several pages of 20,000 members: two Prometheus servers may come at once."""
MEMORY_SHARE = 8
"""The bound is at most this part of `limits.memory`: pages are beside all that the agent stores."""
READER_BYTES = 128 << 10
"""Of each reader: asyncio buffers 64 KiB before it waits, and up to one write of 64 KiB more."""

log = logging.getLogger(__name__)


class _Token:
    """Identity of a page, without its bytes: each piece is released when it is sent."""


@dataclass(frozen=True, slots=True)
class Page:
    """A response's body in pieces, for one or several readers."""

    pieces: Sequence[bytes]
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)
    status_code: int = 200
    token: _Token = field(default_factory=_Token)


@dataclass(slots=True)
class _Unsent:
    size: int
    readers: int = 0


class UnsentPages:
    """The pages that are being sent, and their readers in the order of their time."""

    def __init__(self, memory_bytes: int = MAX_UNSENT_BYTES * MEMORY_SHARE) -> None:
        """Nothing is being sent; ``memory_bytes`` is the limit of the process."""
        self._limit_bytes = min(MAX_UNSENT_BYTES, memory_bytes // MEMORY_SHARE)
        self._pages: dict[_Token, _Unsent] = {}
        self._readers: dict[asyncio.Task[Any], _Token] = {}
        self._held_bytes = 0

    def respond(self, page: Page) -> Response:
        """Return a response for one more reader."""
        hold = self._hold(page.token, sum(map(len, page.pieces)))
        return PieceResponse(
            list(page.pieces), page.content_type, page.headers, hold, page.status_code
        )

    def shrink(self) -> None:
        """Cut all readers but those of the newest page: memory is short."""
        newest = next(reversed(self._readers.values()), None)
        self._cut([task for task, token in self._readers.items() if token is not newest])

    @contextmanager
    def _hold(self, token: _Token, size: int) -> Iterator[None]:
        """Count a page while the current task sends it; the task may be cancelled for others."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a response is sent by a task
        unsent = self._pages.get(token)
        if unsent is None:
            unsent = self._pages[token] = _Unsent(size)
            self._held_bytes += size
        unsent.readers += 1
        self._readers[task] = token
        self._held_bytes += READER_BYTES
        self._cut(self._find_excess(task))
        try:
            yield
        finally:
            self._release(task)

    def _find_excess(self, newest: asyncio.Task[Any]) -> list[asyncio.Task[Any]]:
        """Return the readers that have waited longest, whose end makes room."""
        excess = self._held_bytes - self._limit_bytes
        left = {token: unsent.readers for token, unsent in self._pages.items()}
        found: list[asyncio.Task[Any]] = []
        for task, token in self._readers.items():
            if excess <= 0 or task is newest:
                break
            found.append(task)
            left[token] -= 1
            excess -= READER_BYTES + (0 if left[token] else self._pages[token].size)
        return found

    def _cut(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        if not tasks:
            return
        before = self._held_bytes
        for task in tasks:
            self._release(task)
            task.cancel()
        keys = {"readers": len(tasks), "bytes": before - self._held_bytes}
        log.warning("slow_readers_cut", extra=keys)

    def _release(self, task: asyncio.Task[Any]) -> None:
        """Count a reader no more, once; its page neither, if it was the last one."""
        token = self._readers.pop(task, None)
        if token is None:
            return
        unsent = self._pages[token]
        unsent.readers -= 1
        self._held_bytes -= READER_BYTES
        if not unsent.readers:
            self._held_bytes -= unsent.size
            del self._pages[token]
