"""Matching of lines with the rules of several dialects.

Theory of operation. Dialects of one family read the same stream together, because an application
may mix versions, and a text that two versions share means the same. A line is read in three steps:
a literal *anchor* finds it in a block of bytes, the *prefix* identifies the client, and the first
*rule* with a matching text gives the event. The function is pure: (rules, text) -> event or None.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agent.sources.lines.dialect import USERS, Dialect, LogEvent, Rule
from agent.sources.lines.rule_matcher import RuleMatcher, any_of, without_captures

_CLIENTS = 1_000
"""Prefixes in the cache of each `ClientPrefix`."""

_CACHE_TEXTS, _CACHE_CHARS = 1_000, 512
"""Texts in the cache of each matcher, and their longest length: half a megabyte at most."""

_THREAD = r"(?: \[[^\]\n]{0,256}\])?\s{0,256}$"
"""A thread behind the class that logs a message, as in Strimzi's layout."""

_LOOK_BACK = 1
"""Characters before its start that a prefix may test: ``[Consumer`` is not ``[ShareConsumer``."""


@dataclass(frozen=True, kw_only=True)
class ClientPrefix:
    """Rules behind one prefix, which identifies a client."""

    prefix: re.Pattern[str]
    rules: tuple[Rule, ...]
    named_by: tuple[re.Pattern[str], ...] = ()
    _clients: dict[str, dict[str, str]] = field(init=False, default_factory=dict)
    """Captures of prefixes: a client prints the same one in all its lines."""

    def read(self, entry: str, start: int, end: int, *, is_end: bool) -> LogEvent | None:
        """Return the event between ``start`` and ``end``, or None if no rule matches.

        ``is_end``: the message ends there; otherwise a layout may have appended more.
        """
        rules = self._exact if is_end else self._open
        behind = entry.find("] ", start, end) + 2
        captures = self._clients.get(entry[max(0, start - _LOOK_BACK) : behind])
        if captures is not None:
            texts = rules.expression_at(entry, behind)
            match = texts.match(entry, behind, end)
            if match is not None:
                return texts.event(match, captures)
        return self._read_uncached(rules, entry, start, behind, end)

    def _read_uncached(
        self, rules: RuleMatcher, entry: str, start: int, behind: int, end: int
    ) -> LogEvent | None:
        for prefix in self.prefix.finditer(entry, start, end):
            texts = rules.expression_at(entry, prefix.end())
            match = texts.match(entry, prefix.end(), end)
            if match is None:
                continue
            captures = {name: text for name, text in prefix.groupdict().items() if text}
            if self.named_by and "client_id" not in captures:
                captures |= self._find_name(entry, prefix.start())
            elif (prefix.start(), prefix.end()) == (start, behind):
                if len(self._clients) >= _CLIENTS:
                    self._clients.clear()
                self._clients[entry[max(0, start - _LOOK_BACK) : behind]] = captures
            return texts.event(match, captures)
        return None

    def _find_name(self, entry: str, end: int) -> dict[str, str]:
        """Return the client's name before the prefix."""
        for pattern in self.named_by:
            match = pattern.search(entry, 0, end)
            if match is not None:
                return {name: text for name, text in match.groupdict().items() if text}
        return {}

    @cached_property
    def _exact(self) -> RuleMatcher:
        return RuleMatcher(self.rules, is_exact=True)

    @cached_property
    def _open(self) -> RuleMatcher:
        return RuleMatcher(self.rules, is_exact=False)


