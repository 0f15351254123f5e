"""From an accepted client to a link: the broker is called, and both sides shake hands.

Nothing is read of a client before its broker has answered; one whose broker is down is closed.
"""

import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from select import EPOLLIN, EPOLLOUT
from typing import Any, NamedTuple

from agent.sources.proxy_ends import End, PlainEnd, TlsEnd, tune
from agent.sources.proxy_link import Loop
from agent.sources.proxy_tls import Contexts
from agent.wire.messages import Node

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds for connections to come; those that are open stay as they are."""

    upstream: tuple[Node, ...]
    ports: tuple[int, ...]
    """Which may be a broker's; 0 is any."""
    advertise: str | None
    tls: Contexts
    connections_max: int
    setup_s: float


class Target(NamedTuple):
    """One address of a broker."""

    node: Node
    """As configured, or as the brokers say; its certificate must be for this host."""
    family: int
    address: Any


class Setup:
    """What one client waits for. It ends with ``opened`` (client, broker, node) or with `close`."""

    def __init__(
        self,
        loop: Loop,
        client: End,
        tls: ssl.SSLContext | None,
        opened: Callable[[End, End, Node], None],
        deadline_at: float,
    ) -> None:
        """Wait for `call`; ``tls`` is for the broker's side, the deadline a monotonic time."""
        self._loop, self._client, self._tls, self._opened = loop, client, tls, opened
        self._targets: list[Target] = []
        self._calling: socket.socket | None = None
        self._broker: End | None = None
        self.deadline_at = deadline_at
        self.closed = False

    def call(self, targets: Sequence[Target]) -> None:
        """Connect to the first of the targets that answers."""
        if not self.closed:
            self._targets = list(targets)
            self._call()

    def close(self, reason: str = "") -> None:
        """Give up, and count why."""
        if self.closed:
            return
        self.closed = True
        if reason:
            self._loop.counts[reason] += 1
        self._hang_up()
        for end in filter(None, (self._client, self._broker)):
            self._loop.watch(end.fd, 0, self._shake)
            end.close()

    def _call(self) -> None:
        while self._targets:
            target = self._targets[0]
            self._calling = sock = socket.socket(target.family, socket.SOCK_STREAM)
            tune(sock)
            error = sock.connect_ex(target.address)
            if error in {0, 115}:  # EINPROGRESS
                self._loop.watch(sock.fileno(), EPOLLOUT, self._called)
                return
            self._hang_up()
            self._targets.pop(0)
        self.close("broker_unreachable")

    def _hang_up(self) -> None:
        if self._calling is not None:
            self._loop.watch(self._calling.fileno(), 0, self._called)
            self._calling.close()
            self._calling = None

    def _called(self) -> None:
        sock = self._calling
        if sock is None:
            return
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._hang_up()
            self._targets.pop(0)
            self._call()
            return
        self._loop.watch(sock.fileno(), 0, self._called)
        self._calling = None
        if self._tls is None:
            self._broker = PlainEnd(sock)
        else:
            self._broker = TlsEnd(sock, self._tls, self._targets[0].node.host)
        self._shake()

    def _shake(self) -> None:
        """Go on with both handshakes; the broker's first, for the client's may promise it."""
        if self.closed or self._broker is None:
            return
        try:
            for end in (self._broker, self._client):
                if not end.handshake():
                    self._loop.watch(end.fd, EPOLLIN, self._shake)
                    return
                self._loop.watch(end.fd, 0, self._shake)
        except (ssl.SSLError, OSError) as error:
            side = "client" if end is self._client else "broker"
            server = self._targets[0].node
            keys = {"side": side, "broker": f"{server.host}:{server.port}", "error": str(error)}
            _log.warning("proxy_handshake_failed", extra=keys)
            self.close(f"tls_{side}")
            return
        self.closed = True  # the ends are the link's now
        self._opened(self._client, self._broker, self._targets[0].node)
