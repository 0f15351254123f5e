"""The seams of a log stream: bytes in, signals out; events in, signals out."""

from typing import Any, Protocol

from agent.sources.lines.dialect import LogEvent
from metrics.model.signals import Signal


class LineInterpreter(Protocol):
    """Gives the lines of one log stream their meaning."""

    evicted: int
    """Members that were forgotten because there were too many."""

    def take(self, event: LogEvent, at: float) -> list[Signal]:
        """Take one event at Unix seconds ``at``; return the signals that are ripe."""

    def flush(self) -> list[Signal]:
        """Return all that waits, at the end of the stream."""

    def horizon(self) -> float | None:
        """Return the time (Unix seconds) of the oldest signal that waits, if any."""

    def state(self) -> dict[str, Any]:
        """Return what a restart needs, in types that JSON can carry."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a `state` again."""


class LineCounts(Protocol):
    """What a parser could not read."""

    unread: int
    long: int


class StreamParser(Protocol):
    """Bytes of one file in any pieces, signals out."""

    @property
    def counts(self) -> LineCounts:
        """What could not be read so far."""

    @property
    def evicted(self) -> int:
        """Members that were forgotten because there were too many."""

    @property
    def pending(self) -> int:
        """Bytes fed that wait for the end of their line; a checkpoint starts before them."""

    def feed(self, data: bytes, arrival_at: float) -> list[Signal]:
        """Take the next bytes, which arrived at Unix seconds ``arrival_at``."""

    def flush(self) -> list[Signal]:
        """Return what waits at the end of the stream."""

    def horizon(self) -> float | None:
        """Return the time before which no signal can come any more; None before any line."""

    def held_at(self) -> float | None:
        """Return the time (Unix seconds) of the oldest signal that waits, if any."""

    def state(self) -> dict[str, Any]:
        """Return what a restart needs to go on behind the last complete line."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a `state` again."""
