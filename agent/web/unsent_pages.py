"""Bound on pages that wait for their readers, in bytes of all together.

A page of 20,000 members has some 20 MiB, and each of 64 connections may have one that it does not
read. Beyond the bound the connections end whose page has waited longest.
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

log = logging.getLogger(__name__)


class _Token:
    """Identity of a page, without its bytes: each piece is released when it is sent."""


@dataclass(frozen=True, slots=True)
class Page:
    """A response's body in pieces, for one or several readers."""

    pieces: Sequence[bytes]
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)
    token: _Token = field(default_factory=_Token)


@dataclass(frozen=True, slots=True)
class _Unsent:
    size: int
    readers: set[asyncio.Task[Any]] = field(default_factory=set)


class UnsentPages:
    """The pages that are being sent, by the time of their first readers."""

    def __init__(self) -> None:
        """Nothing is being sent."""
        self._pages: dict[_Token, _Unsent] = {}

    def respond(self, page: Page) -> Response:
        """Return a response for one more reader."""
        hold = self._hold(page.token, sum(map(len, page.pieces)))
        return PieceResponse(list(page.pieces), page.content_type, page.headers, hold)

    @contextmanager
    def _hold(self, token: _Token, size: int) -> Iterator[None]:
        """Count a page while the current task sends it; the task may be cancelled for others."""
        unsent = self._pages.setdefault(token, _Unsent(size))
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a response is sent by a task
        unsent.readers.add(task)
        self._cut_oldest(token)
        try:
            yield
        finally:
            unsent.readers.discard(task)
            if not unsent.readers and self._pages.get(token) is unsent:
                del self._pages[token]

    def _cut_oldest(self, newest: _Token) -> None:
        excess = sum(each.size for each in self._pages.values()) - MAX_UNSENT_BYTES
        for token in [each for each in self._pages if each is not newest]:
            if excess <= 0:
                return
            cut = self._pages.pop(token)
            log.warning("slow_readers_cut", extra={"readers": len(cut.readers), "bytes": cut.size})
            for task in cut.readers:
                task.cancel()
            excess -= cut.size
