"""``web``: the addresses that the agent listens on, and its metrics page."""

import re
from dataclasses import dataclass
from pathlib import Path

DEFAULT_LISTEN = ":12472"
TELEMETRY_PATH = re.compile(r"/(?!(?:-|api)(?:/|$))[\w.~/-]+")
"""No place where the agent serves something else."""


@dataclass(frozen=True, slots=True)
class WebConfig:
    """Where the agent listens, and what its metrics page holds."""

    listen: tuple[str, ...] = (DEFAULT_LISTEN,)
    telemetry_path: str = "/metrics"
    state_sets: bool = False
    config_file: Path | None = None
    """TLS, headers and users: `agent.web.web_config`."""
    token_file: Path | None = None  # who shows what it holds may reload
