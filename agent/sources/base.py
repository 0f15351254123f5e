"""The interface of a source, the seam between the world and the tracker.

A source reads one kind of trace and hands signals to `emit`, synchronously and in read order.
Between two awaits its `checkpoint()` must agree with its emitted signals: the application takes the
tracker's state and every source's checkpoint in one step, after the samples were fsynced.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from metrics.model.sample import Sample
from metrics.model.signals import Signal
from metrics.model.snapshot import InspectedGroup

Emit = Callable[[Sequence[Signal]], None]
Detach = Callable[..., None]
"""(stream, at, is_cut=False): a stream of the source has ended for good.

It is cut if that is no sign that its process has ended: its broker has ended the connection.
"""
TICK_S = 1.0
"""Interval, in recorded time, of a recording's ticks."""


class Tick(NamedTuple):
    """A recording's progress to ``at`` (Unix seconds), with or without signals."""

    at: float
    ended: tuple[str, ...] = ()
    """Streams that have ended for good by then, as `Detach` reports them live."""
    cut: tuple[str, ...] = ()
    """Others whose end is no sign that their process has ended."""


@dataclass(slots=True, kw_only=True)
class SourceHealth:
    """A source's own counts; exposed as ``rebalance_agent_source_*``."""

    up: bool = False
    read_bytes: int = 0
    signals: int = 0
    unparsed: int = 0
    """Entries that look like a client's line and cannot be read (no rule, no identity)."""
    lag_s: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
    """Counts by a short reason, such as ``permission`` or ``truncated``."""
    files: Mapping[str, Any] | None = None
    """Counts of each file (`lines.following.file_reports`); None: it reads no files."""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """Seconds that the clocks of other agents are ahead, of those that are corrected."""
    damaged: list[str] = field(default_factory=list)
    """Origins with an unusable position in the checkpoint: the source reads them from the start."""


@runtime_checkable
class GroupInspector(Protocol):
    """A source that knows groups as their coordinators describe them."""

    @property
    def cluster(self) -> str:
        """Return the cluster's label: its name, or its id; empty before the first poll."""

    def group_states(self) -> tuple[InspectedGroup, ...]:
        """Return the state of every group that it knows now."""

    def findings(self) -> Sequence[Sample]:
        """Return the findings since the last call, to be recorded."""


@runtime_checkable
class SupportsBacklog(Protocol):
    """A source that can find much that was written before, as files have it."""

    @property
    def is_behind(self) -> bool:
        """Whether it has not yet read all that there was."""

    def limit_reading(self, to: float | None) -> None:
        """Read no stream on that has been read beyond a time (Unix seconds); None: all of them."""


@runtime_checkable
class SupportsMemoryPressure(Protocol):
    """A source with dispensable buffers."""

    def shrink_buffers(self) -> None:
        """Release them: memory is short (`agent.runtime.memory_limit`)."""


class Source(Protocol):
    """Reads a client's traces until it is cancelled; never raises for faults of the world."""

    name: str
    kind: str
    health: SourceHealth

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Read until cancelled, with backoff after faults of the world."""

    def watermark(self, now: float) -> float:
        """Return the watermark: all earlier events were read; ``now`` when idle. Unix seconds."""

    def checkpoint(self) -> dict[str, Any]:
        """Return the position that a restart resumes from, in JSON types."""


@runtime_checkable
class SupportsReload(Source, Protocol):
    """A source that traffic flows through: it survives a reload as long as it keeps its name."""

    def reload(self, config: Any) -> None:
        """Apply a new configuration, and read its files again, such as certificates.

        Raises:
            RebalanceAgentError: one cannot be used; the old ones stay.

        """
