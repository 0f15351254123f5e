"""Cache of lines that repeat an earlier one, apart from their times.

Theory of operation. A client prints most of its lines again and again. A line that begins as the
one before, up to the minute, and continues behind its seconds as a known line does, has the event
of that line: it is neither decoded nor matched. Only plain lines of ASCII are kept, so a hit needs
no unwrapping. All streams of a source share the cache, so a hit must have the same layout of time,
and the same matchers may read it.
"""

from functools import lru_cache
from typing import NamedTuple

from agent.sources.lines.collector_prefix import is_bare
from agent.sources.lines.dialect import LogEvent
from agent.sources.lines.dialect_matcher import DialectMatcher
from agent.sources.lines.timestamps import TimestampReader

_MAX_TEXTS, _MAX_BYTES = 1_000, 512
"""Texts in the cache, and their longest length: half a megabyte at most."""

RepeatedLine = tuple[float, DialectMatcher, LogEvent]
"""The timestamp of a line (Unix seconds), the matcher that reads it, and its event."""


class _KnownLine(NamedTuple):
    """The event of a text, and what it depends on."""

    layout: tuple[str, str | None]
    matchers: tuple[DialectMatcher, ...]
    reader: DialectMatcher
    event: LogEvent


class RepeatedLines:
    """Events by the bytes behind the seconds of a line."""

    def __init__(self) -> None:
        self._lines: dict[bytes, _KnownLine] = {}
        self._once: set[int] = set()
        """Hashes of texts that were seen once: most texts of thousands of quiet streams."""

    def find(
        self,
        raw: bytes,
        stamper: TimestampReader,
        arrival_at: float,
        matchers: tuple[DialectMatcher, ...],
    ) -> RepeatedLine | None:
        """Return what is known of a line; ``matchers`` are all that may read one."""
        dated = stamper.find_again(raw, arrival_at)
        known = None if dated is None else self._lines.get(raw[dated[1] :])
        if dated is None or known is None:
            return None
        layout, former, reader, event = known
        if former != matchers or layout != stamper.layout:
            return None
        return dated[0], reader, event

    def keep(
        self,
        raw: bytes,
        line: RepeatedLine,
        stamper: TimestampReader,
        arrival_at: float,
        matchers: tuple[DialectMatcher, ...],
    ) -> None:
        """Keep the event of a line that ``stamper`` has just dated, if it has no envelope.

        A text is kept when it is seen for the second time.
        """
        at, reader, event = line
        if not raw.isascii() or b"\x1b" in raw or b"\r" in raw or not is_bare(raw.decode()):
            return
        dated = stamper.find_again(raw, arrival_at)
        if dated is None or dated[0] != at or len(raw) - dated[1] > _MAX_BYTES:
            return
        text = raw[dated[1] :]
        if hash(text) not in self._once:
            if len(self._once) >= _MAX_TEXTS:
                self._once.clear()
            self._once.add(hash(text))
            return
        if len(self._lines) >= _MAX_TEXTS:
            self._lines.clear()
        self._lines[text] = _KnownLine(stamper.layout, matchers, reader, event)


@lru_cache(maxsize=8)
def share_lines(matchers: tuple[DialectMatcher, ...]) -> RepeatedLines:
    """Return the cache of all streams that these matchers read."""
    del matchers  # the key
    return RepeatedLines()
