"""Configuration that sources of log files share; it imports nothing that reads logs."""

from dataclasses import dataclass
from enum import StrEnum

from agent.errors import ConfigError
from agent.sources.lines.times.time_zone import find_zone


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
    """Where a file is begun that is there at the first look. Rotated files from before that are not
    read; ``replay`` reads them."""
    timezone: str | None = None
    """IANA zone of times without one in these files; default: the agent's ``timezone``."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: no paths, or an unknown time zone.

        """
        if not self.paths or not all(self.paths):
            raise ConfigError("paths: found none, wanted at least one file or glob")
        if self.timezone is not None:
            find_zone(self.timezone)
