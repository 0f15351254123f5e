"""What reads a line: the rules of some dialects, and the expressions that they make.

Theory of operation. Dialects of one family read the same stream together, because an application
may mix versions and a text that two versions share means the same. A line is read in three steps: a
literal *anchor* finds it in a block of bytes, the *prefix* tells who speaks, and the first *rule*
whose text matches behind the prefix tells what. That is pure: (rules, text) -> `Event` or None.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os.path import commonprefix

from agent.sources.rule import USERS, Dialect, Event, Rule

_LITERAL = re.compile(r"(?:[^\\.^$*+?{}\[\]|()]|\\[^\w\s\\])*(?![*+?{])")
_CHOICE = re.compile(r"\(\?:([\w |]+)\)(?![*+?{])")
_CAPTURE = re.compile(r"\(\?P<(\w+)>")

_CLIENTS = 1_000
"""Prefixes remembered per voice; one that is forgotten is only read again."""

_TOLD, _TOLD_CHARS = 1_000, 512
"""Texts remembered per reading, and how long one may be: half a megabyte at most."""

_HEAD_CHARS = 6
"""Of a rule's text, to tell which rules can read a line at all."""

_LOOK_BACK = 1
"""Characters before its start that a prefix may look at: what tells ``[Consumer`` from
``[ShareConsumer``."""


@dataclass(frozen=True, kw_only=True)
class Voice:
    """Rules behind one prefix."""

    prefix: re.Pattern[str]
    rules: tuple[Rule, ...]
    _clients: dict[str, dict[str, str]] = field(init=False, default_factory=dict)
    """What prefixes told: a client's own is the same in all its lines."""

    def read(self, entry: str, start: int, end: int) -> Event | None:
        """Return what an entry says from ``start`` to ``end``, or None where no rule knows it."""
        behind = entry.find("] ", start, end) + 2
        who = self._clients.get(entry[max(0, start - _LOOK_BACK) : behind])
        if who is not None:
            texts = self._texts(entry, behind)
            match = texts.match(entry, behind, end)
            if match is not None:
                return texts.event(match, who)
        return self._read_afresh(entry, start, behind, end)

    def _read_afresh(self, entry: str, start: int, behind: int, end: int) -> Event | None:
        for prefix in self.prefix.finditer(entry, start, end):
            texts = self._texts(entry, prefix.end())
            match = texts.match(entry, prefix.end(), end)
            if match is None:
                continue
            who = {name: text for name, text in prefix.groupdict().items() if text}
            if (prefix.start(), prefix.end()) == (start, behind):
                if len(self._clients) >= _CLIENTS:
                    self._clients.clear()
                self._clients[entry[max(0, start - _LOOK_BACK) : behind]] = who
            return texts.event(match, who)
        return None

    def _texts(self, entry: str, behind: int) -> "_Texts":
        """Return the rules that a text can match which begins as the entry does there."""
        return self._by_head.get(entry[behind : behind + _HEAD_CHARS]) or self._others

    @cached_property
    def _by_head(self) -> "dict[str, _Texts]":
        """The rules by a text's first characters: most lines are tried against a few of them."""
        heads = {rule: _heads_of(rule.text.pattern) for rule in self.rules}
        return {
            head: _Texts([rule for rule in self.rules if not heads[rule] or head in heads[rule]])
            for head in set().union(*heads.values())
        }

    @cached_property
    def _others(self) -> "_Texts":
        return _Texts([rule for rule in self.rules if not _heads_of(rule.text.pattern)])


