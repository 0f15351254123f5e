"""Configuration of a source of type ``logs``; it imports nothing that reads logs."""

from dataclasses import dataclass
from typing import Any

from agent.errors import ConfigError
from agent.sources.lines.following.config import FilesConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig(FilesConfig):
    """One source of type ``logs``."""

    dialects: Any = "auto"
    """``auto`` for all, else names."""
    rules: tuple[dict[str, Any], ...] = ()
    group: str = ""
    """Group of clients whose log names none, such as librdkafka's at its default level."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: no paths, an unknown time zone, or dialects that are not names.

        """
        FilesConfig.__post_init__(self)
        names = self.dialects
        is_list = isinstance(names, list | tuple) and names and all(type(n) is str for n in names)
        if not (is_list or isinstance(names, str)):
            raise ConfigError(f"dialects: found {names!r:.80}, wanted auto, or at least one name")

    @property
    def name(self) -> str:
        """Return the name of the source in metrics and in the checkpoint."""
        return f"logs:{','.join(self.paths)}"
