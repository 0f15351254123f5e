"""OpenTelemetry's part in the composition; imports nothing of it without ``otlp``."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError
from agent.wiring.agent_config import AgentConfig
from aggregation.live.live import live
from aggregation.rebalances.rebalances import ExplainedRebalance
from metrics.exporters.exposition import AgentStats, Exposition, OutputStats
from metrics.model.snapshot import Snapshot

if TYPE_CHECKING:
    from agent.outputs.otlp.exporter import OtlpOutput


class OtlpWiring:
    """Exports by OTLP, if ``otlp`` is configured."""

    def __init__(
        self,
        config: AgentConfig,
        version: str,
        snapshot: Callable[[], tuple[Snapshot, AgentStats]],
    ) -> None:
        """Read the secrets.

        Raises:
            ConfigError: one of them cannot be read, or the extra is missing.

        """
        self._snapshot, self._members = snapshot, config.shows_members
        self._export: OtlpOutput | None = None
        if config.otlp is None:
            return
        try:
            from agent.outputs.otlp import exporter as otel_export  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ConfigError(f"otlp: {error}; install the extra 'otel'") from error
        resource = {
            "service.name": "kafka-rebalance-agent",
            "service.version": version,
            "service.instance.id": config.host,
        }
        self._export = otel_export.OtlpOutput(
            config.otlp, resource, config.limits.series, self._read
        )

    def start(self) -> list[asyncio.Task[Any]]:
        """Start exporting."""
        if self._export is None:
            return []
        return [asyncio.create_task(self._export.run(), name=self._export.name)]

    def stats(self) -> tuple[OutputStats, ...]:
        """Return the output's counts."""
        return () if self._export is None else (self._export.stats,)

    def enqueue(self, episodes: Sequence[ExplainedRebalance]) -> None:
        """Queue complete rebalances of whole groups."""
        if self._export is not None:
            self._export.enqueue(episodes)

    def _read(self) -> Callable[[], tuple[float, Exposition]]:
        snapshot, stats = self._snapshot()
        return lambda: (snapshot.at, Exposition(live(snapshot, members=self._members), stats))
