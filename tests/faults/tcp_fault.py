"""A TCP proxy that simulates network faults between two sides, byte by byte, for any protocol.

Unlike the agent's proxy it keeps a connection open if it cannot pass bytes on: that is the fault.
"""

import random
import socket
import time
from contextlib import suppress
from enum import Enum, auto
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from agent.processes.ports import HOST

_PIECE_BYTES = 1 << 14
_DELAY_S = 0.2


class Fault(Enum):
    """A fault of the network."""

    NONE = auto()
    DELAY = auto()
    """Each piece comes late."""
    HALF_OPEN = auto()
    """Nothing comes through, and nothing is closed: as a cable that is pulled."""
    CORRUPT = auto()
    """One byte of each piece is another."""


class TcpFault:
    """Listens from the start; `upstream` has to be set before the first client comes."""

    def __init__(self) -> None:
        self.upstream, self.pieces = 0, 0
        self._fault, self._chance = Fault.NONE, random.Random(12472)
        self._server = socket.create_server((HOST, 0))
        self.port: int = self._server.getsockname()[1]
        self._lock = Lock()
        self._ends: list[socket.socket] = []
        Thread(target=self._accept, daemon=True).start()

    def begin(self, fault: Fault) -> None:
        """Apply the fault to all bytes from now on; `pieces` counts them."""
        self._fault, self.pieces = fault, 0

    def end(self) -> None:
        """End the fault and all connections; new ones come through."""
        self._fault = Fault.NONE
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
        self.end()

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
        is_pulled = False
        with suppress(OSError):
            while data := source.recv(_PIECE_BYTES):
                fault = self._fault
                is_pulled |= fault is Fault.HALF_OPEN  # for good: no TCP goes on behind a hole
                self.pieces += 1
                if fault is Fault.DELAY:
                    time.sleep(_DELAY_S)
                if not is_pulled:
                    target.sendall(self._corrupt(data) if fault is Fault.CORRUPT else data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()

    def _corrupt(self, data: bytes) -> bytes:
        spoilt = bytearray(data)
        spoilt[self._chance.randrange(len(spoilt))] ^= self._chance.randrange(1, 256)
        return bytes(spoilt)
