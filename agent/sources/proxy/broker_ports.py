"""Listening ports, one a broker, assigned as brokers' responses name them.

A broker keeps its port as long as the agent has its checkpoint, because clients keep addresses,
too. If no port is free for a new broker, it gets the port of a broker that is not named any more.
"""

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from agent.wire.codec.messages import HostPort

BACKLOG = 1024
"""Clients that wait to be taken."""
GONE_S = 3_600.0
"""A broker that no response has named for so long is gone: clients send Metadata at least every
5 minutes (`metadata.max.age.ms`).
"""

_log = logging.getLogger(__name__)


class BrokerPorts:
    """The listeners. ``serve`` takes each new one, with a function that names its broker."""

    def __init__(  # noqa: PLR0913 - the loop's parts
        self,
        host: str,
        ports: Sequence[int],
        known: dict[str, int],
        counts: Counter[str],
        serve: Callable[[socket.socket, Callable[[], list[HostPort]]], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Listen for the brokers that are ``known`` from a former run (``host:port`` to port)."""
        self._host, self._counts, self._serve, self._clock = host, counts, serve, clock
        self.offered = ports
        """The ports for new brokers."""
        self._ports: dict[HostPort, int] = {}
        self._brokers_by_port: dict[int, HostPort] = {}
        self._named_at: dict[HostPort, float] = {}
        for name, port in known.items():
            broker_host, _, broker_port = name.rpartition(":")
            self._listen(HostPort(broker_host, int(broker_port)), [port])

    def as_dict(self) -> dict[str, int]:
        """Return the ``known`` brokers for the next run."""
        return {f"{node.host}:{node.port}": port for node, port in list(self._ports.items())}

    def get_or_assign(self, node: HostPort) -> int | None:
        """Return a broker's port, a new one for a new broker; None if no port is left."""
        port = self._ports.get(node)
        if port is None:
            free = [port for port in self.offered if not port or port not in self._brokers_by_port]
            port = self._listen(node, free) or self._reassign(node)
            if port is None:
                self._counts["ports_exhausted"] += 1
        else:
            self._named_at[node] = self._clock()
        return port

    def _reassign(self, node: HostPort) -> int | None:
        """Give a broker the port of the broker that was not named for longest, if that is gone."""
        silent = [each for each, port in self._ports.items() if port in self.offered]
        gone = min(silent, key=self._named_at.__getitem__, default=None)
        if gone is None or self._clock() - self._named_at[gone] < GONE_S:
            return None
        del self._named_at[gone]
        port = self._ports.pop(gone)
        self._assign(node, port)
        return port

    def _assign(self, node: HostPort, port: int) -> None:
        self._ports[node], self._brokers_by_port[port], self._named_at[node] = (
            port,
            node,
            self._clock(),
        )
        _log.info("proxy_broker", extra={"broker": f"{node.host}:{node.port}", "port": port})

    def _listen(self, node: HostPort, ports: list[int]) -> int | None:
        """Listen on the first free one of the ports."""
        for port in ports:
            try:
                listener = listen(self._host, port)
            except OSError:  # another's, or not to be had: the next one may be
                continue
            bound: int = listener.getsockname()[1]
            self._assign(node, bound)
            self._serve(listener, partial(self._list_brokers, bound))
            return bound
        return None

    def _list_brokers(self, port: int) -> list[HostPort]:
        return [self._brokers_by_port[port]]


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; an empty host is every address.

    A socket of any port (0) is bound again by its number: else it would lose the port when it stops
    listening.

    Raises:
        OSError: the address is taken or not ours.

    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind((host, port))
        if port:
            listener.listen(BACKLOG)
            return listener
        numbered = listen(host, listener.getsockname()[1])
    except OSError:
        listener.close()
        raise
    listener.close()
    return numbered
