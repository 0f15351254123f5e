"""librdkafka's statistics from a file that is followed, or from a Unix socket that listens.

A path that ends in ``.sock`` is a socket: users' processes connect and write one JSON object a
line, each process by its own connection. Any other path is a file of such lines, or a glob of
files; it is followed through rotation and restarts like a log. The objects' meaning:
`agent.sources.statistics.interpreter`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from agent.sources.base import Detach, Emit, SourceHealth
from agent.sources.librdkafka_stats.config import StatsConfig, origin_of
from agent.sources.librdkafka_stats.unix_socket import StatsSocket
from agent.sources.lines.following.config import FilesConfig
from agent.sources.lines.following.tail import FileTail
from agent.sources.statistics.interpreter import StatisticsInterpreter
from agent.sources.statistics.line_parser import StatsParser
from metrics.model.signals import Signal

TICK_S = 1.0
"""Interval of the search for silent clients."""
_SOCKET = ".sock"


class StatsSource:
    """The source of type ``librdkafka_stats``."""

    kind = "librdkafka_stats"

    def __init__(  # noqa: PLR0913 - the composition root's parts
        self,
        config: StatsConfig,
        *,
        cluster: str = "",
        host: str = "",
        position: dict[str, Any] | None = None,
        orphans: dict[str, Any] | None = None,
        readers: dict[str, object] | None = None,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Continue from ``position``, a former `checkpoint`. ``pause`` waits for some seconds."""
        self.name = config.name
        self._config, self._cluster, self._host = config, cluster, host
        self._clock, self._pause = clock, pause
        self._interpreters: list[StatisticsInterpreter] = []
        self._reader: FileTail | StatsSocket
        if config.path.endswith(_SOCKET):
            self._reader = StatsSocket(config.path, self._create_parser, clock)
        else:
            self._reader = FileTail(
                FilesConfig(paths=(config.path,)),
                self._create_parser,
                position=position,
                orphans=orphans,
                readers=readers,
                origin_of=origin_of,
                clock=clock,
                pause=pause,
            )
        self.health: SourceHealth = self._reader.health

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Read until cancelled."""
        watching = asyncio.create_task(self._watch(emit, detach))
        try:
            await self._reader.run(emit, detach)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    def watermark(self, now: float) -> float:
        """Return the watermark of its file or socket (Unix seconds)."""
        return self._reader.watermark(now)

    @property
    def is_behind(self) -> bool:
        """Whether a file has more to be read; a socket has no past."""
        return isinstance(self._reader, FileTail) and self._reader.is_behind

    def limit_reading(self, to: float | None) -> None:
        """Read no file on that has been read beyond a time (Unix seconds)."""
        if isinstance(self._reader, FileTail):
            self._reader.limit_reading(to)

    def checkpoint(self) -> dict[str, Any]:
        """Return each file's position and its clients' last observations; a socket has neither."""
        return self._reader.checkpoint()

    def tick(self, emit: Emit, detach: Detach) -> None:
        """Find clients that are silent or gone."""
        now = self._clock()
        for view in self._interpreters:
            self._emit(view.advance(now), emit)
            while view.departed_origins:
                detach(view.departed_origins.pop(), now)
            if view.without_group:
                errors = self.health.errors
                errors["no_group"] = errors.get("no_group", 0) + view.without_group
                view.without_group = 0
        self._interpreters = [view for view in self._interpreters if not view.has_ended]

    async def _watch(self, emit: Emit, detach: Detach) -> None:
        while True:
            await self._pause(TICK_S)
            self.tick(emit, detach)

    def _emit(self, signals: Sequence[Signal], emit: Emit) -> None:
        if signals:
            self.health.signals += len(signals)
            emit(signals)

    def _create_parser(self, stream: str) -> StatsParser:
        view = StatisticsInterpreter(
            stream=origin_of(stream),
            group=self._config.group,
            group_type=self._config.group_type,
            cluster=self._cluster,
            host=self._host,
        )
        self._interpreters.append(view)
        return StatsParser(view)
