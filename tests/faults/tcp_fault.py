"""A TCP proxy that spoils the network between two sides, byte by byte; it knows no protocol.

Unlike a proxy of ours it does not close what it cannot pass on: that is the fault.
"""

import socket
import time
from contextlib import suppress
from enum import Enum, auto
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from agent.lab.broker import HOST

_PIECE_BYTES = 1 << 14
_DELAY_S = 0.2


class Fault(Enum):
    """What the network does."""

    NONE = auto()
    DELAY = auto()
    """Each piece comes late."""
    HALF_OPEN = auto()
    """Nothing comes through, and nothing is closed: as a cable that is pulled."""


class TcpFault:
    """Listens from the start; `upstream` has to be set before the first client comes."""

    def __init__(self) -> None:
        self.upstream, self.fault = 0, Fault.NONE
        self._server = socket.create_server((HOST, 0))
        self.port: int = self._server.getsockname()[1]
        self._lock = Lock()
        self._ends: list[socket.socket] = []
        Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections; new ones come through."""
        with self._lock:
            ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):  # we are closed
            while True:
                self._join(self._server.accept()[0])

    def _join(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection((HOST, self.upstream))
        except OSError:
            near.close()
            return
        with self._lock:
            self._ends += [near, far]
        for ends in ((near, far), (far, near)):
            Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE_BYTES):
                match self.fault:
                    case Fault.HALF_OPEN:
                        continue
                    case Fault.DELAY:
                        time.sleep(_DELAY_S)
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()
