"""The proxy's own thread: one epoll loop for listeners, clients and brokers.

Theory of operation. Everything that a connection does happens in this thread, without a lock; other
threads use `post`. Names are looked up in a thread of their own.
"""

import itertools
import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from agent.errors import SourceError
from agent.sources.base import Detach
from agent.sources.proxy.broker_ports import BrokerPorts, listen
from agent.sources.proxy.connection import ProxiedConnection, Ready
from agent.sources.proxy.decode_queue import DecodeQueue
from agent.sources.proxy.dialer import Resolver
from agent.sources.proxy.handshake import Handshake, ProxySettings
from agent.sources.proxy.listener import Listener
from agent.sources.proxy.pipe_pool import PipePool
from agent.sources.proxy.socket_endpoint import Endpoint, PlainEndpoint, TlsEndpoint, tune
from agent.wire.byte_budget import ByteBudget
from agent.wire.codec.messages import HostPort
from agent.wire.connection import ConnectionClosed, ConnectionDecoder, Event, FrameBudget
from agent.wire.members.disconnects import DisconnectTracker
from agent.wire.members.group_decoder import GroupDecoder
from agent.wire.proxying.frame_forwarder import FrameForwarder
from metrics.model.signals import Signal

_TURN_S = 0.5
"""How often deadlines are looked at."""
_SHORT_TURN_S = 0.05
"""Time to gather signals: the agent's event loop would hold up the responses on their way."""
_IDLE_S = 0.02
"""After so long without traffic the queue is decoded: a response would have come. A wait that ends
before the kernel's next tick (4 ms) has a timer set for it alone: 6 us a wait in a VM.
"""
_EVENTS = 64
"""At most so many at once."""

_log = logging.getLogger(__name__)


