"""``limits``: bounds on members, groups, series and memory."""

from dataclasses import dataclass

from metrics.model.units import Size

MEMORY_MIN_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """Anything beyond these is counted and left out."""

    members: int = 20_000
    groups: int = 5_000
    series: int = 100_000
    memory: Size = 256 << 20
    """Limit of the process: above it no store grows, and new members replace old ones."""
