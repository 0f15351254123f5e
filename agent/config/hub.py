"""``hub``: settings of the agents that push, and of the hub itself."""

from dataclasses import dataclass, field
from pathlib import Path

from agent.config.addresses import check_url
from agent.config.kafka import check_topic
from agent.errors import ConfigError, reason_of
from agent.small_files import read_text
from metrics.model.units import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig:
    """``push_to`` belongs to an agent, ``members`` to the hub, ``token_file`` to both."""

    push_to: tuple[str, ...] = ()
    """Addresses of hubs, such as ``https://hub:12472``; each gets every record."""
    token_file: Path | None = None
    """The secret that an agent sends and a hub requires; read again at every reload."""
    ca_file: Path | None = None
    """Authorities that verify a hub's certificate. Default: the machine's."""
    certificate_file: Path | None = None
    """An agent's own certificate and key (PEM), for a hub that requires one."""
    interval_s: Duration = field(default=2.0, metadata={"key": "interval"})
    """Pause between two pushes; records of the pause go in one batch."""
    members: bool = False
    """Whether the hub also exports each member's own series."""
    topic: str = ""
    """A hub reads agents' records from this topic of the cluster, not by push."""
    look_back_s: Duration = field(default=86_400.0, metadata={"key": "look_back"})
    """Start of a new hub's reading of the topic, as a time before now."""

    def __post_init__(self) -> None:
        """Check rules beyond types.

        Raises:
            ConfigError: an address or an interval is invalid.

        """
        for i, url in enumerate(self.push_to):
            check_url(url, f"hub.push_to[{i}]", "https://hub:12472", "hub.token_file")
        if self.topic:
            check_topic(self.topic, "hub.topic")
        if not 0.1 <= self.interval_s <= 3600:
            raise ConfigError(f"hub.interval: found {self.interval_s}s, wanted 100ms to 1h")


def read_token(path: Path | None) -> str:
    """Return the secret in a file; empty without a configured file.

    Raises:
        ConfigError: the file cannot be read, or is empty.

    """
    if path is None:
        return ""
    try:
        token = read_text(path).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"hub.token_file: {path}: {reason_of(error)}") from error
    if not token:
        raise ConfigError(f"hub.token_file: {path}: is empty")
    return token