class ProxyLoop:
    """Listens, and runs all connections until it is stopped."""

    def __init__(  # noqa: PLR0913 - the source's parts
        self,
        *,
        listen_at: HostPort,
        known: dict[str, int],
        terms: ProxySettings,
        interpreter: GroupDecoder,
        emit: Callable[[Sequence[Signal]], None],
        detach: Detach,
    ) -> None:
        """Listen from now on; clients are accepted once it runs.

        Raises:
            SourceError: the address is taken or not of this host.

        """
        self.counts, self.pipes = interpreter.counts, PipePool()
        self.decode_queue = DecodeQueue(self._handle_event, self.counts)
        self._decoder, self._emit, self._detach = interpreter, emit, detach
        self._disconnects = DisconnectTracker(interpreter.registry)
        self._settings, self._turns = terms, itertools.count()
        self._budget, self._withheld = FrameBudget(), ByteBudget()
        self._poll = select.epoll()
        self._ready: dict[int, Ready] = {}
        self._wake: int | None = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._waking = threading.Lock()
        """Held to write to ``_wake``, and to close it: its number may be another file's then."""
        self.watch(self._wake, select.EPOLLIN, self._run_posted)
        self._posted: deque[Ready] = deque()
        self._again: list[Ready] = []
        self._signals: list[Signal] = []
        self._emit_at = self._sweep_at = 0.0
        self._listeners: list[Listener] = []
        self.pending_listeners: set[Listener] = set()
        self._handshakes: set[Handshake] = set()
        self._connections: set[ProxiedConnection] = set()
        self._closed_bytes = 0
        self.resolver = Resolver(self.post)
        self._drain_deadline_at: float | None = None
        try:
            first = listen(listen_at.host, listen_at.port)
            self.address = HostPort(*first.getsockname()[:2])
            self._serve(first, self._list_upstream)
            self.ports = BrokerPorts(listen_at.host, terms.ports, known, self.counts, self._serve)
        except OSError as error:
            self._close()
            raise SourceError(f"{listen_at.host}:{listen_at.port}: {error}") from error

    @property
    def total_bytes(self) -> int:
        """Bytes that have passed through all connections, in both directions."""
        return self._closed_bytes + sum(
            connection.total_bytes for connection in list(self._connections)
        )

    def run(self) -> None:
        """Run until `stop`, and close everything."""
        try:
            while self._drain_deadline_at is None or self._connections:
                self._turn()
                if (
                    self._drain_deadline_at is not None
                    and time.monotonic() > self._drain_deadline_at
                ):
                    self.counts["drain_cut"] += len(self._connections)
                    break
        finally:
            self._close()

    def stop(self, drain_s: float) -> None:
        """Accept no more clients; requests under way have this time to end. From any thread."""
        self.post(partial(self._drain, drain_s))

    def renew(self, terms: ProxySettings) -> None:
        """From any thread: use other settings from now on."""
        self._settings, self.ports.offered = terms, terms.ports

    def shrink_buffers(self) -> None:
        """Drop long incomplete frames of the decoders."""
        for connection in self._connections:
            connection.decoder.shrink_buffers()

    def post(self, run: Ready) -> None:
        """From any thread: call a function in this loop's thread."""
        self._posted.append(run)
        with self._waking:
            if self._wake is not None:
                os.eventfd_write(self._wake, 1)

    def watch(self, fd: int, mask: int, ready: Ready) -> None:
        """Call back whenever a socket is ready for the mask's events, or broken; 0: never."""
        if not mask:
            if self._ready.pop(fd, None) is not None:
                self._poll.unregister(fd)
        elif fd in self._ready:
            self._poll.modify(fd, mask)
            self._ready[fd] = ready
        else:
            self._poll.register(fd, mask)
            self._ready[fd] = ready

    def call_soon(self, run: Ready) -> None:
        """Call back once, after all others had their turn."""
        self._again.append(run)

    def _handle_event(self, event: Event) -> None:
        """Handle an event of a decoder."""
        if isinstance(event, ConnectionClosed):
            self._disconnects.record(event)
        signals = self._decoder.decode(event)
        if signals and not self._signals:
            self._emit_at = time.monotonic() + _SHORT_TURN_S
        self._signals += signals

    def _turn(self) -> None:
        events = self._poll.poll(self._wait_s(), _EVENTS)
        for fd, _ in events:
            ready = self._ready.get(fd)  # gone, if another's turn has closed it
            if ready is not None:
                ready()
        if self._again:
            again, self._again = self._again, []
            for run in again:
                run()
        if self.decode_queue.pieces and (not events or self.decode_queue.is_due):
            self.decode_queue.drain()
        self._run_periodic(time.monotonic())

    def _run_periodic(self, now: float) -> None:
        for listener in list(self.pending_listeners):
            listener.poll(now)
        if now >= self._sweep_at or self._drain_deadline_at is not None:
            self._sweep(now)
        if self._signals and now >= self._emit_at:
            self._flush_signals()

    def _wait_s(self) -> float:
        if self._again:
            return 0
        if self.decode_queue.pieces:
            return _IDLE_S
        if self._signals or self._drain_deadline_at is not None or self.pending_listeners:
            return _SHORT_TURN_S
        return _TURN_S

    def _flush_signals(self) -> None:
        signals, self._signals = self._signals, []
        self._emit(signals)

    def _run_posted(self) -> None:
        if self._wake is not None:
            os.eventfd_read(self._wake)
        while self._posted:
            self._posted.popleft()()

    def _sweep(self, now: float) -> None:
        """Drop ended connections, and end those that take too long."""
        self._sweep_at = now + _TURN_S
        for listener in self._listeners:
            listener.resume()
        for handshake in [each for each in self._handshakes if each.deadline_at < now]:
            handshake.close("setup_timeout")
        self._handshakes = {each for each in self._handshakes if not each.closed}
        for connection in [each for each in self._connections if each.closed]:
            self._connections.discard(connection)
            self._closed_bytes += connection.total_bytes
        at = time.time()
        for ended in self._disconnects.take_expired(at):
            self._detach(ended.name, at, is_cut=not ended.by_client)

    def _list_upstream(self) -> list[HostPort]:
        """Return the brokers to bootstrap from: another one first each time."""
        nodes = self._settings.upstream
        at = next(self._turns) % len(nodes)
        return [*nodes[at:], *nodes[:at]]

    def _serve(self, listener: socket.socket, brokers: Callable[[], list[HostPort]]) -> None:
        self._listeners.append(Listener(self, listener, brokers, self._accept_client))

    def _accept_client(self, listener: Listener, sock: socket.socket, address: Any) -> None:
        if len(self._connections) + len(self._handshakes) >= self._settings.connections_max:
            self._sweep(time.monotonic())
        if len(self._connections) + len(self._handshakes) >= self._settings.connections_max:
            self.counts["connection_limit"] += 1
            sock.close()
        else:
            self._open(sock, HostPort(*address[:2]), listener)

    def _open(self, sock: socket.socket, peer: HostPort, listener: Listener) -> None:
        tune(sock)
        terms, tls = self._settings, self._settings.tls
        here = terms.advertise or sock.getsockname()[0]
        client = PlainEndpoint(sock) if tls.client is None else TlsEndpoint(sock, tls.client)

        def route(host: str, port: int) -> tuple[str, int] | None:
            ours = self.ports.get_or_assign(HostPort(host, port))
            return None if ours is None else (here, ours)

        def connect(client: Endpoint, broker: Endpoint, node: HostPort) -> None:
            decoder = ConnectionDecoder(
                client=peer, server=node, counts=self.counts, budget=self._budget
            )
            decode = self.decode_queue.bind(decoder)
            forwarder = FrameForwarder(
                route, self.counts, *decode, self._budget.requests, self._withheld
            )
            self._connections.add(
                ProxiedConnection(self, client, broker, decoder, forwarder, listener.check_broker)
            )

        handshake = Handshake(
            self,
            client,
            tls.broker,
            opened=connect,
            unreached=listener.record_result,
            deadline_at=time.monotonic() + terms.setup_s,
        )
        self._handshakes.add(handshake)
        self.resolver.resolve(listener.brokers(), handshake.dial)

    def _drain(self, drain_s: float) -> None:
        self._drain_deadline_at = time.monotonic() + drain_s
        self._stop_listening()
        for handshake in self._handshakes:
            handshake.close()
        for connection in list(self._connections):
            connection.drain()

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    def _close(self) -> None:
        self._stop_listening()
        for handshake in self._handshakes:
            handshake.close()
        for connection in self._connections:
            connection.close()
        self._sweep(time.monotonic())
        self._flush_signals()
        self.pipes.close()
        self._poll.close()
        with self._waking:
            if self._wake is not None:
                os.close(self._wake)
                self._wake = None
