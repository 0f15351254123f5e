"""``samples.kafka``: a topic that receives every record of the spool."""

import re
from dataclasses import dataclass

from agent.config.addresses import parse_address
from agent.config.codec import join
from agent.config.security import SecurityConfig
from agent.errors import ConfigError

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """Addresses and security of a cluster."""

    bootstrap_servers: tuple[str, ...]
    security: SecurityConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConfig:
    """Unset fields default to those of ``cluster``."""

    topic: str
    bootstrap_servers: tuple[str, ...] = ()
    security: SecurityConfig | None = None

    def __post_init__(self) -> None:
        """Check rules beyond types.

        Raises:
            ConfigError: no topic can have the name.

        """
        check_topic(self.topic, "samples.kafka.topic")

    def access(self, cluster: KafkaAccess) -> KafkaAccess:
        """Return addresses and security of the topic's cluster."""
        return KafkaAccess(
            self.bootstrap_servers or cluster.bootstrap_servers, self.security or cluster.security
        )


def check_topic(name: str, where: str) -> None:
    """Check a topic's name by Kafka's own rule.

    Raises:
        ConfigError: no topic can have it.

    """
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        wanted = "wanted a topic's name: up to 249 letters, digits, '.', '_' and '-'"
        raise ConfigError(f"{where}: found {name[:80]!r}, {wanted}")


def check_topics(
    sink: KafkaConfig | None, topic: str, cluster: tuple[str, ...], *, is_hub: bool, where: str
) -> None:
    """Check the output's topic, ``hub.topic`` and the cluster's addresses against each other.

    Raises:
        ConfigError: they do not fit.

    """
    own = () if sink is None else sink.bootstrap_servers
    for i, address in enumerate(own):
        parse_address(address, join(where, f"samples.kafka.bootstrap_servers[{i}]"))
    if topic and not is_hub:
        raise ConfigError(f"{join(where, 'hub.topic')}: is for a hub; wanted role: hub")
    if topic and sink is not None and sink.topic == topic:
        wanted = f"found {topic!r}, which the hub reads; wanted another one"
        raise ConfigError(f"{join(where, 'samples.kafka.topic')}: {wanted}")
    wants = "hub.topic" if topic else "samples.kafka" if sink is not None and not own else ""
    if wants and not cluster:
        place = join(where, "cluster.bootstrap_servers")
        raise ConfigError(f"{place}: is missing; {wants} wants it")
