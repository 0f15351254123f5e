"""Matching of lines with the rules of several dialects.

Theory of operation. Dialects of one family read the same stream together, because an application
may mix versions, and a text that two versions share means the same. A line is read in three steps:
a literal *anchor* finds it in a block of bytes, the *prefix* identifies the client, and the first
*rule* with a matching text gives the event. The function is pure: (rules, text) -> event or None.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property

from agent.sources.lines.dialects.dialect import USERS, Dialect, LogEvent, Rule
from agent.sources.lines.dialects.rule_matcher import (
    RuleMatcher,
    any_of,
    literal_of,
    without_captures,
)

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
    """Rules for messages after one prefix; the prefix identifies a client."""

    prefix: re.Pattern[str]
    rules: tuple[Rule, ...]
    named_by: tuple[re.Pattern[str], ...] = ()
    _clients: dict[str, dict[str, str]] = field(init=False, default_factory=dict)
    """Captures of prefixes: a client prints the same one in all its lines."""

    def read(self, entry: str, start: int, end: int, *, is_end: bool) -> LogEvent | None:
        """Return the event between ``start`` and ``end``, or None if no rule matches.

        ``is_end``: the message ends there; otherwise a layout may have appended more.
        """
        behind = entry.find("] ", start, end) + 2
        captures = self.find_known(entry, start, behind)
        if captures is not None:
            event = self.read_behind(entry, behind, end, captures, is_end=is_end)
            if event is not None:
                return event
        rules = self._exact if is_end else self._open
        return self._read_uncached(rules, entry, start, behind, end)

    def find_known(self, entry: str, start: int, behind: int) -> Mapping[str, str] | None:
        """Return the captures of a prefix that was read before."""
        return self._clients.get(entry[max(0, start - _LOOK_BACK) : behind])

    def read_behind(
        self, entry: str, behind: int, end: int, client: Mapping[str, str], *, is_end: bool
    ) -> LogEvent | None:
        """Return the event of the message between ``behind`` and ``end``, if a rule matches."""
        texts = (self._exact if is_end else self._open).expression_at(entry, behind)
        match = texts.match(entry, behind, end)
        return None if match is None else texts.event(match, client)

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


@dataclass(frozen=True, kw_only=True, eq=False)
class DialectMatcher:
    """Dialects that share their anchors: found in one pass."""

    family: str
    anchors: tuple[str, ...]
    anchor_after: str | None
    suffix: re.Pattern[str] | None
    prefixes: tuple[ClientPrefix, ...]
    hosts: tuple[str, ...] = ()
    guests: str | None = None
    found_by: tuple[str, ...] | None = None
    own_marks: tuple[str, ...] | None = None
    _cache: dict[str, LogEvent] = field(init=False, default_factory=dict)
    """Events of equal texts: a client repeats most of its lines."""

    @cached_property
    def literals(self) -> tuple[bytes, ...]:
        """Return literals; each line of the dialect holds one. Empty: it has no own lines."""
        texts = self.anchors if self.found_by is None else self.found_by
        return tuple(text.encode() for text in texts)

    @cached_property
    def marks(self) -> tuple[bytes, ...]:
        """Return the literals for a search of all clients at once."""
        if self.own_marks is None:
            return self.literals
        return tuple(text.encode() for text in self.own_marks)

    @cached_property
    def finders(self) -> tuple[re.Pattern[bytes], ...]:
        """Return the expressions that find candidate lines in a block.

        `re` is fast if an expression begins with a literal, so a prefix should begin with its
        anchor; otherwise the bare literals are searched, and every line with one is read.
        """
        head = self.head
        if not head:
            return tuple(re.compile(re.escape(literal)) for literal in self.literals)
        heads = (
            without_captures(prefix.prefix.pattern.removeprefix(head)) + any_of(prefix.rules)
            for prefix in self.prefixes
        )
        return (re.compile(f"{head}(?:{'|'.join(heads)})".encode()),)

    @cached_property
    def loose_finders(self) -> tuple[re.Pattern[bytes], ...]:
        """Return expressions for a layout that writes a message's arguments in other fields."""
        return tuple(re.compile(re.escape(literal)) for literal in self.literals)

    @cached_property
    def search(self) -> Callable[[bytes, int, int], re.Match[bytes] | None] | None:
        """Return the search for prefix and rule; None if they do not begin with a literal."""
        return self.finders[0].search if self.head else None

    @property
    def is_structured(self) -> bool:
        """Whether its texts hold fields: a layout may write these separately from the message."""
        return bool(self.found_by)

    def is_enabled(self, enabled: AbstractSet[str]) -> bool:
        """Return whether the stream has shown the begin that its lines wait for."""
        return self.anchor_after is None or self.anchor_after in enabled

    def is_found_in(self, block: bytes, start: int, end: int) -> bool:
        """Return whether a line of a block holds one of the literals."""
        return any(block.find(literal, start, end) >= 0 for literal in self.literals)

    def is_named_in(self, entry: str) -> bool:
        """Return whether an entry names a client of these dialects: it is no other client's."""
        return bool(self.head) and any(p.prefix.search(entry) for p in self.prefixes)

    @cached_property
    def _suffix(self) -> re.Pattern[str] | None:
        """Return the expression of the end to cut off: the class that logs, and a thread."""
        suffix = self.suffix
        return None if suffix is None else re.compile(suffix.pattern + _THREAD)

    @cached_property
    def _bracketed(self) -> re.Pattern[str]:
        """Return the expression of a class in square brackets, as Debezium's layout has it."""
        pattern = "" if self.suffix is None else self.suffix.pattern
        name = pattern.removeprefix(r" \(").removesuffix(r"\)")
        name = name.replace(r"org\.apache\.kafka", r"(?:org\.apache\.kafka|o\.a\.k(?:afka)?)")
        return re.compile(rf"\s{{1,8}}\[{name}\]{_THREAD}")

    @cached_property
    def _suffix_head(self) -> str:
        """Return the literal at the begin of the suffix."""
        return "" if self.suffix is None else literal_of(self.suffix.pattern).replace("\\", "")

    @cached_property
    def head(self) -> str:
        """Return the anchor if every prefix begins with it, otherwise an empty text.

        A dialect that reads only lines after those of other dialects has no search of its own.
        """
        if not self.literals:
            return ""
        head = self.anchors[0].replace("[", r"\[")
        return head if all(p.prefix.pattern.startswith(head) for p in self.prefixes) else ""

    @cached_property
    def is_cacheable(self) -> bool:
        """Whether the text from the anchor on decides the event."""
        return bool(self.head) and not any(prefix.named_by for prefix in self.prefixes)

    def read(self, entry: str) -> LogEvent | None:
        """Return the event of an entry, or None if no rule matches."""
        if not self.is_cacheable:
            start = min((at for at in map(entry.find, self.anchors) if at >= 0), default=-1)
            return None if start < 0 else self._read(entry, start)
        start = entry.find(self.anchors[0])
        if start < 0:
            return None
        words = entry[max(0, start - _LOOK_BACK) :]
        event = self._cache.get(words)
        if event is None:
            event = self._read(entry, start)
            if event is not None and not event.rule.varies and len(words) <= _CACHE_CHARS:
                if len(self._cache) >= _CACHE_TEXTS:
                    self._cache.clear()
                self._cache[words] = event
        return event

    def find_client(self, entry: str) -> tuple[int, int, Mapping[str, str]] | None:
        """Return the begin and end of the prefix of an entry that was read, and its captures."""
        start = entry.find(self.anchors[0])
        behind = entry.find("] ", start) + 2
        names = self.prefixes[0].find_known(entry, start, behind)
        return None if names is None else (start, behind, names)

    def read_behind(
        self, entry: str, start: int, behind: int, client: Mapping[str, str]
    ) -> LogEvent | None:
        """Return the event of an entry that begins as one of a client, up to ``behind``."""
        suffix = -1 if self._suffix is None else self._find_suffix(self._suffix, entry, start)
        end = suffix if suffix >= 0 else len(entry)
        return self.prefixes[0].read_behind(entry, behind, end, client, is_end=suffix >= 0)

    def _find_suffix(self, suffix: re.Pattern[str], entry: str, start: int) -> int:
        """Return the place of the suffix: it is the last of its kind as a rule, else the first."""
        last = entry.rfind(self._suffix_head, start)
        if last < 0:
            bracketed = self._bracketed.search(entry, start) if entry.endswith("]") else None
            return -1 if bracketed is None else bracketed.start()
        if suffix.match(entry, last) is not None:
            return last
        found = suffix.search(entry, start)
        return -1 if found is None else found.start()

    def _read(self, entry: str, start: int) -> LogEvent | None:
        start = start if self.head else 0
        suffix = -1 if self._suffix is None else self._find_suffix(self._suffix, entry, start)
        ends = [suffix] if suffix >= 0 else [len(entry)]
        if suffix >= 0 and "\n" in entry[start:suffix]:  # the end of a list below the message
            ends.append(len(entry))
        reads = (
            prefix.read(entry, start, end, is_end=end == suffix)
            for end in ends
            for prefix in self.prefixes
        )
        return next((event for event in reads if event is not None), None)


