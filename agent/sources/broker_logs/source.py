"""The source of type ``broker_log``: group coordinators' lines about every group of the cluster.

Lines: `agent.sources.broker_logs.dialects`; their meaning:
`agent.sources.broker_logs.coordinator_interpreter`. Rotation, checkpoints and faults are the log
tail's own.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agent.sources.base import Detach, Emit, SourceHealth
from agent.sources.broker_logs.config import BrokerLogConfig
from agent.sources.broker_logs.coordinator_interpreter import CoordinatorInterpreter
from agent.sources.broker_logs.membership import GroupTable
from agent.sources.lines.dialects.dialect_loader import load_broker_dialects
from agent.sources.lines.dialects.dialect_matcher import Dialects
from agent.sources.lines.following.live_documents import LiveDocuments
from agent.sources.lines.following.tail import FileTail
from agent.sources.lines.parsing.line_parser import LineParser
from metrics.model.signals import Signal


class BrokerLogSource:
    """The source of type ``broker_log``."""

    kind = "broker_log"

    def __init__(  # noqa: PLR0913 - the composition root's parts
        self,
        config: BrokerLogConfig,
        *,
        cluster: str = "",
        timezone: str | None = None,
        position: dict[str, Any] | None = None,
        orphans: dict[str, Any] | None = None,
        readers: dict[str, object] | None = None,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Continue from ``position``, a former `checkpoint`. ``pause`` waits for some seconds."""
        self.name = config.name
        self._departures: list[tuple[str, float]] = []
        dialects, table = create_broker_dialects(), GroupTable()
        zone = config.timezone or timezone
        self._log = FileTail(
            config,
            lambda stream: LiveDocuments(
                LineParser(
                    dialects, CoordinatorInterpreter(cluster, self._record_departure, table), zone
                ),
                stream,
                zone,
            ),
            position=position,
            orphans=orphans,
            readers=readers,
            clock=clock,
            pause=pause,
        )
        self.health: SourceHealth = self._log.health

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Read until cancelled."""

        def emit_and_detach(signals: Sequence[Signal]) -> None:
            emit(signals)
            while self._departures:
                detach(*self._departures.pop(0))

        await self._log.run(emit_and_detach, detach)

    def watermark(self, now: float) -> float:
        """Return the watermark of the log files (Unix seconds)."""
        return self._log.watermark(now)

    @property
    def is_behind(self) -> bool:
        """Whether a log has more to be read."""
        return self._log.is_behind

    def limit_reading(self, to: float | None) -> None:
        """Read no log on that has been read beyond a time (Unix seconds)."""
        self._log.limit_reading(to)

    def checkpoint(self) -> dict[str, Any]:
        """Return each log's position and the state of its groups."""
        return self._log.checkpoint()

    def _record_departure(self, stream: str, at: float) -> None:
        self._departures.append((stream, at))


def create_broker_dialects() -> Dialects:
    """Return the dialects of brokers of all versions."""
    return Dialects(all=load_broker_dialects())
