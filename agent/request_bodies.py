"""Bodies of requests, bounded one by one and all together.

Theory of operation. A peer may send most of a body and stop: each such request would keep its bytes
for ever, and a hub serves thousands of connections. If all bodies together are above their limit,
the request that has waited longest for its next piece is ended. So active peers are not affected.
"""

import asyncio
from dataclasses import dataclass, field

from starlette.requests import ClientDisconnect, Request

BODY_TIMEOUT_S = 60.0
"""An agent gives up sooner: 30 s."""
BODIES_BYTES_MAX = 64 << 20
"""Sixteen of a hub's largest; an agent's have some 200 KB."""


class BodyError(Exception):
    """A body that is not taken; ``status`` is the response's."""

    def __init__(self, status: int, text: str) -> None:
        """``text`` names the wanted form."""
        super().__init__(text)
        self.status = status


@dataclass(slots=True)
class RequestBodies:
    """The bodies that are being read."""

    limit_bytes: int = BODIES_BYTES_MAX
    _sizes: dict[asyncio.Timeout, int] = field(default_factory=dict)
    """The longest without a new piece first."""

    async def read(self, request: Request, max_bytes: int) -> bytes:
        """Return a request's body.

        Raises:
            BodyError: it is too large, does not arrive whole or in time, or all room is taken.

        """
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S) as reading:
                try:
                    async for piece in request.stream():
                        body += piece
                        if len(body) > max_bytes:
                            raise BodyError(413, f"wanted {max_bytes} bytes or less")
                        self._record(reading, len(body), max(max_bytes, self.limit_bytes))
                finally:
                    self._sizes.pop(reading, None)
        except ClientDisconnect as error:
            raise BodyError(400, "the body has not come whole") from error
        except TimeoutError as error:
            raise BodyError(408, "the body has not come in time; send it again") from error
        return bytes(body)

    def _record(self, reading: asyncio.Timeout, size: int, limit_bytes: int) -> None:
        self._sizes.pop(reading, None)
        self._sizes[reading] = size
        used = sum(self._sizes.values())
        while used > limit_bytes:
            silent = next(iter(self._sizes))
            used -= self._sizes.pop(silent)
            silent.reschedule(asyncio.get_running_loop().time())
