"""The proxy's own thread: one epoll loop for listeners, clients and brokers.

Theory of operation. All that a connection does happens in this thread, without a lock; others ask
it by `post`. Names are looked up in a thread of their own.
"""

import itertools
import logging
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from agent.errors import SourceError
from agent.sources.proxy.broker_ports import Ports, listen
from agent.sources.proxy.connection import Link, Ready
from agent.sources.proxy.decode_queue import Backlog
from agent.sources.proxy.dialer import Resolver
from agent.sources.proxy.handshake import Setup, Terms
from agent.sources.proxy.listener import Gate
from agent.sources.proxy.pipe_pool import Pipes
from agent.sources.proxy.socket_endpoint import End, PlainEnd, TlsEnd, tune
from agent.wire.codec.messages import Node
from agent.wire.connection import Closed, Connection, Event
from agent.wire.members.disconnects import Departures
from agent.wire.members.group_decoder import Interpreter
from agent.wire.proxying.frame_forwarder import Passage
from metrics.model.signals import Signal

_TURN_S = 0.5
"""How often deadlines are looked at."""
_SHORT_TURN_S = 0.05
"""How long signals are gathered: the event loop's work would hold up the answers on their way."""
_IDLE_S = 0.02
"""After so long without traffic what has passed is decoded: an answer would have come. A wait that
ends before the kernel's next tick (4 ms) has a timer set for it alone: 6 us a wait in a VM."""
_EVENTS = 64
"""At most so many at once."""

_log = logging.getLogger(__name__)


