"""Dialing of brokers: a name lookup, then a connection to the first address that accepts."""

import errno
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from select import EPOLLOUT
from typing import Any, NamedTuple

from agent.sources.proxy.connection import EventLoop, Ready
from agent.sources.proxy.socket_endpoint import tune
from agent.wire.codec.messages import HostPort

_UNDER_WAY = {0, errno.EINPROGRESS}
_LATE_S = 1.0
"""How long a name that another has overtaken is waited for."""

_log = logging.getLogger(__name__)


class Target(NamedTuple):
    """One address of a broker."""

    node: HostPort
    """As configured, or as brokers name it; its certificate must be for this host."""
    family: int
    address: Any


class Resolver:
    """Resolver of host names, each in a separate thread; addresses need no thread.

    If a name server does not respond for one broker, it delays neither other brokers nor the
    agent's end.
    """

    def __init__(self, post: Callable[[Ready], None]) -> None:
        """``post`` has something done in the loop's thread."""
        self._post = post
        self._waiting: dict[tuple[HostPort, ...], list[Callable[[list[Target]], None]]] = {}
        """By the names that are being looked up; another caller waits for the same answer."""
        self._lookups: dict[HostPort, Future[list[Target]]] = {}
        """Those under way."""

    def resolve(self, nodes: Sequence[HostPort], found: Callable[[list[Target]], None]) -> None:
        """Call ``found``, at once or later, with the addresses of all names.

        An unknown name has no address, nor has a name with a response more than a second later than
        the first address of another.
        """
        try:
            found_now = [
                target for node in nodes for target in _targets(node, socket.AI_NUMERICHOST)
            ]
        except (socket.gaierror, UnicodeError):
            names = tuple(nodes)
            waiting = self._waiting.setdefault(names, [])
            waiting.append(found)
            if len(waiting) == 1:
                _start_thread(self._await_lookups, names, [self._look_up(node) for node in names])
        else:
            found(found_now)

    def _look_up(self, node: HostPort) -> "Future[list[Target]]":
        lookup = self._lookups.get(node)
        if lookup is None:
            lookup = self._lookups[node] = Future()
            lookup.add_done_callback(lambda _: self._post(partial(self._forget, node)))
            _start_thread(_find_targets, node, lookup)
        return lookup

    def _forget(self, node: HostPort) -> None:
        del self._lookups[node]

    def _await_lookups(
        self, names: tuple[HostPort, ...], lookups: "list[Future[list[Target]]]"
    ) -> None:
        late = set(lookups)
        while late and not any(lookup.result() for lookup in lookups if lookup not in late):
            late = wait(late, return_when=FIRST_COMPLETED).not_done
        late = wait(late, _LATE_S).not_done
        for node, lookup in zip(names, lookups, strict=True):
            if lookup in late:
                _log.warning("proxy_late_host", extra={"host": node.host})
        targets = [target for each in lookups if each not in late for target in each.result()]
        self._post(partial(self._finish, names, targets))

    def _finish(self, names: tuple[HostPort, ...], targets: list[Target]) -> None:
        for found in self._waiting.pop(names):
            found(targets)


class DialAttempt:
    """Connects to the first of some targets. It ends with one of its callbacks, or `hang_up`."""

    def __init__(
        self,
        loop: EventLoop,
        targets: Sequence[Target],
        answered: Callable[[socket.socket, Target], None],
        failed: Callable[[int], None],
    ) -> None:
        """Begin with `dial`; ``failed`` takes the last ``errno``, 0 without a target."""
        self._loop, self._targets = loop, list(targets)
        self._connected, self._failed = answered, failed
        self._socket: socket.socket | None = None
        self._errno = 0

    def dial(self) -> None:
        """Connect to the next target, if there is one."""
        while self._targets:
            target = self._targets[0]
            try:
                self._socket = sock = socket.socket(target.family, socket.SOCK_STREAM)
            except OSError as error:  # no descriptor is left for any of them
                self._failed(error.errno or errno.EMFILE)
                return
            tune(sock)
            self._errno = sock.connect_ex(target.address)
            if self._errno in _UNDER_WAY:
                self._loop.watch(sock.fileno(), EPOLLOUT, self._on_connected)
                return
            self.hang_up()
            self._targets.pop(0)
        self._failed(self._errno)

    def hang_up(self) -> None:
        """Give up; no callback follows."""
        if self._socket is not None:
            self._loop.watch(self._socket.fileno(), 0, self._on_connected)
            self._socket.close()
            self._socket = None

    def _on_connected(self) -> None:
        sock = self._socket
        if sock is None:
            return
        self._errno = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if self._errno:
            self.hang_up()
            self._targets.pop(0)
            self.dial()
            return
        self._loop.watch(sock.fileno(), 0, self._on_connected)
        self._socket = None
        self._connected(sock, self._targets[0])


def _targets(node: HostPort, flags: int = 0) -> list[Target]:
    rows = socket.getaddrinfo(node.host, node.port, type=socket.SOCK_STREAM, flags=flags)
    return [Target(node, row[0], row[4]) for row in rows]


def _find_targets(node: HostPort, lookup: "Future[list[Target]]") -> None:
    try:
        targets = _targets(node)
    except (OSError, UnicodeError) as error:  # the latter of a name that cannot be
        _log.warning("proxy_unknown_host", extra={"host": node.host, "error": str(error)})
        targets = []
    lookup.set_result(targets)


def _start_thread(run: Callable[..., None], *args: object) -> None:
    threading.Thread(target=run, args=args, name="proxy-resolver", daemon=True).start()
