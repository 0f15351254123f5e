"""The hub's section of the configuration: of the agents that push, and of the hub itself."""

from dataclasses import dataclass
from pathlib import Path

from agent.config.addresses import check_url
from agent.config.kafka import check_topic
from agent.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig:
    """``push_to`` is an agent's; ``token_file`` both sides'; ``members`` the hub's."""

    push_to: tuple[str, ...] = ()
    """Addresses of hubs, such as ``https://hub:12472``; each gets every record."""
    token_file: Path | None = None
    """The secret that an agent shows and a hub wants; read again at every reload."""
    ca_file: Path | None = None
    """Certificates that a hub's own is checked against. Default: the machine's."""
    certificate_file: Path | None = None
    """An agent's own certificate and key (PEM), for a hub that wants one."""
    interval_s: float = 2.0
    """Between two pushes; what was recorded meanwhile goes in one batch."""
    members: bool = False
    """Whether the hub exports each member's own series, too."""
    topic: str = ""
    """A hub's: agents' records come by this topic of the cluster, not by push."""
    look_back_s: float = 86_400.0
    """How far back a hub that is new begins to read the topic."""

    def __post_init__(self) -> None:
        """Check what types do not tell.

        Raises:
            ConfigError: an address is none, or an interval is too short.

        """
        for i, url in enumerate(self.push_to):
            check_url(url, f"hub.push_to[{i}]", "https://hub:12472")
        if self.topic:
            check_topic(self.topic, "hub.topic")
        if not 0.1 <= self.interval_s <= 3600:
            raise ConfigError(f"hub.interval: found {self.interval_s}s, wanted 100ms to 1h")


def read_token(path: Path | None) -> str:
    """Return the secret in a file; empty where none is configured.

    Raises:
        ConfigError: the file cannot be read, or holds nothing.

    """
    if path is None:
        return ""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"hub.token_file: {path}: {error}") from error
    if not token:
        raise ConfigError(f"hub.token_file: {path}: is empty")
    return token
