"""How many requests a second are answered: a bucket that fills evenly, and who finds it empty.

The page's own limit is far above what scrapers and people ask for; ``rate_limit`` of the web
configuration sets another one, as exporters have it, for everything.
"""

import math
import time
from collections.abc import Callable, Collection

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

INTERVAL_S, BURST = 0.01, 200
"""100 pages a second, and 200 at once."""


class RateLimit:
    """Lets one through each ``interval_s``, and ``burst`` of them at once after a silence."""

    def __init__(
        self, interval_s: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start with a full bucket."""
        self._interval_s, self._burst, self._clock = interval_s, burst, clock
        self._room, self._filled_at = float(burst), clock()

    def take_or_wait_s(self) -> float:
        """Take one; else return how long to wait for the next."""
        now = self._clock()
        self._room = min(self._burst, self._room + (now - self._filled_at) / self._interval_s)
        self._filled_at = now
        if self._room < 1:
            return (1 - self._room) * self._interval_s
        self._room -= 1
        return 0.0


class RateLimitMiddleware:
    """An application that answers at a limited rate, but for some paths."""

    def __init__(self, app: ASGIApp, limit: RateLimit, free: Collection[str] = ()) -> None:
        """``free`` paths cost nothing, or have limits of their own."""
        self._app, self._limit, self._free = app, limit, free

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or tell when to ask again."""
        app = self._app
        if scope["type"] == "http" and scope["path"] not in self._free:
            app = refusal(self._limit) or app
        await app(scope, receive, send)


def refusal(limit: RateLimit) -> ASGIApp | None:
    """Return the answer to a request too many."""
    wait_s = limit.take_or_wait_s()
    if not wait_s:
        return None
    headers = {"Retry-After": str(math.ceil(wait_s))}
    return PlainTextResponse("too many requests\n", 429, headers)
