"""The configuration of a source of type ``broker_log``; without what reading logs needs."""

from dataclasses import dataclass

from agent.errors import ConfigError
from agent.sources.log_config import ReadFrom


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogConfig:
    """One source of type ``broker_log``."""

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

    @property
    def name(self) -> str:
        """What the source is called in metrics and in the checkpoint."""
        return f"broker_log:{','.join(self.paths)}"
