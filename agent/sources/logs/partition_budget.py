"""Memory for the partitions that all clients of one source read.

A client's lines show its partitions, however many they name: without a bound a log of 128 MiB took
850 MiB. A stream that sleeps keeps its part, as its text is still in memory.
"""

from dataclasses import dataclass, field

NAMED_MAX = 5_000
"""Partitions of one client by name: more than one has as a rule, as on the wire."""
_LIMIT_CHARS = 8 << 20
"""Some 30 MB for names of 30 characters: a quarter of a million."""


@dataclass(slots=True)
class PartitionBudget:
    """Characters of all partitions, by stream."""

    limit_chars: int = _LIMIT_CHARS
    forgotten: int = 0
    """Times that a client's partitions were forgotten, as there were too many."""
    _chars: dict[str, int] = field(default_factory=dict)
    _total: int = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether all together are above the limit."""
        return self._total > self.limit_chars

    def note(self, stream: str, chars: int) -> None:
        """Note how much a stream has now."""
        self._total += chars - self._chars.pop(stream, 0)
        if chars:
            self._chars[stream] = chars
