"""The steps from an accepted client to a proxied connection: dialing, then both handshakes.

Nothing is read of a client before its broker has accepted; a client of a failed broker is closed.
"""

import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from select import EPOLLIN

from agent.sources.proxy.connection import EventLoop
from agent.sources.proxy.dialer import DialAttempt, Target
from agent.sources.proxy.socket_endpoint import Endpoint, PlainEndpoint, TlsEndpoint
from agent.sources.proxy.tls import TlsContexts
from agent.wire.codec.messages import HostPort

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """The settings of new connections; open ones stay as they are."""

    upstream: tuple[HostPort, ...]
    ports: tuple[int, ...]
    """The ports for brokers; 0 is any."""
    advertise: str | None
    tls: TlsContexts
    connections_max: int
    setup_s: float


class Handshake:
    """One client's wait. It ends with ``opened`` (client, broker, node) or with `close`."""

    def __init__(  # noqa: PLR0913 - one argument a part
        self,
        loop: EventLoop,
        client: Endpoint,
        tls: ssl.SSLContext | None,
        *,
        opened: Callable[[Endpoint, Endpoint, HostPort], None],
        unreached: Callable[[int], None],
        deadline_at: float,
    ) -> None:
        """Wait for `dial`; ``tls`` is for the broker's side, the deadline a monotonic time.

        ``unreached`` takes the ``errno`` if no target accepts, before the client is closed.
        """
        self._loop, self._client, self._tls, self._on_open = loop, client, tls, opened
        self._on_unreached = unreached
        self._attempt: DialAttempt | None = None
        self._broker: Endpoint | None = None
        self._server: HostPort | None = None
        self.deadline_at = deadline_at
        self.closed = False

    def dial(self, targets: Sequence[Target]) -> None:
        """Connect to the first target that accepts."""
        if not self.closed:
            self._attempt = DialAttempt(self._loop, targets, self._start_handshakes, self._fail)
            self._attempt.dial()

    def close(self, reason: str = "") -> None:
        """Give up, and count why."""
        if self.closed:
            return
        self.closed = True
        if reason:
            self._loop.counts[reason] += 1
        if self._attempt is not None:
            self._attempt.hang_up()
            self._attempt = None
        for endpoint in filter(None, (self._client, self._broker)):
            self._loop.watch(endpoint.fd, 0, self._shake)
            endpoint.close()

    def _fail(self, error: int) -> None:
        self._attempt = None
        self._on_unreached(error)
        self.close("broker_unreachable")

    def _start_handshakes(self, sock: socket.socket, target: Target) -> None:
        self._attempt = None  # else it would wait for gc
        self._server = target.node
        if self._tls is None:
            self._broker = PlainEndpoint(sock)
        else:
            self._broker = TlsEndpoint(sock, self._tls, target.node.host)
        self._shake()

    def _shake(self) -> None:
        """Continue both handshakes, first the broker's: the client's may depend on its result."""
        if self.closed or self._broker is None or self._server is None:
            return
        try:
            for endpoint in (self._broker, self._client):
                if not endpoint.handshake():
                    self._loop.watch(endpoint.fd, EPOLLIN, self._shake)
                    return
                self._loop.watch(endpoint.fd, 0, self._shake)
        except (ssl.SSLError, OSError) as error:
            side = "client" if endpoint is self._client else "broker"
            broker = f"{self._server.host}:{self._server.port}"
            keys = {"side": side, "broker": broker, "error": str(error)}
            _log.warning("proxy_handshake_failed", extra=keys)
            self.close(f"tls_{side}")
            return
        self.closed = True  # the endpoints belong to the connection now
        self._on_open(self._client, self._broker, self._server)
