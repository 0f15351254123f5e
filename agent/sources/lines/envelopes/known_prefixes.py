"""Prefixes that a file has shown, found again before lines that show none by themselves.

Theory of operation. Some prefixes are recognised only by the time behind them, as `[name]` of
concurrently: a level, a thread or a logger may stand there as well. A message of several lines has
a time in its first line alone. A prefix is therefore remembered, without its time, and recognised
before the lines below. At most `_KNOWN_MAX` are remembered; the oldest is evicted first.
"""

import re
from typing import Any

from agent.sources.lines.envelopes.collector_prefix import CollectorPrefix, match_prefix

_KNOWN_MAX = 256
_CHARS_MAX = 512
"""Of one prefix; a longer one is not remembered."""
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?(?=[\s,;|])"
    r"|\d{10}(?:\d{3}){0,3}(?:\.\d{1,9})?(?=[\t,;|])",
    re.ASCII,
)


class KnownPrefixes:
    """The prefixes of one file, by their text behind the time."""

    def __init__(self) -> None:
        """Remember no prefix."""
        self._known: dict[str, CollectorPrefix] = {}
        self._sizes: set[int] = set()

    def __bool__(self) -> bool:
        """Return whether any prefix was recognised."""
        return bool(self._known)

    def match(self, text: str) -> CollectorPrefix | None:
        """Return the prefix at the start of a line, if any, and remember it."""
        found, known = match_prefix(text), self.recall(text) if self._known else None
        if found is None:
            return known
        if known is not None and (not found.origin or found.origin.startswith(f"{known.origin}/")):
            return known  # the first word of a line without a time is no container's name
        self._remember(text, found)
        return found

    def recall(self, text: str) -> CollectorPrefix | None:
        """Return the prefix at the start of a line, if another line has shown it."""
        time = _TIME.match(text)
        begin = 0 if time is None else time.end()
        for size in self._sizes:
            known = self._known.get(text[begin : begin + size])
            if known is not None and bool(known.time) is (time is not None):
                time_text = "" if time is None else time[0]
                return known._replace(time=time_text, end=begin + size)
        return None

    def state(self) -> list[list[Any]]:
        """Return the prefixes for a checkpoint, in types that JSON can carry."""
        return [[text, *known] for text, known in self._known.items()]

    def restore(self, state: list[list[Any]]) -> None:
        """Restore a `state`."""
        self._known.update({text: CollectorPrefix(*known) for text, *known in state})
        self._sizes = set(map(len, self._known))

    def _remember(self, text: str, found: CollectorPrefix) -> None:
        begin = len(found.time)
        if not found.origin or found.stop is not None or found.end - begin > _CHARS_MAX:
            return
        if not text.startswith(found.time):  # it stands within the prefix
            return
        name = text[begin : found.end]
        if name in self._known:
            return
        if len(self._known) >= _KNOWN_MAX:
            del self._known[next(iter(self._known))]
            self._sizes = set(map(len, self._known))
        self._known[name] = found
        self._sizes.add(len(name))
