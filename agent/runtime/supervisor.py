"""What runs for as long as the agent does, and begins again where a bug of ours ended it."""

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
    ended: Callable[[], None] = lambda: None,
) -> Never:
    """Run it until cancelled; a bug of it ends nothing else.

    A bug is logged as ``event`` with ``keys``, and its trace when it is another than last time.
    ``ended`` is called after each end.
    """
    told = ""
    while True:
        try:
            await run()
        except Exception as error:
            fault = {"error": repr(error)}
            log.exception(event, extra={**keys, **fault}, exc_info=told != repr(error))
            told = repr(error)
        ended()
        await asyncio.sleep(RESTART_S)
