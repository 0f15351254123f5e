"""Configuration of a source of type ``http``; it imports nothing that reads events."""

from dataclasses import dataclass
from pathlib import Path

from agent.errors import ConfigError
from metrics.model.units import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """One source of type ``http``."""

    token_file: Path | None = None
    """Holds the bearer token; without it, only loopback addresses may post."""
    max_bytes: Size = 1 << 20
    """Limit of one body."""
    max_lines_per_second: int = 1_000

    def __post_init__(self) -> None:
        """Check rules beyond types.

        Raises:
            ConfigError: a limit of 0.

        """
        if self.max_bytes < 1:
            raise ConfigError("max_bytes: found 0, wanted room for one event at least")
        if self.max_lines_per_second < 1:
            raise ConfigError("max_lines_per_second: found 0, wanted 1 or more")

    @property
    def name(self) -> str:
        """The name of the source in metrics; there is at most one."""
        return "http"
