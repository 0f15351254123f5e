"""The configuration of a source of type ``librdkafka_stats``."""

from dataclasses import dataclass

from agent.errors import ConfigError
from agent.sources.statistics.interpreter import StatsGroupType


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsConfig:
    """One source of type ``librdkafka_stats``."""

    path: str
    """A Unix socket (``*.sock``), a file, or a glob of files."""
    group: str | None = None
    """For clients without ``group_id`` in their objects: librdkafka itself does not report it."""
    group_type: StatsGroupType = StatsGroupType.CLASSIC
    """``consumer`` with ``group.protocol=consumer``."""

    def __post_init__(self) -> None:
        """Check the values beyond their types.

        Raises:
            ConfigError: no path.

        """
        if not self.path:
            raise ConfigError("path: found none, wanted a file or a socket such as /run/stats.sock")

    @property
    def name(self) -> str:
        """The source's name in metrics and in the checkpoint."""
        return f"librdkafka_stats:{self.path}"


def origin_of(stream: str) -> str:
    """Return the origin of members in a file: a log may have the same path."""
    return f"stats:{stream}"
