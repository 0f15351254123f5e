"""A response in pieces; each is released when the peer has room for it.

A page of 20,000 members has 10 MiB. As one body it would be in memory twice, because asyncio copies
the bytes that the peer has not yet read. For the same reason a piece is written in parts: with long
names it has 2 MiB, and each of many peers would have a copy.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_WRITE_BYTES = 64 << 10
"""As many as asyncio buffers before it waits for the peer."""


class PieceResponse(Response):
    """Writes a list of pieces, and empties it."""

    def __init__(
        self,
        pieces: list[bytes],
        content_type: str,
        headers: Mapping[str, str] | None = None,
        hold: AbstractContextManager[None] | None = None,
        status_code: int = 200,
    ) -> None:
        """Take ownership of ``pieces``: each is removed when it is sent.

        ``hold`` is entered while they are sent.
        """
        size = sum(map(len, pieces))
        own = {"Content-Type": content_type, "Content-Length": str(size)}
        super().__init__(status_code=status_code, headers={**(headers or {}), **own})
        self._hold = hold or nullcontext()
        pieces.reverse()
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Write the head and piece by piece; ``send`` waits while the peer does not read."""
        head = {"type": "http.response.start", "status": self.status_code}
        with self._hold:
            await send(head | {"headers": self.raw_headers})
            while self._pieces:
                piece = self._pieces.pop()
                for at in range(0, len(piece), _WRITE_BYTES):
                    part = piece[at : at + _WRITE_BYTES]
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
