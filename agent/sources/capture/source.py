"""The source of type ``capture``: clients' plaintext traffic in this network namespace.

Theory of operation. The filter in the kernel and `ConnectionClassifier` find the connections that
carry groups, at the configured ports and at those in brokers' responses; their segments go to the
decoder. A member's past before the first packet of its connection is unknown: its next request
shows its identity, its next rebalance the cause. A capture has no position: after a restart it
joins in mid-stream, and the traffic in between was not seen.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from typing import Any

from agent.errors import SourceError
from agent.sources.base import Detach, Emit, SourceHealth
from agent.sources.capture.config import ANY, CaptureConfig
from agent.sources.capture.packet_socket import PacketSocket
from agent.sources.capture.session import CaptureSession
from agent.wire.connection import ConnectionClosed, Event
from agent.wire.decoder_errors import decode_safely
from agent.wire.members.disconnects import DisconnectTracker
from agent.wire.members.group_decoder import GroupDecoder
from agent.wire.tcp.packets import format_endpoint

TICK_S = 0.5
RETRY_S = 5.0

_log = logging.getLogger(__name__)


class CaptureSource:
    """The source of type ``capture``."""

    kind = "capture"

    def __init__(
        self,
        config: CaptureConfig,
        *,
        cluster: str = "",
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        open_socket: Callable[[str], PacketSocket] = PacketSocket,
    ) -> None:
        """Capture nothing yet.

        Raises:
            SourceError: CAP_NET_RAW is missing.

        """
        open_socket(ANY).close()
        self.name = config.name
        self._counts: Counter[str] = Counter()
        self.health = SourceHealth(errors=self._counts)
        self._config, self._open = config, open_socket
        self._clock, self._pause = clock, pause
        self._decoder = GroupDecoder(cluster, self._counts)
        self._disconnects = DisconnectTracker(self._decoder.registry)
        self._session: CaptureSession | None = None
        self._is_short = False
        self._warned: set[str] = set()

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Read until cancelled."""
        while True:
            try:
                with closing(self._open(self._config.interface)) as sock:
                    await self._capture(sock, emit, detach)
            except (SourceError, OSError) as error:
                self._counts["interface"] += 1
                self._warn_once("capture_failed", str(error))
            finally:
                self._session, self.health.up = None, False
            await self._pause(RETRY_S)

    def watermark(self, now: float) -> float:
        """Return the time of the last packet if reading is behind; else ``now``. Unix seconds."""
        reading = self._session
        return reading.watermark if reading is not None and reading.is_behind else now

    def shrink_buffers(self) -> None:
        """Drop waiting segments and long frames, at the next tick."""
        self._is_short = True

    def checkpoint(self) -> dict[str, Any]:
        """Return nothing: packets that have passed cannot be read again."""
        return {}

    async def _capture(self, sock: PacketSocket, emit: Emit, detach: Detach) -> None:
        self._session = reading = CaptureSession(sock, self._config.ports, self._counts)
        keys = {"interface": self._config.interface, "ports": self._config.ports}
        _log.info("capture_started", extra=keys)
        self._warned.discard("capture_failed")
        self.health.up = True
        loop = asyncio.get_running_loop()
        failed: asyncio.Future[None] = loop.create_future()

        def ready() -> None:
            try:
                self._read_packets(reading, emit)
            except Exception as error:  # noqa: BLE001 - the awaiting task raises it again
                loop.remove_reader(sock)
                failed.set_exception(error)

        loop.add_reader(sock, ready)
        try:
            while not failed.done():
                await asyncio.wait([failed], timeout=TICK_S)
                self._tick(reading, emit, detach)
            failed.result()
        finally:
            loop.remove_reader(sock)

    def _read_packets(self, reading: CaptureSession, emit: Emit) -> None:
        """Read the available packets, and follow the brokers' present ports."""
        self._decode(reading.read(), emit)
        reading.follow(self._decoder.ports)

    def _tick(self, reading: CaptureSession, emit: Emit, detach: Detach) -> None:
        """Advance the time without packets."""
        now = self._clock()
        if not reading.is_behind:
            self._decode(reading.expire(now), emit)
        if self._is_short:
            self._is_short = False
            self._decode(reading.shrink_buffers(), emit)
        reading.count_drops()
        self.health.lag_s = max(0.0, now - self.watermark(now))
        for ended in self._disconnects.take_expired(now):
            detach(ended.name, now, is_cut=not ended.by_client)
        self._report(reading)

    def _decode(self, events: Iterable[Event], emit: Emit) -> None:
        signals = []
        for event in events:
            if isinstance(event, ConnectionClosed):
                self._disconnects.record(event)
            signals += decode_safely(self._decoder, event)
        if signals:
            self.health.signals += len(signals)
            emit(signals)

    def _report(self, reading: CaptureSession) -> None:
        """Log once each fact that an operator should know."""
        self.health.read_bytes += reading.take_read_bytes()
        for ends in reading.take_joined():
            client, server = format_endpoint(ends.client), format_endpoint(ends.server)
            _log.info(
                "capture_joined_mid_stream",
                extra={
                    "client": f"{client.host}:{client.port}",
                    "broker": f"{server.host}:{server.port}",
                    "unknown": "what its member did before",
                },
            )
        if self._counts["lost_packets"]:
            self._warn_once(
                "capture_lost_packets", "raise net.core.rmem_max; their content is unknown"
            )
        if self._counts["encrypted"]:
            self._warn_once(
                "capture_encrypted", "a broker's port carries TLS: its clients need the proxy"
            )

    def _warn_once(self, what: str, why: str) -> None:
        if what not in self._warned:
            _log.warning(what, extra={"source": self.name, "why": why})
        self._warned.add(what)