@dataclass(frozen=True, kw_only=True)
class DialectMatcher:
    """Dialects that share one anchor: found in one pass."""

    family: str
    anchor: str
    anchor_after: str | None
    suffix: re.Pattern[str] | None
    prefixes: tuple[ClientPrefix, ...]
    hosts: tuple[str, ...] = ()
    guests: str | None = None
    found_by: tuple[str, ...] | None = None
    _cache: dict[str, LogEvent] = field(init=False, default_factory=dict)
    """Events of equal texts: a client repeats most of its lines."""

    @cached_property
    def finders(self) -> tuple[re.Pattern[bytes], ...]:
        """Return the expressions that find candidate lines in a block."""
        if self.found_by is None:
            return (self.finder,)
        return tuple(re.compile(re.escape(literal.encode())) for literal in self.found_by)

    @property
    def is_structured(self) -> bool:
        """Whether its texts hold fields, which layouts may write apart."""
        return bool(self.found_by)

    @cached_property
    def finder(self) -> re.Pattern[bytes]:
        """Return the expression that finds lines with the anchor in a block.

        `re` is fast if an expression begins with a literal, so a prefix should begin with its
        anchor; otherwise the bare anchor is searched, and every line with it is read.
        """
        head = self._head
        if not head:
            return re.compile(re.escape(self.anchor.encode()))
        heads = (
            without_captures(prefix.prefix.pattern.removeprefix(head)) + any_of(prefix.rules)
            for prefix in self.prefixes
        )
        return re.compile(f"{head}(?:{'|'.join(heads)})".encode())

    @cached_property
    def _suffix(self) -> re.Pattern[str] | None:
        """Return the expression of the end to cut off: the class that logs, and a thread."""
        suffix = self.suffix
        return None if suffix is None else re.compile(suffix.pattern + _THREAD)

    @cached_property
    def _head(self) -> str:
        """Return the anchor if every prefix begins with it, otherwise an empty text."""
        head = self.anchor.replace("[", r"\[")
        return head if all(p.prefix.pattern.startswith(head) for p in self.prefixes) else ""

    @cached_property
    def _is_cacheable(self) -> bool:
        """Whether the text from the anchor on decides the event."""
        return bool(self._head) and not any(prefix.named_by for prefix in self.prefixes)

    def read(self, entry: str) -> LogEvent | None:
        """Return the event of an entry, or None if no rule matches."""
        start = entry.find(self.anchor)
        if start < 0:
            return None
        words = entry[max(0, start - _LOOK_BACK) :]
        event = self._cache.get(words)
        if event is None:
            event = self._read(entry, start)
            if event is not None and self._is_cacheable and len(words) <= _CACHE_CHARS:
                if len(self._cache) >= _CACHE_TEXTS:
                    self._cache.clear()
                self._cache[words] = event
        return event

    def _read(self, entry: str, start: int) -> LogEvent | None:
        start = start if self._head else 0
        suffix = None if self._suffix is None else self._suffix.search(entry, start)
        end = len(entry) if suffix is None else suffix.start()
        for prefix in self.prefixes:
            event = prefix.read(entry, start, end, is_end=suffix is not None)
            if event is not None:
                return event
        return None


@dataclass(frozen=True, kw_only=True)
class Dialects:
    """The dialects that a source reads."""

    all: tuple[Dialect, ...] = field(default=())

    @cached_property
    def matchers(self) -> tuple[DialectMatcher, ...]:
        """Return a matcher for each anchor, in the order of the dialects."""
        groups: dict[str, list[Dialect]] = {}
        for dialect in self.all:
            for anchor in dialect.anchors:
                groups.setdefault(anchor, []).append(dialect)
        return tuple(
            DialectMatcher(
                family=group[0].family,
                anchor=anchor,
                anchor_after=group[0].anchor_after,
                suffix=group[0].suffix,
                hosts=group[0].hosts,
                guests=group[0].guests,
                found_by=group[0].found_by,
                prefixes=_prefixes(group),
            )
            for anchor, group in groups.items()
        )


def _prefixes(dialects: Sequence[Dialect]) -> tuple[ClientPrefix, ...]:
    prefixes = {dialect.prefix.pattern: dialect.prefix for dialect in dialects}
    return tuple(
        ClientPrefix(
            prefix=prefix,
            rules=_specific_first([d for d in dialects if d.prefix.pattern == pattern]),
            named_by=next(d.named_by for d in dialects if d.prefix.pattern == pattern),
        )
        for pattern, prefix in prefixes.items()
    )


def _specific_first(dialects: Sequence[Dialect]) -> tuple[Rule, ...]:
    """Order the rules of several dialects: the user's first, catch-alls last."""
    rules = [rule for dialect in dialects for rule in dialect.rules]
    return tuple(sorted(rules, key=_rank))


def _rank(rule: Rule) -> int:
    if rule.dialect == USERS:
        return 0
    return 2 if rule.text.pattern.endswith(": (?P<reason>.*)") else 1
