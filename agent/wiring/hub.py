"""The hub's part in the composition: its receiver, its routes, the members that it shows."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from starlette.routing import Route

from agent.errors import ConfigError
from agent.runtime.pipeline import Pipeline
from agent.runtime.supervisor import supervise
from agent.web.server import MAX_CONNECTIONS
from agent.wiring.agent_config import AgentConfig, Role
from metrics.exporters.exposition import OutputStats
from metrics.model.sample import Scope
from metrics.model.snapshot import Snapshot

if TYPE_CHECKING:  # imported where configured: half a MiB that most agents need not have
    from agent.hub.push_receiver import PushReceiver
    from agent.hub.topic_intake import TopicReceiver

MAX_AGENT_CONNECTIONS = 4_096
"""Connections of a hub: one per pushing agent."""


class BackgroundTask(Protocol):
    """A named task that runs until it is cancelled."""

    name: str

    async def run(self) -> None: ...


class OutputTask(BackgroundTask, Protocol):
    """Sends the spool's records."""

    @property
    def stats(self) -> OutputStats:
        """Counts since the start."""


class HubWiring:
    """Builds what ``hub:``, ``role: hub`` and ``samples.kafka`` configure."""

    def __init__(self, config: AgentConfig, pipeline: Pipeline, clock: Callable[[], float]) -> None:
        """Read the secrets.

        Raises:
            RebalanceAgentError: one of them cannot be read.

        """
        self._is_hub = config.role is Role.HUB
        self._takes_push = self._is_hub and not config.hub.topic
        self._pipeline, self._clock = pipeline, clock
        self._outputs: list[OutputTask] = [*_make_hub_pushes(config)]
        if config.samples.kafka is not None:
            self._outputs.append(_make_kafka_output(config, pipeline))
        self._running: list[BackgroundTask] = [*self._outputs]
        self._failures = Counter[str]()
        if config.hub.topic:
            self._running.append(self._feed(config))

    @property
    def max_connections(self) -> int:
        """Maximum of simultaneous connections of the web server."""
        return MAX_AGENT_CONNECTIONS if self._takes_push else MAX_CONNECTIONS

    def routes(self) -> list[Route]:
        """Return the routes for agents' pushes, on a hub that receives them."""
        if not self._takes_push:
            return []
        from agent.hub.push_receiver import routes  # noqa: PLC0415

        return routes(self._intake, self._pipeline.record, self._pipeline.wait_durable, self._clock)

    def has_own_token(self, path: str) -> bool:
        """Whether a path requires a token of its own."""
        if not self._is_hub:
            return False
        from agent.outputs.hub_push import PATH  # noqa: PLC0415

        return path == PATH and self._intake().has_token

    def start(self) -> list[asyncio.Task[Any]]:
        """Start sending, and reading a topic."""
        return [
            asyncio.create_task(self._supervise(each), name=each.name) for each in self._running
        ]

    def stats(self) -> tuple[OutputStats, ...]:
        """Return each output's counts."""
        return tuple(
            replace(each.stats, errors=each.stats.errors + self._failures[each.name])
            for each in self._outputs
        )

    def add_members(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the members that agents see."""
        if not self._is_hub:
            return snapshot
        intake = self._intake()
        return replace(
            snapshot,
            consumers=snapshot.consumers + intake.rows(Scope.CONSUMER, snapshot.at),
            instances=snapshot.instances + intake.rows(Scope.STREAMS, snapshot.at),
            groups=tuple(dict.fromkeys(snapshot.groups + intake.groups())),
        )

    def watermark(self, agent: str) -> float:
        """Return an agent's watermark (Unix seconds); this agent's own is now."""
        told_to = self._intake().watermark_of(agent) if self._is_hub else None
        return self._clock() if told_to is None else told_to

    def is_pending(self, agent: str, until: float) -> bool:
        """Whether an agent's records up to an instant may still arrive."""
        return self._is_hub and self._intake().is_pending(agent, until, self._clock())

    async def _supervise(self, each: BackgroundTask) -> None:
        def note_failure() -> None:
            self._failures[each.name] += 1

        await supervise("output_failed", {"output": each.name}, each.run, note_failure)

    def _intake(self) -> "PushReceiver":
        from agent.hub.push_receiver import PushReceiver  # noqa: PLC0415

        return next(each for each in self._pipeline.sources if isinstance(each, PushReceiver))

    def _topic_intake(self) -> "TopicReceiver":
        from agent.hub.topic_intake import TopicReceiver  # noqa: PLC0415

        return next(each for each in self._pipeline.sources if isinstance(each, TopicReceiver))

    def _feed(self, config: AgentConfig) -> BackgroundTask:
        with _require_kafka_extra("hub.topic"):
            from agent.hub.topic_feed import TopicFeed  # noqa: PLC0415 - an extra
            from agent.hub.topic_reader import TopicReader  # noqa: PLC0415
            from agent.outputs.kafka.client_config import client_properties  # noqa: PLC0415
        topic, look_back_s = config.hub.topic, config.hub.look_back_s
        properties = client_properties(config.cluster.access)
        reader = partial(TopicReader, properties, topic, look_back_s=look_back_s)
        return TopicFeed(topic, reader, self._topic_intake, self._pipeline.record, self._clock)


def _make_hub_pushes(config: AgentConfig) -> Iterator[OutputTask]:
    if config.hub.push_to:
        from agent.outputs.hub_push import HubPush  # noqa: PLC0415

        for url in config.hub.push_to:
            yield HubPush(url, config.hub, config.samples.spool.dir)


def _make_kafka_output(config: AgentConfig, pipeline: Pipeline) -> OutputTask:
    kafka = config.samples.kafka
    assert kafka is not None  # noqa: S101 - the caller has looked
    with _require_kafka_extra("samples.kafka"):
        from agent.outputs.kafka.producer import KafkaOutput  # noqa: PLC0415 - an extra
    return KafkaOutput(
        kafka.topic,
        kafka.access(config.cluster.access),
        folder=config.samples.spool.dir,
        progress=config.state_dir / f"kafka-{kafka.topic}.json",
        newest=lambda: pipeline.spool.mark.seq,
    )


@contextlib.contextmanager
def _require_kafka_extra(what: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigError(f"{what}: {error}; install the extra 'kafka'") from error
