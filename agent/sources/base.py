"""What a source is: the seam between the world and the tracker.

A source reads one kind of trace and hands signals to `emit`, synchronously and in read order.
Between two awaits its `checkpoint()` must agree with what it has emitted: the application takes the
tracker's state and every source's checkpoint in one go, after the samples were fsynced.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from metrics.model.sample import Sample
from metrics.model.signals import Signal
from metrics.model.snapshot import InspectedGroup

Emit = Callable[[Sequence[Signal]], None]
Detach = Callable[[str, float], None]
"""(stream, at): a stream that the source read has ended for good."""
TICK_S = 1.0
"""How often, in recorded time, a recording says that time passes."""


class Tick(NamedTuple):
    """Of a recording: it has come to ``at`` (Unix seconds), whether it told anything or not."""

    at: float


@dataclass(slots=True, kw_only=True)
class SourceHealth:
    """What a source counts of itself; exposed as ``rebalance_agent_source_*``."""

    up: bool = False
    read_bytes: int = 0
    signals: int = 0
    unparsed: int = 0
    """Entries that looked like a client's line and could not be read (no rule, no identity)."""
    lag_s: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
    """By a short reason, such as ``permission`` or ``truncated``."""


@runtime_checkable
class GroupInspector(Protocol):
    """A source that knows groups as their coordinators tell them."""

    def group_states(self) -> tuple[InspectedGroup, ...]:
        """Return every group that it knows now."""

    def findings(self) -> Sequence[Sample]:
        """Return what was found since the last call, to be recorded."""


@runtime_checkable
class SupportsMemoryPressure(Protocol):
    """A source that keeps what it can do without."""

    def shrink_buffers(self) -> None:
        """Let go of it: memory is short (`agent.runtime.memory_limit`)."""


class Source(Protocol):
    """Reads a client's traces until it is cancelled; never raises for what the world does."""

    name: str
    kind: str
    health: SourceHealth

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Read until cancelled, with backoff after faults of the world."""

    def watermark(self, now: float) -> float:
        """Return the event time up to which everything has been read; ``now`` when idle."""

    def checkpoint(self) -> dict[str, Any]:
        """Return what a restart needs to go on exactly here, in types that JSON can carry."""


@runtime_checkable
class SupportsReload(Source, Protocol):
    """A source that traffic flows through: it goes on over a reload as long as it has its name."""

    def reload(self, config: Any) -> None:
        """Take its own configuration anew, and read its files again, such as certificates.

        Raises:
            RebalanceAgentError: one cannot be used; the old ones stay.

        """
