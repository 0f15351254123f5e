"""Configuration that sources of log files share; it imports nothing that reads logs."""

from dataclasses import dataclass
from enum import StrEnum

from agent.errors import ConfigError


class ReadFrom(StrEnum):
    """Begin of a file that exists at the start and has no checkpoint."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesConfig:
    """Keys of every source that reads log files."""

    paths: tuple[str, ...]
    """Globs; ``**`` for any depth."""
    read_from: ReadFrom = ReadFrom.BEGINNING

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: no paths.

        """
        if not self.paths or not all(self.paths):
            raise ConfigError("paths: found none, wanted at least one file or glob")
