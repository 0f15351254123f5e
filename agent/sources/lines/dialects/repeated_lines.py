"""Cache of lines that repeat an earlier one, or its begin.

Theory of operation. A client prints most of its lines repeatedly. If a line is equal to a known
line except for its time, it has the known line's event, or none: it is neither decoded nor matched.
A line with a member id or a generation rarely repeats, but its begin does, up to the message. Then
only the message is matched. The cache keeps only plain lines of ASCII, so a hit needs no
unwrapping. All streams of a source share the cache, so a hit needs the same layout of time and the
same matchers.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from agent.sources.lines.dialects.dialect import LogEvent
from agent.sources.lines.dialects.dialect_matcher import DialectMatcher
from agent.sources.lines.envelopes.collector_prefix import is_bare
from agent.sources.lines.times.timestamps import SECONDS, TimestampReader

_MAX_TEXTS, _MAX_BYTES = 1_000, 512
"""Texts in the cache, and their longest length: half a megabyte at most."""
_MAX_LAYOUTS = 100
_MAX_LINE_BYTES = 4_096

Read = tuple[DialectMatcher, LogEvent]
"""The matcher that reads a line, and its event."""

Layout = tuple[str, str | None]
"""Shape of a line up to its seconds, and its zone."""

Matchers = tuple[DialectMatcher, ...]


FoundAgain = tuple[int, float, Read | None]
"""A line that repeats an earlier one or its begin: its end, its time, its matcher and event; None:
no expression finds it."""


class _KnownHead(NamedTuple):
    """A line up to its message: its bytes, its client, and places in it."""

    text: bytes
    matcher: DialectMatcher
    client: Mapping[str, str]
    start: int
    behind: int


class _Lines:
    """Known lines of one layout that certain matchers may read, by their bytes."""

    def __init__(self) -> None:
        self.texts: dict[bytes, Read | None] = {}
        self.heads: dict[bytes, _KnownHead] = {}


class SharedLines:
    """Known lines of all streams of a source, by the bytes after their seconds."""

    def __init__(self) -> None:
        self._by_layout: dict[tuple[Layout, Matchers], _Lines] = {}
        self._once: set[int] = set()
        """Hashes of texts that were seen once: most texts of thousands of quiet streams."""
        self._count = 0

    def choose(self, layout: Layout, matchers: Matchers) -> _Lines:
        """Return the lines of one layout that certain matchers may read."""
        lines = self._by_layout.get((layout, matchers))
        if lines is None:
            if len(self._by_layout) >= _MAX_LAYOUTS:
                self._by_layout.clear()
            lines = self._by_layout[layout, matchers] = _Lines()
        return lines

    def keep(self, lines: _Lines, text: bytes, read: Read | None) -> None:
        """Keep a text, among those that were chosen, when it is seen for the second time."""
        if len(text) > _MAX_BYTES:
            return
        if hash(text) not in self._once:
            if len(self._once) >= _MAX_TEXTS:
                self._once.clear()
            self._once.add(hash(text))
            return
        self._make_room()
        lines.texts[text] = read

    def keep_head(self, lines: _Lines, head: _KnownHead) -> None:
        """Keep a line up to its message."""
        if len(head.text) <= _MAX_BYTES:
            self._make_room()
            lines.heads[head.text] = head

    def _make_room(self) -> None:
        self._count += 1
        if self._count > _MAX_TEXTS:
            for lines in self._by_layout.values():
                lines.texts.clear()
                lines.heads.clear()
            self._count = 1


class RepeatedLines:
    """Lines of one stream that repeat an earlier one, or its begin."""

    __slots__ = ("_begin", "_head", "_lines", "_matchers", "_shared", "_stamper")

    def __init__(self, shared: SharedLines, stamper: TimestampReader) -> None:
        """``stamper`` has dated the last line."""
        self._shared, self._stamper = shared, stamper
        self._matchers: Matchers = ()
        self._begin: bytes | None = None
        self._lines = shared.choose(stamper.layout, ())
        self._head: _KnownHead | None = None
        """Of the last line that was read by its begin."""

    def choose(self, matchers: Matchers) -> None:
        """Find the lines that these matchers may read from now on."""
        self._matchers, self._begin, self._head = matchers, None, None

    def find(self, block: bytes, start: int) -> FoundAgain | None:
        """Return the event of the line at ``start`` from an equal earlier line; None: read it."""
        seconds = self._match_seconds(block, start)
        if seconds is None:
            return None
        behind = seconds.end()
        end = block.find(b"\n", behind)
        texts, text = self._lines.texts, block[behind:end]
        if text in texts:
            read = texts[text]
            return end, 0.0 if read is None else self._stamper.date_again(seconds[0]), read
        head = self._head
        if head is None or not text.startswith(head.text):
            return None
        return self._read_message(head, text, end, seconds)

    def find_by_head(self, block: bytes, start: int, end: int, at: int) -> FoundAgain | None:
        """Read a line that begins as a known one; ``at`` is a place in its client's name."""
        seconds = self._match_seconds(block, start)
        if seconds is None:
            return None
        behind = seconds.end()
        head = self._lines.heads.get(block[behind : block.find(b"] ", at, end) + 2])
        if head is None or head is self._head:  # `find` has tried that
            return None
        self._head = head
        return self._read_message(head, block[behind:end], end, seconds)

    def _read_message(
        self, head: _KnownHead, text: bytes, end: int, seconds: re.Match[bytes]
    ) -> FoundAgain | None:
        """Read the text after the seconds of a line; it begins with a known head."""
        if len(text) > _MAX_LINE_BYTES or not is_plain(text):
            return None
        event = head.matcher.read_behind(text.decode(), head.start, head.behind, head.client)
        if event is None:
            return None
        read = head.matcher, event
        if not event.rule.varies:
            self._shared.keep(self._lines, text, read)
        return end, self._stamper.date_again(seconds[0]), read

    def note_unread(self, block: bytes, start: int, end: int) -> None:
        """Keep that no expression finds a line."""
        seconds = self._match_seconds(block, start)
        if seconds is not None:
            self._shared.keep(self._lines, block[seconds.end() : end], None)

    def keep(self, raw: bytes, at: float, read: Read) -> None:
        """Keep the event of a line that was just dated, or its begin, if it has no envelope."""
        reader, event = read
        if not reader.is_cacheable or not is_plain(raw) or not is_bare(raw.decode()):
            return
        seconds = self._match_seconds(raw, 0)
        if seconds is None or self._stamper.date_again(seconds[0]) != at:
            return
        base = seconds.end()
        if not event.rule.varies:
            self._shared.keep(self._lines, raw[base:], read)
        elif reader is self._matchers[0] and reader.anchors[0].encode() not in raw[:base]:
            self._keep_head(raw[base:].decode(), reader)  # no other matcher comes before it

    def _keep_head(self, text: str, reader: DialectMatcher) -> None:
        found = reader.find_client(text)
        if found is not None:
            start, behind, client = found
            head = _KnownHead(text[:behind].encode(), reader, client, start, behind)
            self._shared.keep_head(self._lines, head)

    def _match_seconds(self, block: bytes, start: int) -> re.Match[bytes] | None:
        """Match the seconds of a line that begins as the last one, up to the minute."""
        begin = self._stamper.begin
        if not begin or not block.startswith(begin, start):
            return None
        if begin is not self._begin:
            self._begin = begin
            self._lines = self._shared.choose(self._stamper.layout, self._matchers)
        return SECONDS.match(block, start + len(begin))


def is_plain(raw: bytes) -> bool:
    """Return whether the text of a line is its bytes."""
    return raw.isascii() and b"\x1b" not in raw and not raw.endswith(b"\r")


@lru_cache(maxsize=8)
def share_lines(matchers: Matchers) -> SharedLines:
    """Return the cache of all streams that these matchers read."""
    del matchers  # the key
    return SharedLines()
