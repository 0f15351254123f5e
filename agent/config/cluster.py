"""``cluster``: the Kafka cluster, its name and its brokers."""

from dataclasses import dataclass, field

from agent.config.kafka import KafkaAccess
from agent.config.security import SecurityConfig


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """``name`` overrides the Cluster ID that clients report; the rest is for inspection."""

    name: str = ""
    bootstrap_servers: tuple[str, ...] = ()
    security: SecurityConfig = field(default_factory=SecurityConfig)

    @property
    def access(self) -> KafkaAccess:
        """Addresses and security of the cluster."""
        return KafkaAccess(self.bootstrap_servers, self.security)
