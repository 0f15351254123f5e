"""TLS handshakes of the web server: bounded, and a new one takes the place of the oldest.

Theory of operation. asyncio's own server has no connection object before a handshake ends: peers
that connect and send nothing would hold a descriptor and a buffer each until the timeout, without a
bound. Here each accepted socket has a task until its handshake ends. Beyond the limit the oldest
are closed, as `HttpConnection` does with connections that send no request.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from agent.web.http_protocol import FLOOD, GRACE_S, HEAD_TIMEOUT_S

_CLOSE_TIMEOUT_S = 1.0
"""Limit of a peer's response to the end of TLS."""
_RETRY_S = 1.0
"""After accept() failed: descriptors are short."""

_log = logging.getLogger(__name__)


class TlsListener:
    """Accepts connections of one socket; it stands in for asyncio's server."""

    def __init__(
        self,
        listener: socket.socket,
        create_protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext,
        limit: int,
    ) -> None:
        """Accept from now on; at most ``limit`` handshakes are under way."""
        self._listener, self._create, self._tls, self._limit = listener, create_protocol, tls, limit
        listener.setblocking(False)
        self._handshakes: dict[asyncio.Task[None], float] = {}
        """When each began, the oldest first."""
        self._accepting = asyncio.create_task(self._accept(), name="tls")

    def close(self) -> None:
        """Accept no more, and end the handshakes under way."""
        self._accepting.cancel()
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until the last handshake has ended."""
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)

    async def _accept(self) -> None:
        loop, is_failing = asyncio.get_running_loop(), False
        while True:
            try:
                peer, _ = await loop.sock_accept(self._listener)
            except ConnectionError:  # it has gone already
                continue
            except OSError as error:
                if not is_failing:
                    _log.warning("accept_failed", extra={"error": str(error)})
                is_failing = True
                await asyncio.sleep(_RETRY_S)
                continue
            is_failing = False
            task = asyncio.create_task(self._shake_hands(peer))
            self._handshakes[task] = loop.time()
            task.add_done_callback(self._handshakes.pop)
            self._make_room(loop.time())
            await asyncio.sleep(0)  # a backlog is accepted without a wait: others have their turns

    async def _shake_hands(self, peer: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._create,
                peer,
                ssl=self._tls,
                ssl_handshake_timeout=HEAD_TIMEOUT_S,
                ssl_shutdown_timeout=_CLOSE_TIMEOUT_S,
            )
        except (OSError, ssl.SSLError):  # refused, too late, or gone
            peer.close()
        except asyncio.CancelledError:
            peer.close()
            raise

    def _make_room(self, now: float) -> None:
        excess = len(self._handshakes) - self._limit
        if excess <= 0:
            return
        until = now - (0.0 if len(self._handshakes) > FLOOD * self._limit else GRACE_S)
        for task, began_at in list(self._handshakes.items())[:excess]:
            if began_at <= until:
                task.cancel()
