"""The source of type ``proxy``: clients reach their brokers through it, and it decodes on the way.

Bytes pass in a thread of their own (`agent.sources.proxy.event_loop`); signals come back to the
event loop. Nothing of the traffic is kept, so the checkpoint holds only the port of each broker.
"""

import asyncio
import ctypes
import gc
import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import msgspec

from agent.config.addresses import parse_address
from agent.errors import SourceError
from agent.sources.base import Detach, Emit, SourceHealth
from agent.sources.position import decode_position
from agent.sources.proxy.config import ProxyConfig
from agent.sources.proxy.event_loop import ProxyLoop
from agent.sources.proxy.handshake import ProxySettings
from agent.sources.proxy.tls import load_contexts
from agent.wire.codec.messages import HostPort
from agent.wire.members.group_decoder import GroupDecoder
from metrics.model.signals import Signal

_ON_THE_WAY_S = 0.1
"""A signal comes from the thread to the event loop within this time."""
_RETRY_S = 5.0
_SWITCH_S = 0.0001
"""Longest wait for another thread's Python code, at each system call; Python's own is 5 ms. A
heartbeat makes some six calls, so a page that is rendered meanwhile cost it 30 ms."""
_LOOK_S = 0.5
_M_ARENA_MAX = -8  # malloc.h

_log = logging.getLogger(__name__)


_Broker = Annotated[str, msgspec.Meta(pattern=r".:[0-9]{1,5}$")]
_Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class _KnownPorts(msgspec.Struct):
    """Its part of a checkpoint."""

    ports: dict[_Broker, _Port] = {}


class ProxySource:
    """The source of type ``proxy``."""

    kind = "proxy"

    def __init__(
        self, config: ProxyConfig, *, cluster: str = "", position: dict[str, Any] | None = None
    ) -> None:
        """Give brokers the ports that they had in ``position``, a former `checkpoint`.

        Raises:
            ConfigError: a certificate cannot be read.

        """
        self.name = config.name
        self._config, self._cluster = config, cluster
        self._settings = _build_settings(config)
        self._loop: ProxyLoop | None = None
        self._counts: Counter[str] = Counter()
        self.health = SourceHealth(errors=self._counts)
        self._ports = decode_position(position, _KnownPorts, self.name, self.health).ports

    @property
    def address(self) -> HostPort | None:
        """The listening address, while it runs."""
        return None if self._loop is None else self._loop.address

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Pass traffic until cancelled; then drain."""
        here = asyncio.get_running_loop()
        ended: asyncio.Future[None] = here.create_future()

        def call(run: Callable[..., None], *values: Any) -> None:
            """Have something done in the event loop, unless that has ended."""
            with suppress(RuntimeError):
                here.call_soon_threadsafe(run, *values)

        def take(signals: Sequence[Signal]) -> None:
            self.health.signals += len(signals)
            emit(signals)

        def let_go(stream: str, at: float, *, is_cut: bool = False) -> None:
            call(partial(detach, stream, at, is_cut=is_cut))

        loop = await self._listen(partial(call, take), let_go)
        thread = threading.Thread(
            target=_run_loop, args=(loop, ended, call), name=self.name, daemon=True
        )
        gc.collect()
        gc.freeze()  # a collection over all imports would hold traffic up for 50 ms
        sys.setswitchinterval(_SWITCH_S)
        _limit_heap()
        thread.start()
        self._loop, self.health.up = loop, True
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=_LOOK_S)
                self.health.read_bytes = loop.total_bytes
            ended.result()
        finally:
            loop.stop(self._config.drain_s)
            await asyncio.wait([ended])
            self._ports, self._loop, self.health.up = loop.ports.as_dict(), None, False

    def reload(self, config: ProxyConfig) -> None:
        """Use another configuration, and the present content of its files, for new connections.

        It listens on; open connections stay as they are.
        """
        self._settings, self._config = _build_settings(config), config
        if self._loop is not None:
            self._loop.renew(self._settings)

    def watermark(self, now: float) -> float:
        """Return the watermark (Unix seconds): the bytes of the last moments may be on the way."""
        return now - _ON_THE_WAY_S

    def shrink_buffers(self) -> None:
        """Drop long incomplete frames of the decoders; the traffic is not affected."""
        if self._loop is not None:
            self._loop.post(self._loop.shrink_buffers)

    def checkpoint(self) -> dict[str, Any]:
        """Return each broker's port."""
        return {"ports": self._ports if self._loop is None else self._loop.ports.as_dict()}

    async def _listen(self, emit: Emit, detach: Detach) -> ProxyLoop:
        """Return the loop, as soon as the address is free."""
        logged, listen_at = "", _parse_host_port(self._config.listen)
        while True:
            try:
                return ProxyLoop(
                    listen_at=listen_at,
                    known=self._ports,
                    terms=self._settings,
                    interpreter=GroupDecoder(self._cluster, self._counts),
                    emit=emit,
                    detach=detach,
                )
            except SourceError as error:
                self._counts["listen"] += 1
                if logged != str(error):
                    _log.error("proxy_cannot_listen", extra={"error": str(error)})
                    logged = str(error)
                await asyncio.sleep(_RETRY_S)


def _limit_heap() -> None:
    """Have glibc keep one heap, not one a thread, and return the memory of the start."""
    libc = ctypes.CDLL(None)
    with suppress(AttributeError):  # another C library does neither
        libc.mallopt(_M_ARENA_MAX, 1)
        libc.malloc_trim(0)


def _build_settings(config: ProxyConfig) -> ProxySettings:
    port = _parse_host_port(config.listen).port
    return ProxySettings(
        upstream=tuple(map(_parse_host_port, config.upstream)),
        ports=tuple(port and port + i + 1 for i in range(config.broker_ports)),
        advertise=config.advertise,
        tls=load_contexts(config.tls),
        connections_max=config.max_connections,
        setup_s=config.setup_s,
    )


def _parse_host_port(text: str) -> HostPort:
    return HostPort(*parse_address(text, "proxy"))


def _run_loop(loop: ProxyLoop, ended: "asyncio.Future[None]", call: Callable[..., None]) -> None:
    """Run the loop in this thread; its bug is the source's."""
    try:
        loop.run()
    except BaseException as error:  # noqa: BLE001 - the awaiting task raises it again
        call(ended.set_exception, error)
    else:
        call(ended.set_result, None)