class _Texts:
    """Some rules as one expression, and where it keeps each one's captures.

    A rule's mark stands at its end: `re` passes quickly over a branch that begins with a literal
    and slowly over one that begins with a group.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        texts = (
            f"{_CAPTURE.sub(rf'(?P<r{i}_{chr(92)}1>', rule.text.pattern)}(?P<r{i}>)"
            for i, rule in enumerate(rules)
        )
        one = re.compile("|".join(texts) or "(?!)")
        self.match = one.match
        groups = one.groupindex
        self._by_mark = {
            groups[f"r{i}"]: (rule, [(n, groups[f"r{i}_{n}"]) for n in rule.text.groupindex])
            for i, rule in enumerate(rules)
        }

    def event(self, match: re.Match[str], who: dict[str, str]) -> Event | None:
        """Return what a match says, beside what the prefix told; None where that cannot be."""
        rule, places = self._by_mark[match.lastindex or 0]
        captures = who.copy() if places else who
        for name, place in places:
            text = match[place]
            if text:
                captures[name] = text
        if rule.numbers and not rule.fits(captures):
            return None
        return Event(rule=rule, captures=captures)


def _heads_of(pattern: str) -> set[str]:
    """Return how a text begins, in literal characters; nothing where that varies."""
    text = _CAPTURE.sub("", pattern, count=1) if _CAPTURE.match(pattern) else pattern
    choice = _CHOICE.match(text)
    texts = [text]
    if choice is not None:
        texts = [word + text[choice.end() :] for word in choice[1].split("|")]
        pattern = pattern.replace(choice[0], "", 1)
    heads = {_literal_of(text).replace("\\", "")[:_HEAD_CHARS] for text in texts}
    varies = any(len(head) < _HEAD_CHARS for head in heads) or _branches(pattern)
    return set() if varies else heads


def _any_of(patterns: Sequence[str]) -> str:
    """Return an expression for any of them; what several begin with is looked for once."""
    alike: dict[str, list[str]] = {}
    for pattern in patterns:
        alike.setdefault(_literal_of(pattern)[:_HEAD_CHARS].rstrip("\\"), []).append(pattern)
    texts = []
    for some in alike.values():
        begins = [_literal_of(pattern) for pattern in some]
        begin = commonprefix(begins).rstrip("\\")  # noqa: RUF071 - by characters is meant
        texts.append(f"{begin}(?:{'|'.join(pattern[len(begin) :] for pattern in some)})")
    return f"(?:{'|'.join(texts)})"


def _literal_of(pattern: str) -> str:
    """Return the part of a pattern that is literal and stands at the start of all its texts."""
    found = None if _branches(pattern) else _LITERAL.match(pattern)
    return "" if found is None else found[0]


def _branches(pattern: str) -> bool:
    """Tell whether a pattern has alternatives from its very start on."""
    bare = re.sub(r"\\.|\[\^?.[^\]]*\]", "", pattern)
    depth, outermost = 0, int(pattern.startswith("("))
    for character in bare:
        depth += (character == "(") - (character == ")")
        if character == "|" and depth <= outermost:
            return True
    return False


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Dialects that share one anchor: found in one pass."""

    family: str
    anchor: str
    anchor_after: str | None
    suffix: re.Pattern[str] | None
    voices: tuple[Voice, ...]
    hosts: tuple[str, ...] = ()
    guests: str | None = None
    _told: dict[str, Event] = field(init=False, default_factory=dict)
    """What was said before: a client says most things again and again, word by word."""

    @cached_property
    def finder(self) -> re.Pattern[bytes]:
        """What blocks are searched for: a line that begins to look as if a rule would read it.

        `re` is fast where an expression begins with a literal, so a prefix should begin with its
        anchor; else the bare anchor is searched, and every line with it is read.
        """
        head = self._head
        if not head:
            return re.compile(re.escape(self.anchor.encode()))
        voices = (
            voice.prefix.pattern.removeprefix(head)
            + _any_of([rule.text.pattern.removesuffix("$") for rule in voice.rules])
            for voice in self.voices
        )
        return re.compile(_CAPTURE.sub("(?:", f"{head}(?:{'|'.join(voices)})").encode())

    @cached_property
    def _head(self) -> str:
        """The anchor as every prefix begins with it, or nothing."""
        head = self.anchor.replace("[", r"\[")
        return head if all(v.prefix.pattern.startswith(head) for v in self.voices) else ""

    def read(self, entry: str) -> Event | None:
        """Return what an entry says, or None where no rule knows it."""
        start = entry.find(self.anchor)
        if start < 0:
            return None
        words = entry[max(0, start - _LOOK_BACK) :]
        event = self._told.get(words)
        if event is None:
            event = self._read(entry, start)
            if event is not None and self._head and len(words) <= _TOLD_CHARS:
                if len(self._told) >= _TOLD:
                    self._told.clear()
                self._told[words] = event
        return event

    def _read(self, entry: str, start: int) -> Event | None:
        end = len(entry)
        if self.suffix is not None and entry.endswith(")"):
            cut = entry.rfind(" (")
            if cut >= 0 and self.suffix.fullmatch(entry, cut):
                end = cut
        for voice in self.voices:
            event = voice.read(entry, start if self._head else 0, end)
            if event is not None:
                return event
        return None


@dataclass(frozen=True, kw_only=True)
class Dialects:
    """All dialects that a source reads."""

    all: tuple[Dialect, ...] = field(default=())

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """The dialects joined by anchor, in the order of their files."""
        groups: dict[str, list[Dialect]] = {}
        for dialect in self.all:
            for anchor in dialect.anchors:
                groups.setdefault(anchor, []).append(dialect)
        return tuple(
            Reading(
                family=group[0].family,
                anchor=anchor,
                anchor_after=group[0].anchor_after,
                suffix=group[0].suffix,
                hosts=group[0].hosts,
                guests=group[0].guests,
                voices=_voices(group),
            )
            for anchor, group in groups.items()
        )


def _voices(dialects: Sequence[Dialect]) -> tuple[Voice, ...]:
    prefixes = {dialect.prefix.pattern: dialect.prefix for dialect in dialects}
    return tuple(
        Voice(
            prefix=prefix,
            rules=_specific_first([d for d in dialects if d.prefix.pattern == pattern]),
        )
        for pattern, prefix in prefixes.items()
    )


def _specific_first(dialects: Sequence[Dialect]) -> tuple[Rule, ...]:
    """Order the rules of several dialects: the user's first, each one's catch-all last."""
    rules = [rule for dialect in dialects for rule in dialect.rules]
    return tuple(sorted(rules, key=_rank))


def _rank(rule: Rule) -> int:
    if rule.dialect == USERS:
        return 0
    return 2 if rule.text.pattern.endswith(": (?P<reason>.*)") else 1
