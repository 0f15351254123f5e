"""``web``: the addresses that the agent listens on, and its metrics page."""

import re
from dataclasses import dataclass
from pathlib import Path

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
