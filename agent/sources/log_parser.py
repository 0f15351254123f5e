"""Bytes of one log stream in any pieces, signals out. No file, no clock.

Theory of operation. Most lines of an application's log are not Kafka's, so a block is searched for
the dialects' literal anchors before anything is split into lines; only a line with an anchor is
unwrapped (CRI, Docker, JSON), dated and read. A stream that has spoken one family of dialects is
bound to it: the anchors of other families are not searched any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agent.sources.dialect import Dialects, Event, Reading
from agent.sources.envelope import Unwrapper
from agent.sources.interpreter import Interpreter
from agent.sources.stamps import Stamper
from metrics.signals import Signal

LINE_LIMIT = 1 << 20
"""Bytes of a line that are kept while its end has not come; the rest is passed over, counted."""

_CLOCK_AHEAD_S = 86_400.0
"""A stamp further ahead of its arrival than any zone can explain is no time of this line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line that an anchor found, for `--explain-line` and the interpreter."""

    text: str
    at: float
    event: Event | None


@dataclass(slots=True, kw_only=True)
class ParserCounts:
    """What a stream has shown so far."""

    lines: int = 0
    """Lines with an anchor."""
    unread: int = 0
    """Of these, such as no rule knows; most of what a client says is not about rebalances."""
    undated: int = 0
    ran_back: int = 0
    ahead: int = 0
    long: int = 0


class LogParser:
    """Reads one stream. Feeding it whole or byte by byte gives the same signals."""

    def __init__(
        self, dialects: Dialects, interpreter: Interpreter, timezone: str | None = None
    ) -> None:
        """``timezone`` is the IANA name for stamps without a zone; None is the machine's."""
        self.interpreter = interpreter
        self.stamper, self.unwrapper = Stamper(timezone), Unwrapper(timezone)
        self.counts = ParserCounts()
        self.family: str | None = None
        self.enabled: set[str] = set()  # the `anchor_after` texts that a client's name has shown
        self.last_at: float | None = None
        self._dated_at: float | None = None
        self._readings = dialects.readings
        self._anchors = [reading.anchor.encode() for reading in self._readings]
        self._carry, self._skipping = b"", False

    @property
    def pending(self) -> int:
        """Bytes fed that wait for the end of their line; a checkpoint starts before them."""
        return len(self._carry)

    def feed(self, data: bytes, arrival_at: float) -> list[Signal]:
        """Take the next bytes, which arrived at Unix seconds ``arrival_at``."""
        return [
            signal
            for line in self.lines(data, arrival_at)
            if line.event is not None
            for signal in self.interpreter.take(line.event, line.at)
        ]

    def lines(self, data: bytes, arrival_at: float) -> Iterator[Line]:
        """Yield each line with an anchor, read; for those who want more than signals."""
        block = self._complete(data)
        for raw, readings in self._anchored(block):
            line = self._read(raw, readings, arrival_at)
            if line is not None:
                yield line

    def flush(self) -> list[Signal]:
        """Return what waits at the end of the stream; a last line without its newline counts."""
        last = self.feed(b"\n", self.last_at or 0.0) if self._carry else []
        return last + self.interpreter.flush()

    def horizon(self) -> float | None:
        """Return the time before which no signal can come any more; None before any line."""
        held = self.interpreter.horizon()
        return self.last_at if held is None else held

    def state(self) -> dict[str, Any]:
        """Return what a restart needs to go on behind the last complete line."""
        return {
            "family": self.family,
            "enabled": sorted(self.enabled),
            "last_at": self.last_at,
            "dated_at": self._dated_at,
            "skipping": self._skipping,
            "interpreter": self.interpreter.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a `state` again."""
        self.family, self.last_at = state["family"], state["last_at"]
        self._dated_at = state["dated_at"]
        self.enabled, self._skipping = set(state["enabled"]), state["skipping"]
        self.interpreter.restore(state["interpreter"])

    def _complete(self, data: bytes) -> bytes:
        """Return the complete lines; keep the partial last one, within its limit."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(data)
            return b""
        if self._skipping:
            start, self._skipping = data.find(b"\n") + 1, False
            block = data[start:end]
        else:
            block = self._carry + data[:end] if self._carry else data[:end]
        self._carry = b""
        self._keep(data[end:])
        return block

    def _keep(self, data: bytes) -> None:
        if self._skipping:
            return
        self._carry += data
        if len(self._carry) > LINE_LIMIT:
            self._carry, self._skipping = b"", True
            self.counts.long += 1

    def _anchored(self, block: bytes) -> Iterator[tuple[bytes, list[Reading]]]:
        """Yield the lines that an anchor or a line in pieces before them points at."""
        start, places = 0, self._search(block, 0)
        while places or self.unwrapper.pending:
            first = min(places.values(), default=-1)
            line_start = start if self.unwrapper.pending else block.rfind(b"\n", 0, first) + 1
            if line_start >= len(block):
                return
            end = block.find(b"\n", line_start)
            found = [i for i, at in places.items() if at < end]
            before = (self.family, len(self.enabled))
            yield block[line_start:end], [self._readings[i] for i in found]
            start = end + 1
            if before == (self.family, len(self.enabled)):
                places = self._go_on(block, places, found, start)
            else:  # the line has told what else to search for
                places = self._search(block, start)

    def _search(self, block: bytes, start: int) -> dict[int, int]:
        """Return where each reading's anchor comes next."""
        searched = {i: -1 for i, reading in enumerate(self._readings) if self._is_searched(reading)}
        return self._go_on(block, searched, list(searched), start)

    def _go_on(
        self, block: bytes, places: dict[int, int], found: list[int], start: int
    ) -> dict[int, int]:
        for i in found:
            at = block.find(self._anchors[i], start)
            if at < 0:
                del places[i]
            else:
                places[i] = at
        return places

    def _is_searched(self, reading: Reading) -> bool:
        ours = self.family in {None, reading.family}
        return ours and (reading.anchor_after is None or reading.anchor_after in self.enabled)

    def _read(self, raw: bytes, readings: list[Reading], arrival_at: float) -> Line | None:
        entry = self.unwrapper.unwrap(raw, arrival_at)
        if entry is None:
            return None
        self.counts.lines += 1
        event = next((e for r in readings or self._readings if (e := r.read(entry.text))), None)
        if event is None:
            self.counts.unread += 1
            return Line(text=entry.text, at=self.last_at or arrival_at, event=None)
        stamp = self.stamper.find(entry.text, arrival_at)
        at = self._date(entry.at if stamp is None else stamp, arrival_at)
        self._bind(event)
        return Line(text=entry.text, at=at, event=event)

    def _date(self, stamp: float | None, arrival_at: float) -> float:
        """Return the time of a line; within a stream it never runs back."""
        if stamp is not None and stamp > arrival_at + _CLOCK_AHEAD_S:
            self.counts.ahead += 1
            stamp = None
        if stamp is None:  # a continuation of a dated entry, or a log without times
            self.counts.undated += 1
            stamp = arrival_at if self._dated_at is None else self._dated_at
        else:
            self._dated_at = stamp
        if self.last_at is not None and stamp < self.last_at:
            self.counts.ran_back += 1
            return self.last_at
        self.last_at = stamp
        return stamp

    def _bind(self, event: Event) -> None:
        """Remember what the line says of the stream: its family, and whose names it shows."""
        reading = next(r for r in self._readings if event.rule in r.rules)
        self.family = reading.family
        client_id = event.captures.get("client_id", "")
        for other in self._readings:
            if other.anchor_after is not None and other.anchor_after in client_id:
                self.enabled.add(other.anchor_after)
