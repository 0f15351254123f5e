"""The configuration of a source of type ``logs``; without what reading logs needs."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig(FilesConfig):
    """One source of type ``logs``."""

    dialects: Any = "auto"
    """``auto`` for all, else names."""
    rules: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        """Check what types do not tell.

        Raises:
            ConfigError: no paths, or dialects that are no names.

        """
        FilesConfig.__post_init__(self)
        names = self.dialects
        is_list = isinstance(names, list | tuple) and names and all(type(n) is str for n in names)
        if not (is_list or isinstance(names, str)):
            raise ConfigError(f"dialects: found {names!r:.80}, wanted auto, or at least one name")

    @property
    def name(self) -> str:
        """What the source is called in metrics and in the checkpoint."""
        return f"logs:{','.join(self.paths)}"
