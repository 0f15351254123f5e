"""A Unix socket for statistics: users' processes write one JSON object a line.

A process is known by its id from the kernel; its clients end with its connection. The socket writes
nothing back, so a writer waits only for room in the socket's buffer.
"""

import asyncio
import logging
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.sources.base import Detach, Emit, SourceHealth
from agent.sources.statistics.line_parser import StatsParser

MAX_CONNECTIONS = 256
RETRY_S = 5.0
HALF_LINES_MAX = 16 << 20
"""Of all connections: four of the longest lines; a line of some KB comes whole as a rule."""
_BLOCK_BYTES = 1 << 16
_PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid

_log = logging.getLogger(__name__)


class StatsSocket:
    """A listener; it creates the path at its start and removes it at its end."""

    def __init__(
        self, path: str, parser: Callable[[str], StatsParser], clock: Callable[[], float]
    ) -> None:
        """``parser`` creates one for each connection's stream."""
        self.health = SourceHealth()
        self._path, self._parser, self._clock = Path(path), parser, clock
        self._open: set[asyncio.Task[None]] = set()
        self._halves: dict[asyncio.Task[None], int] = {}
        """Bytes of a line without its end, the longest silent connection first."""
        self._reported_error = ""

    async def run(self, emit: Emit, _: Detach) -> None:
        """Listen; after a failure try again later."""
        while True:
            try:
                self._clear_path()
                server = await asyncio.start_unix_server(
                    lambda reader, writer: self._serve(reader, writer, emit),
                    path=self._path,
                    limit=_BLOCK_BYTES,
                )
            except OSError as error:
                self._fail(error)
                await asyncio.sleep(RETRY_S)
                continue
            self.health.up, self._reported_error = True, ""
            try:
                await asyncio.Event().wait()
            finally:
                self.health.up = False
                server.close()
                for task in self._open:
                    task.cancel()
                await asyncio.gather(*self._open, return_exceptions=True)
                self._path.unlink(missing_ok=True)

    def watermark(self, now: float) -> float:
        """Return ``now``: written lines are read at once."""
        return now

    def checkpoint(self) -> dict[str, Any]:
        """Return nothing: written lines cannot be read again."""
        return {}

    def _clear_path(self) -> None:
        """Remove a socket that a former agent left; never anything else.

        Raises:
            OSError: something else stands there, or its folder cannot be written.

        """
        try:
            if not stat.S_ISSOCK(self._path.stat().st_mode):
                raise FileExistsError(f"{self._path}: is no socket")
            self._path.unlink()
        except FileNotFoundError:
            return

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, emit: Emit
    ) -> None:
        task = asyncio.current_task()
        if task is None or len(self._open) >= MAX_CONNECTIONS:
            self._count("too_many_connections")
            writer.close()
            return
        self._open.add(task)
        parser = self._parser(f"{self._path}#{_read_peer_pid(writer)}")
        try:
            while data := await reader.read(_BLOCK_BYTES):
                self._handle_data(parser, data, emit)
                self._bound_halves(task, parser.pending)
                await asyncio.sleep(0)  # a writer that never stops delays no other
        except ConnectionError:
            self._count("connection")
        finally:
            self._open.discard(task)
            self._halves.pop(task, None)
            parser.interpreter.end()
            writer.close()

    def _bound_halves(self, task: asyncio.Task[None], size: int) -> None:
        """End the longest silent connections while half lines of all have too many bytes."""
        self._halves.pop(task, None)
        if size:
            self._halves[task] = size
        while sum(self._halves.values()) > HALF_LINES_MAX:
            silent = next(iter(self._halves))
            del self._halves[silent]
            self._count("half_lines")
            silent.cancel()

    def _handle_data(self, parser: StatsParser, data: bytes, emit: Emit) -> None:
        unread, long, evicted = parser.counts.unread, parser.counts.long, parser.eviction_count
        signals = parser.feed(data, self._clock())
        self.health.read_bytes += len(data)
        self.health.unparsed += parser.counts.unread - unread
        for _ in range(parser.counts.long - long):
            self._count("long_line")
        for _ in range(parser.eviction_count - evicted):
            self._count("member_evicted")
        if signals:
            self.health.signals += len(signals)
            emit(signals)

    def _fail(self, error: OSError) -> None:
        self._count("socket")
        if self._reported_error != str(error):
            self._reported_error = str(error)
            _log.warning(
                "stats_socket_failed", extra={"path": str(self._path), "error": str(error)}
            )

    def _count(self, reason: str) -> None:
        self.health.errors[reason] = self.health.errors.get(reason, 0) + 1


def _read_peer_pid(writer: asyncio.StreamWriter) -> int:
    """Return the process id of the other end, in its own namespace or the agent's."""
    peer = writer.get_extra_info("socket")
    pid, _, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(pid)
