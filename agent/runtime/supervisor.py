"""Supervision of the agent's background tasks: a task that a bug ended starts again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Never

RESTART_S = 5.0

log = logging.getLogger(__name__)


async def supervise(
    event: str,
    keys: Mapping[str, str],
    run: Callable[[], Awaitable[None]],
    on_end: Callable[[], None] = lambda: None,
) -> Never:
    """Run a task until cancelled; a bug in it ends nothing else.

    A bug is logged as ``event`` with ``keys``, with a traceback if it differs from the last one.
    ``on_end`` is called after each end.
    """
    last_error = ""
    while True:
        try:
            await run()
        except Exception as error:
            fault = {"error": repr(error)}
            log.exception(event, extra={**keys, **fault}, exc_info=last_error != repr(error))
            last_error = repr(error)
        on_end()
        await asyncio.sleep(RESTART_S)
