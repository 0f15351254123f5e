"""End of a recorded log: its last timestamp."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agent.sources.lines.parsing.line_parser import LineParser

_TAIL_BYTES, _HEAD_BYTES = 64 << 10, 16 << 10


@dataclass(slots=True)
class LogEnd:
    """Last bytes of a log: its last timestamp shows how far it goes, whatever that line is."""

    tail: bytes = b""
    arrival_at: float = 0.0

    def follow(self, blocks: Iterable[tuple[bytes, float]]) -> Iterator[tuple[bytes, float]]:
        """Yield the blocks of a log, and keep the last bytes."""
        for data, arrival_at in blocks:
            near = data[-_TAIL_BYTES:]
            self.tail = near if len(near) == _TAIL_BYTES else (self.tail + near)[-_TAIL_BYTES:]
            self.arrival_at = arrival_at
            yield data, arrival_at

    def find_time(self, parser: LineParser) -> float | None:
        """Return the last timestamp (Unix seconds); None for a log without any known line."""
        if parser.last_at is None:
            return None
        for line in reversed(self.tail.splitlines()):
            stamp = parser.date(line[:_HEAD_BYTES], self.arrival_at)
            if stamp is not None and stamp <= self.arrival_at:
                return max(stamp, parser.last_at)
        return parser.last_at
