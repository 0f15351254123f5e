"""An AF_PACKET socket: the packets of a network namespace that a filter passes.

It sees outgoing and incoming packets, without the link's header (SOCK_DGRAM); that mode also
removes VLAN tags. It needs CAP_NET_RAW and nothing else. It is never open without a filter.
"""

import contextlib
import errno
import os
import socket
import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

from agent.errors import SourceError
from agent.sources.capture.bpf import REJECT_ALL, WHOLE, attach_program
from agent.sources.capture.config import ANY

_EVERY_PROTOCOL = 0x0003
"""ETH_P_ALL: a socket for ETH_P_IP alone does not see outgoing packets."""
_BUFFER_BYTES = 4 << 20
"""The kernel gives net.core.rmem_max at most (212,992 as a rule)."""
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
_STATISTICS = struct.Struct("@II")

NOT_PERMITTED = (
    "capture: CAP_NET_RAW is missing; in Kubernetes: securityContext: {capabilities: {add: "
    "[NET_RAW]}}; in systemd: AmbientCapabilities=CAP_NET_RAW; by hand: setcap cap_net_raw+ep on "
    "the real file of the Python interpreter"
)


class CapturedPacket(NamedTuple):
    """A packet from its IP header on; ``at`` is when the kernel saw it (Unix seconds)."""

    at: float
    data: bytes


class PacketSocket:
    """Packets of one interface, or of all (``any``)."""

    batch = 64
    """How many packets `read` returns at most."""

    def __init__(self, interface: str) -> None:
        """Open it; nothing passes before `set_filter`.

        Raises:
            SourceError: no CAP_NET_RAW, or no such interface.

        """
        self._buffer = bytearray(WHOLE)
        self._closing = contextlib.ExitStack()
        with _explain_errors(interface):
            protocol = socket.htons(_EVERY_PROTOCOL)
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, protocol)
            with contextlib.ExitStack() as stack:
                self._socket = stack.enter_context(sock)
                attach_program(sock, REJECT_ALL)
                if interface != ANY:
                    sock.bind((interface, _EVERY_PROTOCOL))
                sock.setblocking(False)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
                sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
                self._drain()
                self._closing = stack.pop_all()

    def set_filter(self, code: bytes) -> bool:
        """Pass a program's choice from now on; False if it is too long for the kernel."""
        try:
            attach_program(self._socket, code)
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
            return False
        return True

    def read(self) -> list[CapturedPacket]:
        """Return the next packets, a batch at most; none if there are none.

        Raises:
            OSError: the interface is down or gone.

        """
        packets: list[CapturedPacket] = []
        with contextlib.suppress(BlockingIOError):
            while len(packets) < self.batch:
                size, said, _, _ = self._socket.recvmsg_into(
                    [self._buffer], socket.CMSG_SPACE(_TIMESPEC.size)
                )
                packets.append(CapturedPacket(_read_timestamp(said), bytes(self._buffer[:size])))
        return packets

    def take_drops(self) -> int:
        """Return how many packets found no room in the buffer since the last call."""
        size = _STATISTICS.size
        found = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, size)
        drops: int = _STATISTICS.unpack(found)[1]
        return drops

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._closing.close()

    def _drain(self) -> None:
        """Discard the packets from before the filter."""
        while self.read():
            pass
        self.take_drops()


def _read_timestamp(said: list[tuple[int, int, bytes]]) -> float:
    for _, kind, data in said:
        if kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            return float(seconds + nanoseconds / 1e9)
    return time.time()


@contextlib.contextmanager
def _explain_errors(interface: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise SourceError(NOT_PERMITTED) from error
    except OSError as error:
        raise SourceError(f"capture: {interface}: {os.strerror(error.errno or 0)}") from error
