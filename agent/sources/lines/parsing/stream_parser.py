"""Protocols of a log stream: bytes to signals, and events to signals."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from agent.sources.lines.dialects.dialect import LogEvent
from agent.sources.lines.envelopes.clock_shift import Shift
from metrics.model.signals import Signal

HELD_MAX_S = 300.0
"""Kafka's default max.poll.interval: the end of a sync that is held longer is not printed, as where
the logger ConsumerCoordinator is at WARN."""


class LineInterpreter(Protocol):
    """Interpreter of the events of one log stream."""

    eviction_count: int
    """Number of members evicted because of the limit."""

    @property
    def has_members(self) -> bool:
        """Return whether a member of the stream is in its group, as far as its lines show."""

    @property
    def parts(self) -> Sequence[str]:
        """Return the names of further streams that this one turned out to merge."""

    def take(self, event: LogEvent, at: float) -> list[Signal]:
        """Take one event at Unix seconds ``at``; return the signals that are ready."""

    def flush(self) -> list[Signal]:
        """Return all pending signals, at the end of the stream."""

    def release_overdue(self, until: float) -> list[Signal]:
        """Return the pending signals up to a time (Unix seconds): their end is not printed."""

    def horizon(self) -> float | None:
        """Return the time (Unix seconds) of the oldest pending signal, if any."""

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint, in types that JSON can carry."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""


class LineCounts(Protocol):
    """Lines that a parser could not read."""

    lines: int
    unread: int
    manual: int
    long: int


class StreamParser(Protocol):
    """Parser of one file: bytes in any pieces to signals."""

    @property
    def counts(self) -> LineCounts:
        """Return the counts so far."""

    @property
    def eviction_count(self) -> int:
        """Number of members evicted because of the limit."""

    @property
    def origins(self) -> Sequence[str]:
        """Return the names of the streams that the file merges."""

    @property
    def pending(self) -> int:
        """Bytes of an incomplete line; a checkpoint starts before them."""

    def is_quiet(self, sample: bytes) -> bool:
        """Return whether no line of a client shows in some bytes: such a block is read quickly."""

    def feed(self, data: bytes, arrival_at: float) -> list[Signal]:
        """Take the next bytes, which arrived at Unix seconds ``arrival_at``."""

    def flush(self) -> list[Signal]:
        """Return all pending signals, at the end of the stream."""

    def release_overdue(self, until: float) -> list[Signal]:
        """Return the pending signals up to a time (Unix seconds): their end is not printed."""

    def horizon(self) -> float | None:
        """Return the watermark: no later signal is older. None before any line."""

    def oldest_pending_at(self) -> float | None:
        """Return the time (Unix seconds) of the oldest pending signal, if any."""

    def state(self) -> dict[str, Any]:
        """Return the state behind the last complete line, for a checkpoint."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""


@runtime_checkable
class SupportsClock(Protocol):
    """Parser of lines with an application's stamps, which may be another zone's."""

    def observe_clock(self, data: bytes, arrival_at: float, gap_s: float | None) -> Sequence[Shift]:
        """Compare the stamps of the next bytes with their arrival; return changed shifts."""


@runtime_checkable
class SupportsDocuments(Protocol):
    """Parser that may hold bytes: of an entry over several lines, or of a newest-first file."""

    @property
    def settles_after_s(self) -> float | None:
        """Seconds without news after which `settle` is due; None: nothing is held for it."""

    def begin_file(self, head: bytes, arrival_at: float) -> list[Signal]:
        """End the file before; the next bytes, ``head``, are the first ones of a new one."""

    def settle(self) -> list[Signal]:
        """Read what is held, as nothing was added for `settles_after_s`."""
