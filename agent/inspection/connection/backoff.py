"""Retriable errors, and exponential backoff within a timeout."""

import asyncio
import random
import time

from agent.wire.codec.kio_import import without_hypothesis

with without_hypothesis():
    from kio.schema.errors import ErrorCode

_INITIAL_PAUSE_S, _MAX_PAUSE_S = 0.1, 2.0


RETRIABLE = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
"""The coordinator loads its log, is being elected, or has moved."""


class Backoff:
    """Pauses between attempts, within ``timeout_s`` for attempts and pauses together."""

    def __init__(self, timeout_s: float) -> None:
        """Start the timeout now."""
        self._end_s = time.monotonic() + timeout_s
        self._next_s = _INITIAL_PAUSE_S

    async def wait(self) -> bool:
        """Pause and return True; return False at once if the timeout leaves no time for it."""
        pause_s = self._next_s * random.uniform(0.8, 1.2)  # noqa: S311 - jitter is no secret
        if time.monotonic() + pause_s > self._end_s:
            return False
        self._next_s = min(2 * self._next_s, _MAX_PAUSE_S)
        await asyncio.sleep(pause_s)
        return True
