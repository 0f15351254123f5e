"""Fault-injecting TCP proxy: holds a client's requests, or overwrites a response's error code.

The broker advertises the proxy's port, so no address in any message needs rewriting.
"""

import socket
import struct
from contextlib import suppress
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

from agent.processes.ports import HOST

JOIN_GROUP, HEARTBEAT, SYNC_GROUP, LIST_GROUPS = 11, 12, 14, 16
CONSUMER_HEARTBEAT, SHARE_HEARTBEAT, STREAMS_HEARTBEAT = 68, 76, 88
# https://kafka.apache.org/protocol: from these versions on a header ends in tagged fields.
_FLEXIBLE_SINCE = {
    JOIN_GROUP: 6,
    HEARTBEAT: 4,
    SYNC_GROUP: 4,
    LIST_GROUPS: 3,
    CONSUMER_HEARTBEAT: 0,
    SHARE_HEARTBEAT: 0,
    STREAMS_HEARTBEAT: 0,
}
_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")
"""API key, version and correlation id: the beginning of every request."""
_CORRELATION = struct.Struct(">i")
_THROTTLE_BYTES = 4
_ERROR = struct.Struct(">h")


class FaultProxy:
    """Listens from the start; `upstream` has to be set before the first client connects."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self.upstream = 0
        """The broker's port behind the proxy."""
        self._server = socket.create_server((HOST, 0))
        self.port: int = self._server.getsockname()[1]
        self._open = Event()
        self._open.set()
        self._armed: dict[int, int] = {}
        self._lock = Lock()
        self._sockets, self._closed = [self._server], False
        Thread(target=self._accept, name="fault proxy", daemon=True).start()

    @property
    def address(self) -> str:
        """The clients' ``bootstrap.servers``."""
        return f"{HOST}:{self.port}"

    def hold(self) -> None:
        """Hold all requests, like a network that hangs; connections stay."""
        self._open.clear()

    def release(self) -> None:
        """Forward the held requests, and all later ones."""
        self._open.set()

    def fail_next(self, api_key: int, error_code: int) -> None:
        """Overwrite the error code of the next response to one of the APIs above."""
        with self._lock:
            self._armed[api_key] = error_code

    def close(self) -> None:
        """End all connections."""
        self._open.set()
        with self._lock:
            self._closed = True
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                self._join(self._server.accept()[0])

    def _join(self, client: socket.socket) -> None:
        self._register(client)
        try:
            broker = socket.create_connection((HOST, self.upstream))
        except OSError:
            client.close()
            return
        self._register(broker)
        kinds: dict[int, tuple[int, int]] = {}
        for job in (self._forward_requests, self._forward_responses):
            Thread(target=job, args=(client, broker, kinds), daemon=True).start()

    def _register(self, end: socket.socket) -> None:
        """Register a socket to close with all others; raise OSError if they are closed already."""
        with self._lock:
            if not self._closed:
                self._sockets.append(end)
                return
        end.close()
        raise ConnectionAbortedError

    def _forward_requests(
        self, client: socket.socket, broker: socket.socket, kinds: dict[int, tuple[int, int]]
    ) -> None:
        with suppress(OSError):
            while frame := _read_frame(client):
                self._open.wait()
                api_key, version, correlation = _REQUEST.unpack_from(frame)
                if api_key in _FLEXIBLE_SINCE:
                    kinds[correlation] = api_key, version
                broker.sendall(_LENGTH.pack(len(frame)) + frame)
        _hang_up(client, broker)

    def _forward_responses(
        self, client: socket.socket, broker: socket.socket, kinds: dict[int, tuple[int, int]]
    ) -> None:
        with suppress(OSError):
            while frame := _read_frame(broker):
                (correlation,) = _CORRELATION.unpack_from(frame)
                if correlation in kinds:
                    self._inject_error(frame, *kinds.pop(correlation))
                client.sendall(_LENGTH.pack(len(frame)) + frame)
        _hang_up(client, broker)

    def _inject_error(self, frame: bytearray, api_key: int, version: int) -> None:
        with self._lock:
            error_code = self._armed.pop(api_key, None)
        if error_code is not None:
            tagged_fields = version >= _FLEXIBLE_SINCE[api_key]
            _ERROR.pack_into(frame, _CORRELATION.size + tagged_fields + _THROTTLE_BYTES, error_code)


def _read_frame(source: socket.socket) -> bytearray:
    """Return one message without its length; an empty one at the end of the stream."""
    head = _read_exactly(source, _LENGTH.size)
    return _read_exactly(source, _LENGTH.unpack(head)[0]) if head else head


def _read_exactly(source: socket.socket, size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        piece = source.recv(size - len(data))
        if not piece:
            return bytearray()
        data += piece
    return data


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
