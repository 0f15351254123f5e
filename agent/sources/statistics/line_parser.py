"""Lines of statistics in any pieces in, signals out; other lines are counted."""

from dataclasses import dataclass
from typing import Any

import msgspec

from agent.sources.statistics.interpreter import StatisticsInterpreter
from agent.sources.statistics.printed_objects import find_statistics
from metrics.model.signals import Signal

LINE_LIMIT = 4 << 20
"""Bytes of one object: a client of some thousand partitions writes 2 MB."""


@dataclass(slots=True, kw_only=True)
class StatsCounts:
    """Counts of a stream."""

    lines: int = 0
    """Not counted: each line is a client's."""
    unread: int = 0
    manual: int = 0
    """None: a client without a group has no part for it."""
    long: int = 0


class StatsParser:
    """Reads one stream of JSON lines. Feeding it whole or byte by byte gives the same signals."""

    def __init__(self, view: StatisticsInterpreter) -> None:
        """``view`` gives the objects their meaning."""
        self.interpreter, self.counts = view, StatsCounts()
        self._carry, self._skipping = bytearray(), False

    @property
    def origins(self) -> tuple[str, ...]:
        """Return nothing: a file of statistics is one stream."""
        return ()

    @property
    def pending(self) -> int:
        """Bytes fed that wait for the end of their line."""
        return len(self._carry)

    @property
    def eviction_count(self) -> int:
        """Clients that were forgotten because there were too many."""
        return self.interpreter.evicted

    def feed(self, data: bytes, arrival_at: float) -> list[Signal]:  # noqa: ARG002 - they are dated
        """Take the next bytes."""
        *ends, rest = data.split(b"\n")
        out = []
        for end in ends:
            self._keep(end)
            if not self._skipping:
                out += self._take(bytes(self._carry))
            self._carry.clear()
            self._skipping = False
        self._keep(rest)
        return out

    def is_quiet(self, sample: bytes) -> bool:  # noqa: ARG002 - all lines are a client's
        """See `StreamParser`."""
        return False

    def flush(self) -> list[Signal]:
        """Return the signals of a last line without its newline."""
        return self.feed(b"\n", 0.0) if self._carry else []

    def release_overdue(self, until: float) -> list[Signal]:  # noqa: ARG002 - none is pending
        """Return nothing: no signal waits."""
        return []

    def horizon(self) -> float | None:
        """Return the time of the last statistics (Unix seconds); None before any."""
        return self.interpreter.last_at

    def oldest_pending_at(self) -> float | None:
        """Return None: no signal waits."""
        return None

    def state(self) -> dict[str, Any]:
        """Return the state for a restart after the last complete line."""
        return {"skipping": self._skipping, "view": self.interpreter.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a `state` again."""
        self._skipping = state["skipping"]
        self.interpreter.restore(state["view"])

    def _keep(self, data: bytes) -> None:
        if self._skipping:
            return
        self._carry += data
        if len(self._carry) > LINE_LIMIT:
            self._carry.clear()
            self._skipping = True
            self.counts.long += 1

    def _take(self, line: bytes) -> list[Signal]:
        if not line.strip():
            return []
        try:
            return self.interpreter.take(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._take_printed(line)

    def _take_printed(self, line: bytes) -> list[Signal]:
        """Take the statistics that a program printed within a line."""
        printed = find_statistics(line)
        try:
            if printed is not None:
                return self.interpreter.take(printed.line, printed.origin, printed.host)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        self.counts.unread += 1
        return []
