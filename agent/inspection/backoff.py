"""Which errors go away by themselves, and how long we wait for that: bounded, ever longer."""

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
"""The coordinator reads its log, is being found, or has moved."""


class Backoff:
    """Pauses between attempts; after ``patience_s``, attempts included, there is none more."""

    def __init__(self, timeout_s: float) -> None:
        """Begin now."""
        self._end_s = time.monotonic() + timeout_s
        self._next_s = _INITIAL_PAUSE_S

    async def wait(self) -> bool:
        """Pause; False at once where the patience is used up."""
        pause_s = self._next_s * random.uniform(0.8, 1.2)  # noqa: S311 - jitter is no secret
        if time.monotonic() + pause_s > self._end_s:
            return False
        self._next_s = min(2 * self._next_s, _MAX_PAUSE_S)
        await asyncio.sleep(pause_s)
        return True