@dataclass(frozen=True, kw_only=True)
class Dialects:
    """The dialects that a source reads."""

    all: tuple[Dialect, ...] = field(default=())

    @cached_property
    def matchers(self) -> tuple[DialectMatcher, ...]:
        """Return a matcher for each set of dialects that share their anchors.

        Dialects that name the client in a prefix come first: their lines are the least ambiguous.
        """
        by_anchor: dict[str, list[Dialect]] = {}
        for dialect in self.all:
            for anchor in dialect.anchors:
                by_anchor.setdefault(anchor, []).append(dialect)
        groups: dict[tuple[int, ...], list[str]] = {}
        for anchor, group in by_anchor.items():
            groups.setdefault(tuple(map(id, group)), []).append(anchor)
        found = [_matcher(by_anchor[anchors[0]], anchors) for anchors in groups.values()]
        return tuple(sorted(found, key=lambda matcher: not matcher.head))


def _matcher(group: Sequence[Dialect], anchors: Sequence[str]) -> DialectMatcher:
    first = group[0]
    return DialectMatcher(
        family=first.family,
        anchors=tuple(anchors),
        anchor_after=first.anchor_after,
        suffix=first.suffix,
        hosts=first.hosts,
        guests=first.guests,
        found_by=first.found_by,
        own_marks=first.marks,
        prefixes=_prefixes(group),
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
    return 2 if rule.text.endswith(": (?P<reason>.*)") else 1
