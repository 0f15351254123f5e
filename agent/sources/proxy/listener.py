"""A listening port that refuses clients while its brokers refuse connections.

Theory of operation. For a client, an accepted connection is a connection to the broker. If it is
closed at once, the client may reconnect at once and try no other broker: kafka-python 3.0 resets
its back-off at each successful connection, and its consumer then gives up. So when a broker ends a
connection, the proxy dials the broker before the client sees the end. While the broker refuses, the
port refuses, too (`shutdown` ends only the listening; the port stays bound). Failures that prove
nothing about the broker (an unknown name, no free descriptor, lost packets) leave the port open.
"""

import errno
import logging
import os
import socket
from collections.abc import Callable
from select import EPOLLIN
from typing import Any, Protocol

from agent.processes.descriptors import is_reserved
from agent.sources.proxy.broker_ports import BACKLOG
from agent.sources.proxy.connection import EventLoop, Ready
from agent.sources.proxy.dialer import DialAttempt, Resolver, Target
from agent.wire.codec.messages import HostPort

AGAIN_S = 0.2
"""How often a broker that refuses is called."""
_CALL_S = 1.0
"""An attempt without a result for so long shows nothing; the kernel would now send its first packet
again.
"""
_ACCEPTS = 64
"""At most so many at once."""
_REFUSALS = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT}

_log = logging.getLogger(__name__)


class ListenerLoop(EventLoop, Protocol):
    """The part of the loop that listeners need."""

    resolver: Resolver
    pending_listeners: "set[Listener]"
    """The listeners with a `poll` in each turn."""


class Listener:
    """One listening port."""

    def __init__(
        self,
        loop: ListenerLoop,
        listener: socket.socket,
        brokers: Callable[[], list[HostPort]],
        arrived: "Callable[[Listener, socket.socket, Any], None]",
    ) -> None:
        """Accept clients from a listening socket, and hand each over with its address."""
        self._loop, self._listener, self.brokers, self._on_client = loop, listener, brokers, arrived
        self._port: int = listener.getsockname()[1]
        self._is_dialing = self._is_lost = self._is_closed = False
        self._is_open = True
        self._attempt: DialAttempt | None = None
        self._callbacks: list[Ready] = []
        self._poll_at = 0.0
        self._warned: int | None = None
        """The ``errno`` of the last failure to accept, if it was logged."""
        self.resume()

    def resume(self) -> None:
        """Accept clients again, after a lack of descriptors."""
        if self._is_open:
            self._loop.watch(self._listener.fileno(), EPOLLIN, self._accept)

    def check_broker(self, then: Ready) -> None:
        """Check whether the broker accepts, then call ``then``."""
        self._callbacks.append(then)
        if self._is_closed:
            self._run_callbacks()
        elif not self._is_dialing:
            self._start_dial()

    def record_result(self, error: int) -> None:
        """Use the result of a connection's dial, unless an own dial is under way."""
        if not (self._is_dialing or self._is_closed):
            self._handle_result(error)

    def poll(self, now: float) -> None:
        """Continue a dial or begin the next; ``now`` is a monotonic time."""
        if not self._poll_at:
            self._poll_at = now + (_CALL_S if self._is_dialing else AGAIN_S)
        elif now < self._poll_at:
            return
        elif self._attempt is not None:
            self._attempt.hang_up()
            self._handle_result(0)
        elif self._is_dialing:  # for its address
            self._run_callbacks()
        else:
            self._start_dial()

    def close(self) -> None:
        """Accept no client any more, and free the port."""
        self._is_closed, self._is_open = True, False
        self._loop.pending_listeners.discard(self)
        if self._attempt is not None:
            self._attempt.hang_up()
        self._loop.watch(self._listener.fileno(), 0, self._accept)
        self._listener.close()
        self._run_callbacks()

    def _start_dial(self) -> None:
        self._is_dialing, self._poll_at = True, 0.0
        self._loop.pending_listeners.add(self)
        self._loop.resolver.resolve(self.brokers(), self._dial)

    def _dial(self, targets: list[Target]) -> None:
        if not self._is_closed:
            self._attempt, self._poll_at = (
                DialAttempt(self._loop, targets, self._handle_connected, self._handle_result),
                0.0,
            )
            self._attempt.dial()

    def _handle_connected(self, sock: socket.socket, _: Target) -> None:
        sock.close()
        self._handle_result(0)

    def _handle_result(self, error: int) -> None:
        self._attempt, self._is_dialing, self._poll_at = None, False, 0.0
        if error in _REFUSALS and self._is_open:
            self._shut(error)
        elif error not in _REFUSALS and not self._is_open:
            self._open()
        if self._is_open:
            self._loop.pending_listeners.discard(self)
        else:
            self._loop.pending_listeners.add(self)
        self._run_callbacks()

    def _run_callbacks(self) -> None:
        waiting, self._callbacks = self._callbacks, []
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
        self.resume()

    def _shut(self, error: int) -> None:
        self._is_open = False
        self._loop.watch(self._listener.fileno(), 0, self._accept)
        self._listener.shutdown(socket.SHUT_RD)
        brokers = ", ".join(f"{node.host}:{node.port}" for node in self.brokers())
        keys = {"port": self._port, "broker": brokers, "error": os.strerror(error)}
        _log.warning("proxy_port_shut", extra=keys)

    def _warn_once(self, error: OSError) -> None:
        """Log a failure to accept, once until a client is accepted again."""
        if self._warned != error.errno:
            self._warned = error.errno
            _log.warning("proxy_accept_failed", extra={"error": str(error)})

    def _accept(self) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # the client is gone already, or no descriptor is free
                self._loop.counts["accept"] += 1
                self._warn_once(error)
                self._loop.watch(self._listener.fileno(), 0, self._accept)  # until the next sweep
                return
            if is_reserved(sock.fileno()):
                self._loop.counts["descriptors"] += 1
                self._warn_once(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
                sock.close()
                continue
            self._warned = None
            self._on_client(self, sock, address)
            if not self._is_open:
                return
