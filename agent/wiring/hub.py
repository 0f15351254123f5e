"""The hub's part in the composition: its receiver, its routes, the members that it shows."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from agent.extras import require_extra
from agent.runtime.pipeline import Pipeline
from agent.runtime.supervisor import supervise
from agent.sources.base import Source
from agent.web.server import MAX_CONNECTIONS
from agent.wiring.agent_config import AgentConfig, Role
from metrics.model.sample import Sample, Scope
from metrics.model.snapshot import Snapshot

if TYPE_CHECKING:  # imported where configured: half a MiB that most agents need not have
    from agent.hub.push_receiver import PushReceiver
    from agent.hub.topic_feed import TopicFeed
    from agent.hub.topic_intake import TopicReceiver
    from aggregation.rebalances.agent_clocks import Spans

Record = Callable[[Sequence[Sample]], None]
MAX_AGENT_CONNECTIONS = 4_096
"""Connections of a hub: one per pushing agent."""


class HubWiring:
    """Builds the parts that ``role: hub`` configures; without it, everything is empty."""

    def __init__(self, config: AgentConfig, clock: Callable[[], float]) -> None:
        """Start without a receiver; `attach` sets it.

        Raises:
            ConfigError: the topic's extra is missing, or a secret cannot be read.

        """
        self._config, self._clock = config, clock
        self._is_hub = config.role is Role.HUB
        self._receives_push = self._is_hub and not config.hub.topic
        self._receiver: PushReceiver | None = None
        self._feed = _make_feed(config, self._current_topic, clock) if config.hub.topic else None

    def attach(self, sources: Sequence[Source]) -> None:
        """Use the receiver among the agent's sources; called again after a reload."""
        if not self._is_hub:
            return
        from agent.hub.push_receiver import PushReceiver  # noqa: PLC0415 - a hub's alone

        self._receiver = next(source for source in sources if isinstance(source, PushReceiver))

    @property
    def max_connections(self) -> int:
        """Maximum of simultaneous connections of the web server."""
        return MAX_AGENT_CONNECTIONS if self._receives_push else MAX_CONNECTIONS

    def routes(self, pipeline: Pipeline) -> list[Route]:
        """Return the routes for agents' pushes, on a hub that receives them."""
        if not self._receives_push:
            return []
        from agent.hub.push_receiver import routes  # noqa: PLC0415

        return routes(
            self._current,
            pipeline.record_whole,
            pipeline.wait_durable,
            pipeline.has_room,
            self._clock,
        )

    def has_own_token(self, path: str) -> bool:
        """Whether a path requires a token of its own."""
        if self._receiver is None:
            return False
        from agent.outputs.hub_push.push import PATH  # noqa: PLC0415

        return path == PATH and self._receiver.has_token

    def start(self, record: Record) -> list[asyncio.Task[Any]]:
        """Start reading the topic, if one is configured."""
        if self._feed is None:
            return []
        feed = self._feed(record)
        running = supervise("source_failed", {"source": feed.name}, feed.run)
        return [asyncio.create_task(running, name=feed.name)]

    def add_members(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the members that agents see."""
        receiver = self._receiver
        if receiver is None:
            return snapshot
        return replace(
            snapshot,
            consumers=snapshot.consumers + receiver.rows(Scope.CONSUMER, snapshot.at),
            instances=snapshot.instances + receiver.rows(Scope.STREAMS, snapshot.at),
            groups=tuple(dict.fromkeys(snapshot.groups + receiver.groups())),
            unseen=snapshot.unseen | receiver.unseen(snapshot.at),
        )

    def watermark(self, agent: str) -> float:
        """Return an agent's watermark (Unix seconds); this agent's own is now."""
        watermark = None if self._receiver is None else self._receiver.watermark_of(agent)
        return self._clock() if watermark is None else watermark

    def clock_spans(self) -> "Spans":
        """Return the offsets of the clocks of agents that push; for any thread."""
        return {} if self._receiver is None else self._receiver.clock_spans

    def is_pending(self, agent: str, until: float) -> bool:
        """Whether an agent's records up to an instant may still arrive."""
        receiver = self._receiver
        return receiver is not None and receiver.is_pending(agent, until, self._clock())

    def _current(self) -> "PushReceiver":
        assert self._receiver is not None  # noqa: S101 - only a hub's parts call this
        return self._receiver

    def _current_topic(self) -> "TopicReceiver":
        from agent.hub.topic_intake import TopicReceiver  # noqa: PLC0415

        receiver = self._current()
        assert isinstance(receiver, TopicReceiver)  # noqa: S101 - `make_sources` has built it
        return receiver


def _make_feed(
    config: AgentConfig, receiver: Callable[[], "TopicReceiver"], clock: Callable[[], float]
) -> "Callable[[Record], TopicFeed]":
    with require_extra("kafka", "hub.topic"):
        from agent.hub.topic_feed import TopicFeed  # noqa: PLC0415 - an extra
        from agent.hub.topic_reader import TopicReader  # noqa: PLC0415
        from agent.outputs.kafka.client_config import client_properties  # noqa: PLC0415
    topic, look_back_s = config.hub.topic, config.hub.look_back_s
    properties = client_properties(config.cluster.access)
    reader = partial(TopicReader, properties, topic, look_back_s=look_back_s)
    return lambda record: TopicFeed(topic, reader, receiver, record, clock)
