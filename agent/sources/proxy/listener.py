"""A listening port that refuses clients while the brokers behind it do.

Theory of operation. A client that is accepted has reached its broker, as far as it knows. Where it
is closed at once it may come back at once, and turn to no other broker: kafka-python 3.0 forgets
how long it has to wait whenever it gets through, and its consumer then gives up. So whenever a
broker ends a connection it is called before the client hears of it, and while it refuses, so does
the port (`shutdown` ends the listening alone, the port stays ours). What tells nothing of the
broker (an unknown name, no descriptor left, packets that nobody answers) leaves the port open.
"""

import errno
import logging
import os
import socket
from collections.abc import Callable
from select import EPOLLIN
from typing import Any, Protocol

from agent.sources.proxy.broker_ports import BACKLOG
from agent.sources.proxy.connection import Loop, Ready
from agent.sources.proxy.dialer import Call, Resolver, Target
from agent.wire.codec.messages import Node

AGAIN_S = 0.2
"""How often a broker that refuses is called."""
_CALL_S = 1.0
"""A call that is not answered for so long tells nothing; the kernel would now send its first packet
again."""
_ACCEPTS = 64
"""At most so many at once."""
_REFUSALS = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT}

_log = logging.getLogger(__name__)


class GateLoop(Loop, Protocol):
    """What gates need of the loop that runs them."""

    resolver: Resolver
    restless: "set[Gate]"
    """Whose `tend` is called each turn."""


class Gate:
    """One of our ports."""

    def __init__(
        self,
        loop: GateLoop,
        listener: socket.socket,
        brokers: Callable[[], list[Node]],
        arrived: "Callable[[Gate, socket.socket, Any], None]",
    ) -> None:
        """Take clients from a listening socket, and hand each over with its address."""
        self._loop, self._listener, self.brokers, self._arrived = loop, listener, brokers, arrived
        self._port: int = listener.getsockname()[1]
        self._is_asking = self._is_lost = self._is_closed = False
        self._is_open = True
        self._call: Call | None = None
        self._waiting: list[Ready] = []
        self._tend_at = 0.0
        self.watch()

    def watch(self) -> None:
        """Take clients again, after there was no descriptor left for one."""
        if self._is_open:
            self._loop.watch(self._listener.fileno(), EPOLLIN, self._accept)

    def ask(self, then: Ready) -> None:
        """Find out whether the broker is there, and go on."""
        self._waiting.append(then)
        if self._is_closed:
            self._go_on()
        elif not self._is_asking:
            self._ask()

    def learn(self, error: int) -> None:
        """Take it from an ``errno`` that a call has just had, unless the gate calls itself."""
        if not (self._is_asking or self._is_closed):
            self._learn(error)

    def tend(self, now: float) -> None:
        """Go on with what takes time; ``now`` is a monotonic time."""
        if not self._tend_at:
            self._tend_at = now + (_CALL_S if self._is_asking else AGAIN_S)
        elif now < self._tend_at:
            return
        elif self._call is not None:
            self._call.hang_up()
            self._learn(0)
        elif self._is_asking:  # for its address
            self._go_on()
        else:
            self._ask()

    def close(self) -> None:
        """Take no client any more, and let go of the port."""
        self._is_closed, self._is_open = True, False
        self._loop.restless.discard(self)
        if self._call is not None:
            self._call.hang_up()
        self._loop.watch(self._listener.fileno(), 0, self._accept)
        self._listener.close()
        self._go_on()

    def _ask(self) -> None:
        self._is_asking, self._tend_at = True, 0.0
        self._loop.restless.add(self)
        self._loop.resolver.resolve(self.brokers(), self._dial)

    def _dial(self, targets: list[Target]) -> None:
        if not self._is_closed:
            self._call, self._tend_at = Call(self._loop, targets, self._answered, self._learn), 0.0
            self._call.dial()

    def _answered(self, sock: socket.socket, _: Target) -> None:
        sock.close()
        self._learn(0)

    def _learn(self, error: int) -> None:
        self._call, self._is_asking, self._tend_at = None, False, 0.0
        if error in _REFUSALS and self._is_open:
            self._shut(error)
        elif error not in _REFUSALS and not self._is_open:
            self._open()
        if self._is_open:
            self._loop.restless.discard(self)
        else:
            self._loop.restless.add(self)
        self._go_on()

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def _open(self) -> None:
        try:
            self._listener.listen(BACKLOG)
        except OSError as error:  # another has taken the port meanwhile
            if not self._is_lost:
                self._loop.counts["listen"] += 1
                _log.error("proxy_port_lost", extra={"port": self._port, "error": str(error)})
            self._is_lost = True
            return
        self._is_open, self._is_lost = True, False
        _log.info("proxy_port_open", extra={"port": self._port})
        self.watch()

    def _shut(self, error: int) -> None:
        self._is_open = False
        self._loop.watch(self._listener.fileno(), 0, self._accept)
        self._listener.shutdown(socket.SHUT_RD)
        brokers = ", ".join(f"{node.host}:{node.port}" for node in self.brokers())
        keys = {"port": self._port, "broker": brokers, "error": os.strerror(error)}
        _log.warning("proxy_port_shut", extra=keys)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # the client is gone already, or we have no descriptor left
                self._loop.counts["accept"] += 1
                _log.warning("proxy_accept_failed", extra={"error": str(error)})
                self._loop.watch(self._listener.fileno(), 0, self._accept)  # until the next sweep
                return
            self._arrived(self, sock, address)
            if not self._is_open:
                return
