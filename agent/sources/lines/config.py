"""The configuration that sources of log files share; without what reading logs needs."""

from dataclasses import dataclass
from enum import StrEnum

from agent.errors import ConfigError


class ReadFrom(StrEnum):
    """Where to begin a file that stands there at the start and has no checkpoint."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesConfig:
    """What sources that read log files share."""

    paths: tuple[str, ...]
    """Globs; ``**`` for any depth."""
    read_from: ReadFrom = ReadFrom.BEGINNING

    def __post_init__(self) -> None:
        """Check what types do not tell.

        Raises:
            ConfigError: no paths.

        """
        if not self.paths or not all(self.paths):
            raise ConfigError("paths: found none, wanted at least one file or glob")
