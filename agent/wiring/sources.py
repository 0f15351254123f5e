"""Construction of the configured sources: the composition root's part for the edge."""

from agent.config.hub import read_token
from agent.runtime.pipeline import Positions
from agent.sources.base import Source
from agent.sources.registry import REGISTRY
from agent.sources.source_type import SourceContext
from agent.wiring.agent_config import AgentConfig, Role


def make_sources(config: AgentConfig, positions: Positions) -> list[Source]:
    """Return the configured sources, each at its position.

    Raises:
        RebalanceAgentError: a rule or a path in the configuration is wrong.

    """
    sources = [
        REGISTRY.create(source, _context(config, positions, source.name))
        for source in config.sources
    ]
    if config.role is Role.HUB:
        sources.append(_make_receiver(config, positions))
    return sources


def _context(config: AgentConfig, positions: Positions, name: str) -> SourceContext:
    return SourceContext(
        cluster=config.cluster,
        host=config.host,
        timezone=config.timezone,
        is_watched=config.is_watched,
        app_of=config.app_of,
        position=positions.get(name),
    )


def _make_receiver(config: AgentConfig, positions: Positions) -> Source:
    from agent.hub.push_receiver import PushReceiver  # noqa: PLC0415 - a hub's alone
    from agent.hub.topic_intake import TopicReceiver  # noqa: PLC0415

    if config.hub.topic:
        return TopicReceiver(config.status, positions.get(TopicReceiver.name))
    token = read_token(config.hub.token_file)
    return PushReceiver(token, config.status, positions.get(PushReceiver.name))
