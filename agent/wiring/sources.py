"""Construction of the configured sources: the composition root's part for the edge."""

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from agent.config.addresses import parse_address
from agent.config.hub import read_token
from agent.errors import ConfigError
from agent.runtime.pipeline import Positions
from agent.sources.base import Source
from agent.sources.broker_logs.config import BrokerLogConfig
from agent.sources.capture.config import CaptureConfig
from agent.sources.http_events.source import HttpConfig, HttpSource
from agent.sources.inspection.config import GroupsSourceConfig
from agent.sources.librdkafka_stats.config import StatsConfig
from agent.sources.logs.config import LogConfig
from agent.sources.proxy.config import ProxyConfig
from agent.wiring.agent_config import AgentConfig, Role
from agent.wiring.source_types import SourceConfig


def make_sources(config: AgentConfig, positions: Positions) -> list[Source]:
    """Return the configured sources, each at its position.

    Raises:
        RebalanceAgentError: a rule or a path in the configuration is wrong.

    """
    sources = [
        _make_source(config, source, positions.get(source.name)) for source in config.sources
    ]
    if config.role is Role.HUB:
        sources.append(_make_receiver(config, positions))
    return sources


def _make_receiver(config: AgentConfig, positions: Positions) -> Source:
    from agent.hub.push_receiver import PushReceiver  # noqa: PLC0415 - a hub's alone
    from agent.hub.topic_intake import TopicReceiver  # noqa: PLC0415

    if config.hub.topic:
        return TopicReceiver(config.status, positions.get(TopicReceiver.name))
    token = read_token(config.hub.token_file)
    return PushReceiver(token, config.status, positions.get(PushReceiver.name))


def _make_source(  # noqa: PLR0911 - a table of one line each
    config: AgentConfig, source: SourceConfig, position: dict[str, Any] | None
) -> Source:
    match source:
        case LogConfig():
            from agent.sources.logs.source import LogSource  # noqa: PLC0415 - 1 MiB with its dialects

            return LogSource(
                source,
                cluster=config.cluster.name,
                host=config.host,
                timezone=config.timezone,
                position=position,
            )
        case BrokerLogConfig():
            from agent.sources.broker_logs.source import BrokerLogSource  # noqa: PLC0415

            return BrokerLogSource(
                source, cluster=config.cluster.name, timezone=config.timezone, position=position
            )
        case StatsConfig():
            from agent.sources.librdkafka_stats.source import StatsSource  # noqa: PLC0415

            return StatsSource(
                source, cluster=config.cluster.name, host=config.host, position=position
            )
        case HttpConfig():
            return HttpSource(source, cluster=config.cluster.name)
        case CaptureConfig():
            with _require_wire_extra():
                from agent.sources.capture.source import CaptureSource  # noqa: PLC0415 - an extra
            return CaptureSource(source, cluster=config.cluster.name)
        case ProxyConfig():
            with _require_wire_extra():
                from agent.sources.proxy.source import ProxySource  # noqa: PLC0415 - an extra
            return ProxySource(source, cluster=config.cluster.name, position=position)
        case GroupsSourceConfig():
            return _make_inspection(config, source)


def _make_inspection(config: AgentConfig, source: GroupsSourceConfig) -> Source:
    with _require_wire_extra():
        from agent.inspection.broker_pool import BrokerPool  # noqa: PLC0415 - an extra
        from agent.inspection.security import open_security  # noqa: PLC0415
        from agent.sources.inspection.source import GroupsSource  # noqa: PLC0415
    cluster = config.cluster
    nodes = [parse_address(address, "bootstrap_servers") for address in cluster.bootstrap_servers]
    security = partial(open_security, cluster.security)
    security()  # a missing secret is an error at the start
    return GroupsSource(
        source,
        cluster=cluster.name,
        brokers=lambda: BrokerPool(nodes, security),
        is_watched=config.is_watched,
        app_of=config.app_of,
    )


@contextlib.contextmanager
def _require_wire_extra() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigError(f"sources: {error}; install the extra 'wire'") from error
