"""Rate limit of requests: a token bucket that fills evenly, and the refusal when it is empty.

The default is far above the needs of scrapers and people; ``rate_limit`` of the web configuration
sets another limit for all paths, as Prometheus' exporters have it.
"""

import math
import time
from collections.abc import Callable, Collection

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

INTERVAL_S, BURST = 0.01, 200
"""100 pages a second, and 200 at once."""


class RateLimit:
    """Admits one request each ``interval_s``, and ``burst`` at once after a silence."""

    def __init__(
        self, interval_s: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start with a full bucket."""
        self._interval_s, self._burst, self._clock = interval_s, burst, clock
        self._room, self._filled_at = float(burst), clock()

    def take_or_wait_s(self) -> float:
        """Take a token and return 0; with an empty bucket return the wait for the next token."""
        now = self._clock()
        self._room = min(self._burst, self._room + (now - self._filled_at) / self._interval_s)
        self._filled_at = now
        if self._room < 1:
            return (1 - self._room) * self._interval_s
        self._room -= 1
        return 0.0


class RateLimitMiddleware:
    """Limits the rate of an application's requests, except for some paths."""

    def __init__(self, app: ASGIApp, limit: RateLimit, free: Collection[str] = ()) -> None:
        """``free`` paths cost nothing, or have their own limits."""
        self._app, self._limit, self._free = app, limit, free

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or refuse it with the time to retry."""
        app = self._app
        if scope["type"] == "http" and scope["path"] not in self._free:
            app = refusal(self._limit) or app
        await app(scope, receive, send)


def refusal(limit: RateLimit) -> ASGIApp | None:
    """Return the response to a request beyond the limit; None within it."""
    wait_s = limit.take_or_wait_s()
    if not wait_s:
        return None
    headers = {"Retry-After": str(math.ceil(wait_s))}
    return PlainTextResponse("too many requests\n", 429, headers)
