"""What a source of type ``groups`` is told; the cluster and its security stand in ``cluster``."""

from dataclasses import dataclass

from agent.errors import ConfigError

_INTERVAL_MIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSourceConfig:
    """Inspection of the groups that ``groups.include`` and ``groups.exclude`` choose."""

    interval_s: float = 10.0

    def __post_init__(self) -> None:
        """Check what types do not tell.

        Raises:
            ConfigError: the interval would be a load on the brokers.

        """
        if self.interval_s < _INTERVAL_MIN_S:
            raise ConfigError(f"interval: found {self.interval_s:g}s, wanted 1s or more")

    @property
    def name(self) -> str:
        """What the source is called in metrics and in the checkpoint."""
        return "groups"
