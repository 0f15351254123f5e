"""Configuration of a source of type ``groups``; brokers and security are in ``cluster``."""

from dataclasses import dataclass, field

from agent.errors import ConfigError
from metrics.model.units import Duration

_INTERVAL_MIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSourceConfig:
    """Inspection of the groups that ``groups.include`` and ``groups.exclude`` choose."""

    interval_s: Duration = field(default=10.0, metadata={"key": "interval"})
    lag: bool = False
    """Export the lag of every group by topic (`kafka_group_lag`)."""
    lag_by_partition: bool = False
    """Export it by partition, too (`kafka_group_partition_lag`)."""

    def __post_init__(self) -> None:
        """Check the interval and the choice of lag.

        Raises:
            ConfigError: the interval is so short that polls would load the brokers.

        """
        if self.interval_s < _INTERVAL_MIN_S:
            raise ConfigError(f"interval: found {self.interval_s:g}s, wanted 1s or more")
        if self.lag_by_partition and not self.lag:
            raise ConfigError("lag_by_partition: wanted lag: true, too")

    @property
    def name(self) -> str:
        """The source's name in metrics and in the checkpoint."""
        return "groups"
