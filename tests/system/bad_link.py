"""A network of its own behind a link that loses, repeats and reorders packets.

A replacement for netem, for kernels that lack it: two TUN devices, one of them in a new network
namespace, and a thread that carries packets between them. The program's main thread enters the
namespace and leaves it again; processes that it starts there stay there.
"""

import ctypes
import fcntl
import os
import random
import struct
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from types import TracebackType
from typing import Self

_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_TUN_WITHOUT_HEAD = 0x1001
_OWN_NETWORK = Path("/proc/thread-self/ns/net")
_PACKET_BYTES_MAX = 65_536
_HELD_S = 0.02
"""How long a packet waits for another one to overtake it."""
_LOST, _TWICE, _LATE = 0.05, 0.05, 0.1
_libc = ctypes.CDLL(None, use_errno=True)


class BadLink:
    """A context manager; ``near`` is this side's address, ``far`` that of the new namespace."""

    def __init__(self, seed: int) -> None:
        """Make the namespace and the link.

        Raises:
            OSError: CAP_NET_ADMIN or CAP_SYS_ADMIN is missing.

        """
        # RFC 2544's network for such devices; another program's link may be one of the others.
        net = f"198.18.{os.getpid() % 256}"
        self.near, self.far = f"{net}.1", f"{net}.2"
        self.faults: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._here = os.open(_OWN_NETWORK, os.O_RDONLY)
        self._near = _tun(f"bad{os.getpid()}", self.near, self.far)
        try:
            _check(_libc.unshare(_CLONE_NEWNET))
            self._there = os.open(_OWN_NETWORK, os.O_RDONLY)
            _ip("link", "set", "lo", "up")
            self._far = _tun("link0", self.far, self.near)
        finally:
            _check(_libc.setns(self._here, _CLONE_NEWNET))
        self._stopped = threading.Event()
        self._carrier = threading.Thread(target=self._carry, name="bad link", daemon=True)
        self._carrier.start()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Be in the namespace."""
        _check(_libc.setns(self._there, _CLONE_NEWNET))
        try:
            yield
        finally:
            _check(_libc.setns(self._here, _CLONE_NEWNET))

    def close(self) -> None:
        """Take the link away; the namespace ends with the last process in it."""
        self._stopped.set()
        self._carrier.join()
        for fd in (self._near, self._far, self._here, self._there):
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _carry(self) -> None:
        ends = {self._near: self._far, self._far: self._near}
        held: dict[int, bytes] = {}
        while not self._stopped.is_set():
            ready, _, _ = select([*ends], [], [], _HELD_S)
            for fd in ready or list(held):
                packets = [os.read(fd, _PACKET_BYTES_MAX)] if ready else []
                if fd not in held and packets and self._happens("late", _LATE):
                    held[fd] = packets.pop()
                elif fd in held:
                    packets.append(held.pop(fd))
                for packet in packets:
                    self._pass(ends[fd], packet)

    def _pass(self, fd: int, packet: bytes) -> None:
        if self._happens("lost", _LOST):
            return
        for _ in range(1 + self._happens("twice", _TWICE)):
            with suppress(OSError):  # the other side is not up
                os.write(fd, packet)

    def _happens(self, fault: str, share: float) -> bool:
        happens = self._chance.random() < share
        self.faults[fault] += happens
        return happens


def _tun(name: str, own: str, peer: str) -> int:
    """Return the file of a new device's packets; the device exists as long as the file is open."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TUN_WITHOUT_HEAD))
        _ip("address", "add", own, "peer", peer, "dev", name)
        _ip("link", "set", name, "up")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
