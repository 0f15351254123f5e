"""Where clients reach each broker: one listening port a broker, learned from what brokers say.

A broker keeps its port as long as the agent has its checkpoint, for clients keep addresses too.
"""

import logging
import socket
from collections import Counter
from collections.abc import Callable, Sequence

from agent.wire.messages import Node

_BACKLOG = 1024

_log = logging.getLogger(__name__)


class Ports:
    """The listeners. ``serve`` takes each new one, with the broker behind it."""

    def __init__(
        self,
        host: str,
        ports: Sequence[int],
        known: dict[str, int],
        counts: Counter[str],
        serve: Callable[[socket.socket, Node], None],
    ) -> None:
        """Listen for the brokers that are ``known`` from a former run (``host:port`` to port)."""
        self._host, self._counts, self._serve = host, counts, serve
        self.offered = ports
        """What new brokers may get."""
        self._of: dict[Node, int] = {}
        for name, port in known.items():
            broker_host, _, broker_port = name.rpartition(":")
            self._listen(Node(broker_host, int(broker_port)), [port])

    def known(self) -> dict[str, int]:
        """Return what the next run takes as ``known``."""
        return {f"{node.host}:{node.port}": port for node, port in list(self._of.items())}

    def of(self, node: Node) -> int | None:
        """Return a broker's port, a new one for a new broker; None if there is no more."""
        port = self._of.get(node)
        if port is None:
            taken = set(self._of.values())
            free = [port for port in self.offered if not port or port not in taken]
            port = self._listen(node, free)
            if port is None:
                self._counts["ports_exhausted"] += 1
        return port

    def _listen(self, node: Node, ports: list[int]) -> int | None:
        """Listen on the first of the ports that nobody else has."""
        for port in ports:
            try:
                listener = listen(self._host, port)
            except OSError:  # another's, or not to be had: the next one may be
                continue
            bound: int = listener.getsockname()[1]
            self._of[node] = bound
            self._serve(listener, node)
            _log.info("proxy_broker", extra={"broker": f"{node.host}:{node.port}", "port": bound})
            return bound
        return None


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; an empty host is every address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
