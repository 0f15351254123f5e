"""``web``: the addresses that the agent listens on, and its metrics page."""

import re
from dataclasses import dataclass
from pathlib import Path

from agent.config.addresses import check_url
from agent.errors import ConfigError

DEFAULT_LISTEN = ":12472"
TELEMETRY_PATH = re.compile(r"/(?!(?:-|api)(?:/|$))[\w.~/-]+")
"""Excludes paths that serve something else."""


@dataclass(frozen=True, slots=True)
class WebConfig:
    """Addresses and paths of the agent's web server."""

    listen: tuple[str, ...] = (DEFAULT_LISTEN,)
    telemetry_path: str = "/metrics"
    state_sets: bool = False
    config_file: Path | None = None
    """TLS, headers and users: `agent.web.web_config`."""
    token_file: Path | None = None  # its content authorises a reload
    external_url: str = ""
    """Address at which people reach the agent's pages: alerts link to it."""

    def __post_init__(self) -> None:
        """Check rules beyond types.

        Raises:
            ConfigError: the external address is invalid, or has a password.

        """
        if not self.external_url:
            return
        example = "https://rebalances.example.org"
        check_url(self.external_url, "web.external_url", example, "an address alone")
        if self.external_url.endswith("/"):
            raise ConfigError("web.external_url: found a / at its end, wanted none")
