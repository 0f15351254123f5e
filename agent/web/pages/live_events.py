"""``/live``: server-sent events that report that a page has changed.

An event holds no data; the page fetches itself again. One task watches for all readers, and only
while there are any.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from starlette.responses import PlainTextResponse, Response, StreamingResponse

MAX_READERS = 24
"""Streams that stay open; further pages refresh when their reader looks at them."""
POLL_S, PULSE_S = 0.5, 5.0
"""Pause between two looks for new records, and longest time between two events: costs grow."""


class LiveEvents:
    """The readers' streams. ``version`` changes with each new record."""

    def __init__(self, version: Callable[[], object]) -> None:
        """Watch nothing before the first reader."""
        self._version = version
        self._queues: set[asyncio.Queue[None]] = set()
        self._watching: asyncio.Task[None] | None = None

    def respond(self, shown: str) -> Response:
        """Return a stream, or a refusal when there are too many.

        ``shown`` is the version that the reader has.
        """
        if len(self._queues) >= MAX_READERS:
            return PlainTextResponse("too many live pages\n", 503, {"Retry-After": "60"})
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        stream = self._stream(shown)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _stream(self, shown: str) -> AsyncIterator[str]:
        queue = asyncio.Queue[None](maxsize=1)
        self._queues.add(queue)
        version = self._version()
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(version), name="live-pages")
        if shown != str(version):
            queue.put_nowait(None)
        try:
            yield "retry: 3000\n\n"
            while True:
                await queue.get()
                yield "event: changed\ndata:\n\n"
        finally:
            self._queues.discard(queue)

    async def _watch(self, seen: object) -> None:
        """Wake all readers at each change, until there are none."""
        quiet_s = 0.0
        while self._queues:
            await asyncio.sleep(POLL_S)
            current, quiet_s = self._version(), quiet_s + POLL_S
            if current == seen and quiet_s < PULSE_S:
                continue
            seen, quiet_s = current, 0.0
            for queue in self._queues:
                with suppress(asyncio.QueueFull):
                    queue.put_nowait(None)
