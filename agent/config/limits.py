"""``limits``: bounds on members, groups, series and memory."""

from dataclasses import dataclass, field

from agent.config.codec import SIZE

MEMORY_MIN_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """Anything beyond these is counted and left out."""

    members: int = 20_000
    groups: int = 5_000
    series: int = 100_000
    memory: int = field(default=256 << 20, metadata=SIZE)
    """Limit of the process: above it no store grows, and new members replace old ones."""