class ProxyLoop:
    """Listens, and runs all connections until it is stopped."""

    def __init__(  # noqa: PLR0913 - what the source knows
        self,
        *,
        listen_at: Node,
        known: dict[str, int],
        terms: Terms,
        interpreter: Interpreter,
        emit: Callable[[Sequence[Signal]], None],
        detach: Callable[[str, float], None],
    ) -> None:
        """Listen from now on; connections are taken once it runs.

        Raises:
            SourceError: the address is taken or not ours.

        """
        self.counts, self.pipes = interpreter.counts, Pipes()
        self.backlog = Backlog(self._take, self.counts)
        self._interpreter, self._emit, self._detach = interpreter, emit, detach
        self._departures = Departures(interpreter.speakers)
        self._terms, self._turns = terms, itertools.count()
        self._poll = select.epoll()
        self._ready: dict[int, Ready] = {}
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.watch(self._wake, select.EPOLLIN, self._woken)
        self._posted: deque[Ready] = deque()
        self._again: list[Ready] = []
        self._signals: list[Signal] = []
        self._emit_at = self._sweep_at = 0.0
        self._gates: list[Gate] = []
        self.restless: set[Gate] = set()
        self._setups: set[Setup] = set()
        self._links: set[Link] = set()
        self._moved_bytes = 0
        self.resolver = Resolver(self.post)
        self._drained_by: float | None = None
        try:
            first = listen(listen_at.host, listen_at.port)
            self.address = Node(*first.getsockname()[:2])
            self._serve(first, self._upstream)
            self.ports = Ports(listen_at.host, terms.ports, known, self.counts, self._serve)
        except OSError as error:
            self._close()
            raise SourceError(f"{listen_at.host}:{listen_at.port}: {error}") from error

    @property
    def moved_bytes(self) -> int:
        """What has passed through all connections, in both directions."""
        return self._moved_bytes + sum(link.moved_bytes for link in list(self._links))

    def run(self) -> None:
        """Run until `stop`, and close everything."""
        try:
            while self._drained_by is None or self._links:
                self._turn()
                if self._drained_by is not None and time.monotonic() > self._drained_by:
                    self.counts["drain_cut"] += len(self._links)
                    break
        finally:
            self._close()

    def stop(self, drain_s: float) -> None:
        """From any thread: take no more clients, let what is under way end for so many seconds."""
        self.post(partial(self._drain, drain_s))

    def renew(self, terms: Terms) -> None:
        """From any thread: take other terms from now on."""
        self._terms, self.ports.offered = terms, terms.ports

    def shrink_buffers(self) -> None:
        """Let go of long frames that are under way to the decoder."""
        for link in self._links:
            link.decoder.shrink_buffers()

    def post(self, run: Ready) -> None:
        """From any thread: have something done in this loop's thread."""
        self._posted.append(run)
        os.eventfd_write(self._wake, 1)

    def watch(self, fd: int, mask: int, ready: Ready) -> None:
        """Call back whenever a socket is ready for what the mask says, or broken; 0: never."""
        if not mask:
            if self._ready.pop(fd, None) is not None:
                self._poll.unregister(fd)
        elif fd in self._ready:
            self._poll.modify(fd, mask)
            self._ready[fd] = ready
        else:
            self._poll.register(fd, mask)
            self._ready[fd] = ready

    def again(self, run: Ready) -> None:
        """Call back once, after all others had their turn."""
        self._again.append(run)

    def _take(self, event: Event) -> None:
        """Take what the decoder has read."""
        if isinstance(event, Closed):
            self._departures.closed(event.connection, event.at)
        signals = self._interpreter.take(event)
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
        if self.backlog.pieces and (not events or self.backlog.is_due):
            self.backlog.read()
        self._look_around(time.monotonic())

    def _look_around(self, now: float) -> None:
        for gate in list(self.restless):
            gate.tend(now)
        if now >= self._sweep_at or self._drained_by is not None:
            self._sweep(now)
        if self._signals and now >= self._emit_at:
            self._hand_over()

    def _wait_s(self) -> float:
        if self._again:
            return 0
        if self.backlog.pieces:
            return _IDLE_S
        if self._signals or self._drained_by is not None or self.restless:
            return _SHORT_TURN_S
        return _TURN_S

    def _hand_over(self) -> None:
        signals, self._signals = self._signals, []
        self._emit(signals)

    def _woken(self) -> None:
        os.eventfd_read(self._wake)
        while self._posted:
            self._posted.popleft()()

    def _sweep(self, now: float) -> None:
        """Let go of what has ended, and end what takes too long."""
        self._sweep_at = now + _TURN_S
        for gate in self._gates:
            gate.watch()
        for setup in [each for each in self._setups if each.deadline_at < now]:
            setup.close("setup_timeout")
        self._setups = {each for each in self._setups if not each.closed}
        for link in [each for each in self._links if each.closed]:
            self._links.discard(link)
            self._moved_bytes += link.moved_bytes
        at = time.time()
        for stream in self._departures.due(at):
            self._detach(stream, at)

    def _upstream(self) -> list[Node]:
        """Return where to bootstrap: another one first each time."""
        nodes = self._terms.upstream
        at = next(self._turns) % len(nodes)
        return [*nodes[at:], *nodes[:at]]

    def _serve(self, listener: socket.socket, brokers: Callable[[], list[Node]]) -> None:
        self._gates.append(Gate(self, listener, brokers, self._arrived))

    def _arrived(self, gate: Gate, sock: socket.socket, address: Any) -> None:
        if len(self._links) + len(self._setups) >= self._terms.connections_max:
            self._sweep(time.monotonic())
        if len(self._links) + len(self._setups) >= self._terms.connections_max:
            self.counts["connection_limit"] += 1
            sock.close()
        else:
            self._open(sock, Node(*address[:2]), gate)

    def _open(self, sock: socket.socket, peer: Node, gate: Gate) -> None:
        tune(sock)
        terms, tls = self._terms, self._terms.tls
        here = terms.advertise or sock.getsockname()[0]
        client = PlainEnd(sock) if tls.client is None else TlsEnd(sock, tls.client)

        def route(host: str, port: int) -> tuple[str, int] | None:
            ours = self.ports.of(Node(host, port))
            return None if ours is None else (here, ours)

        def opened(client: End, broker: End, node: Node) -> None:
            decoder = Connection(client=peer, server=node, counts=self.counts)
            passage = Passage(route, self.counts, *self.backlog.takers(decoder))
            self._links.add(Link(self, client, broker, decoder, passage, gate.ask))

        setup = Setup(
            self,
            client,
            tls.broker,
            opened=opened,
            unreached=gate.learn,
            deadline_at=time.monotonic() + terms.setup_s,
        )
        self._setups.add(setup)
        self.resolver.resolve(gate.brokers(), setup.call)

    def _drain(self, drain_s: float) -> None:
        self._drained_by = time.monotonic() + drain_s
        self._stop_listening()
        for setup in self._setups:
            setup.close()
        for link in list(self._links):
            link.drain()

    def _stop_listening(self) -> None:
        for gate in self._gates:
            gate.close()
        self._gates.clear()

    def _close(self) -> None:
        self._stop_listening()
        for setup in self._setups:
            setup.close()
        for link in self._links:
            link.close()
        self._sweep(time.monotonic())
        self._hand_over()
        self.resolver.close()
        self.pipes.close()
        self._poll.close()
