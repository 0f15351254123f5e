"""Bounds of brokers' responses, each and all together.

Theory of operation. A cluster may have hundreds of brokers, and a poll sends to all of them at
once. Short responses pass. Long ones wait for room before they are read, in the order in which they
began; one that alone is as long as the room is read when it is empty.
"""

import asyncio
from dataclasses import dataclass

SHORT_BYTES = 256 << 10
"""A longer response takes room, and is decoded in another thread: one of 100 MiB takes seconds."""
WAIT_MAX_S = 30.0
"""A response waits no longer: others may come byte by byte until they end with their timeout."""
FRAME_BYTES_MAX = 100 << 20
"""A broker's own limit (socket.request.max.bytes); a longer response is not Kafka's."""
_LOOKUPS = 32
"""Names that are resolved at once, in a thread each: a cluster may name thousands of hosts."""
_ELEMENT_LIMIT = 2_000_000
"""Array elements of one response, some 150 MB of Python at worst: a group may have every partition
of a large cluster, as owned and as target."""
_FRAME_SHARE, _ELEMENT_SHARE = 4, 256
"""Parts of an agent's memory: at its default of 256 MiB, 64 MiB and a million elements."""


@dataclass(frozen=True, slots=True)
class ResponseLimits:
    """Limits of one response; long responses that are read at once share ``frame_bytes``."""

    frame_bytes: int = FRAME_BYTES_MAX
    elements: int = _ELEMENT_LIMIT

    @classmethod
    def within(cls, memory_bytes: int) -> "ResponseLimits":
        """Return the limits for a process of this memory."""
        return cls(
            min(FRAME_BYTES_MAX, memory_bytes // _FRAME_SHARE),
            min(_ELEMENT_LIMIT, memory_bytes // _ELEMENT_SHARE),
        )


class ResponseRoom:
    """Room for the long responses of all connections of a pool."""

    def __init__(self, limits: ResponseLimits | None = None) -> None:
        self.limits = ResponseLimits() if limits is None else limits
        self.lookups = asyncio.Semaphore(_LOOKUPS)
        self._used = 0
        self._entrance, self._left = asyncio.Lock(), asyncio.Event()

    async def enter(self, size_bytes: int) -> None:
        """Wait for room; `leave` gives it back.

        Raises:
            TimeoutError: there is none for too long.

        """
        if size_bytes <= SHORT_BYTES:
            return
        async with asyncio.timeout(WAIT_MAX_S), self._entrance:
            while self._used and self._used + size_bytes > self.limits.frame_bytes:
                self._left.clear()
                await self._left.wait()
            self._used += size_bytes

    def leave(self, size_bytes: int) -> None:
        """Give back the room of a response that is decoded, or was not read."""
        if size_bytes > SHORT_BYTES:
            self._used -= size_bytes
            self._left.set()
