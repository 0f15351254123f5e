"""Turns of requests that take seconds of CPU: one at a time, and equal ones that wait share one.

Fifty readers of one page cost two pages: the one that is under way when they come, and the next
one. A request's input is read when its turn comes, so those that wait hold no copy of the state.
"""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.responses import PlainTextResponse, Response

MAX_TURNS = 16
"""Different requests that wait or run."""
MAX_WAIT_S = 10.0
"""Longest wait for a turn: scrapers give up then, by default."""
RETRY_S = 5
"""Seconds after which a refused request may come again."""

_T = TypeVar("_T")


class BusyError(Exception):
    """Too many requests wait, or this one has waited for too long."""

    def response(self) -> Response:
        """Return the refusal, with the time to retry."""
        return PlainTextResponse(f"{self}\n", 503, {"Retry-After": str(RETRY_S)})


class SharedTurns:
    """One thread, and the requests that wait for it, in their order."""

    def __init__(self, name: str, max_turns: int = MAX_TURNS) -> None:
        """``name`` is the thread's; ``max_turns`` different requests may wait or run."""
        self._max_turns = max_turns
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._turn = asyncio.Lock()
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}
        self._running = set[asyncio.Task[Any]]()

    async def run(self, key: Hashable, prepare: Callable[[], Callable[[], _T]]) -> _T:
        """Return the result of ``prepare()()``; requests of equal ``key`` have equal results.

        ``prepare`` runs in the event loop when the turn has come, and its result in the thread.

        Raises:
            BusyError: too many wait, or the turn did not come in time.

        """
        task = self._waiting.get(key)
        if task is None:
            if len(self._running) >= self._max_turns:
                raise BusyError("too many requests wait; try again later")
            task = self._waiting[key] = asyncio.create_task(self._take_turn(key, prepare))
            self._running.add(task)
            task.add_done_callback(self._forget)
        result: _T = await asyncio.shield(task)
        return result

    async def _take_turn(self, key: Hashable, prepare: Callable[[], Callable[[], _T]]) -> _T:
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                await self._turn.acquire()
        except TimeoutError:
            raise BusyError("waited for too long; try again later") from None
        finally:
            del self._waiting[key]
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, prepare())
        finally:
            self._turn.release()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left who waits for it
