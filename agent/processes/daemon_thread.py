"""Blocking calls in daemon threads: neither a cancelled task nor the agent's end waits for them.

`asyncio.to_thread` is no choice for a call to a peer: the end of the event loop waits for its
threads, however long the peer is silent.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

_T = TypeVar("_T")


async def call_in_daemon(call: Callable[[], _T], name: str) -> _T:
    """Return the call's result, or raise its error. After a cancellation the call is abandoned."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()
    threading.Thread(target=_work, args=(call, loop, done), name=name, daemon=True).start()
    try:
        return await done
    finally:
        del done  # an error would keep its traceback, this frame, the future, and so itself


def _work(
    call: Callable[[], _T], loop: asyncio.AbstractEventLoop, done: asyncio.Future[_T]
) -> None:
    try:
        outcome = partial(done.set_result, call())
    except BaseException as error:  # noqa: BLE001 - raised again in the event loop
        outcome = partial(done.set_exception, error)
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(_finish, done, outcome)
    del done, outcome  # as above


def _finish(done: asyncio.Future[_T], outcome: Callable[[], None]) -> None:
    if not done.done():  # else it was cancelled meanwhile
        outcome()
