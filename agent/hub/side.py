"""The hub's part in the composition: what an agent pushes, what a hub takes in and shows."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from starlette.routing import Route

from agent.config import AgentConfig, Role
from agent.http_server import MAX_CONNECTIONS
from agent.hub.intake import Intake, routes
from agent.hub.push import Push
from agent.pipeline import Pipeline
from metrics.exposition import SinkStats
from metrics.sample import Scope
from metrics.snapshot import Snapshot

AGENTS = 4_096
"""Connections of a hub: one a pushing agent."""


class HubSide:
    """Builds what ``hub:`` and ``role: hub`` configure."""

    def __init__(self, config: AgentConfig, pipeline: Pipeline, clock: Callable[[], float]) -> None:
        """Read the secrets.

        Raises:
            RebalanceAgentError: one of them cannot be read.

        """
        self._is_hub = config.role is Role.HUB
        self._pipeline, self._clock = pipeline, clock
        folder = config.samples.spool.dir
        self._pushes = [Push(url, config.hub, folder) for url in config.hub.push_to]

    @property
    def max_connections(self) -> int:
        """How many the web server takes at once."""
        return AGENTS if self._is_hub else MAX_CONNECTIONS

    def routes(self) -> list[Route]:
        """Return where agents push to, on a hub."""
        if not self._is_hub:
            return []
        return routes(self._intake, self._pipeline.record, self._pipeline.safe, self._clock)

    def start(self) -> list[asyncio.Task[Any]]:
        """Begin to push."""
        return [asyncio.create_task(push.run(), name=push.name) for push in self._pushes]

    def stats(self) -> tuple[SinkStats, ...]:
        """Return what each push says of itself."""
        return tuple(push.stats for push in self._pushes)

    def added(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with what agents see."""
        if not self._is_hub:
            return snapshot
        intake = self._intake()
        return replace(
            snapshot,
            consumers=snapshot.consumers + intake.rows(Scope.CONSUMER, snapshot.at),
            instances=snapshot.instances + intake.rows(Scope.STREAMS, snapshot.at),
            groups=tuple(dict.fromkeys(snapshot.groups + intake.groups())),
        )

    def _intake(self) -> Intake:
        return next(each for each in self._pipeline.sources if isinstance(each, Intake))
