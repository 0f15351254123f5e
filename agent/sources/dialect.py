"""Log dialects: what a client's lines say, as rules in YAML.

Theory of operation. A dialect belongs to one client and version range; dialects of one family read
the same stream together, because an application may mix versions and a text that two versions share
means the same. A line is read in three steps: a literal *anchor* finds it in a block of bytes, the
*prefix* tells who speaks, and the first *rule* whose text matches behind the prefix tells what. A
rule is pure: (rules, text) -> `Event` or None. What an event means is the interpreter's.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from importlib import resources
from typing import Any

import yaml

from agent.errors import DialectError
from metrics.status import BY_LABEL, CONSUMER_MAX, STREAMS_CODES, RebalanceStatus


class Action(StrEnum):
    """What a rule does; the YAML key, or the value of ``does``."""

    RAISE = "raise"
    FOLLOW_UP = "follow_up"
    STREAMS = "streams"
    ANNOUNCE = "announce"
    SYNC = "sync"
    SETTLE = "settle"
    ASSIGNED = "assigned"
    JOIN = "join"
    LEAVE = "leave"
    FAIL = "fail"
    IDENTIFY = "identify"
    IGNORE = "ignore"


_CAPTURE = re.compile(r"\(\?P<(\w+)>")
_WITH_STATUS = (Action.RAISE, Action.FOLLOW_UP, Action.STREAMS, Action.ANNOUNCE)
_GROUP_TYPES = ("classic", "consumer", "share", "streams")
_RULE_KEYS = {"rule", "text", "cites", "does", "ends_round", "joined_only", *_WITH_STATUS}
_DIALECT_KEYS = {
    "dialect", "family", "client", "versions", "source", "group_type", "beside",
    "anchor", "anchor_after", "prefix", "suffix", "rules",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """One text of one client and what it does. ``cites`` names the class that prints it."""

    name: str
    dialect: str
    text: re.Pattern[str]
    action: Action
    status: RebalanceStatus = RebalanceStatus.NONE
    cites: str = ""
    ends_round: bool = False
    """The sync before it demanded no follow-up: the zero comes first."""
    group_type: str = "classic"
    joined_only: bool = False
    """Other clients print the text too: it counts from a member of a new protocol's group only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What one line said: the rule that read it and what the rule captured."""

    rule: Rule
    captures: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One client's words over a range of versions."""

    name: str
    family: str
    client: str
    versions: str
    source: str
    beside: tuple[str, ...]
    """Dialects whose lines the same client prints as well."""
    anchors: tuple[str, ...]
    anchor_after: str | None
    prefix: re.Pattern[str]
    suffix: re.Pattern[str] | None
    rules: tuple[Rule, ...]

    @property
    def codes(self) -> frozenset[RebalanceStatus]:
        """The codes that this dialect's own rules can show."""
        shown = {rule.status for rule in self.rules} - {RebalanceStatus.NONE}
        leaves = any(rule.action is Action.LEAVE for rule in self.rules)
        return frozenset(shown | ({RebalanceStatus.USER_REQUESTED} if leaves else set()))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Dialects that share one anchor and prefix, read as one."""

    family: str
    anchor: str
    anchor_after: str | None
    prefix: re.Pattern[str]
    suffix: re.Pattern[str] | None
    rules: tuple[Rule, ...]

    @cached_property
    def finder(self) -> re.Pattern[bytes]:
        """What blocks are searched for: a line that begins to look as if a rule would read it.

        `re` is fast where an expression begins with a literal, so a prefix should begin with its
        anchor; else the bare anchor is searched, and every line with it is read.
        """
        if not self._anchored:
            return re.compile(re.escape(self.anchor.encode()))
        texts = "|".join(rule.text.pattern.removesuffix("$") for rule in self.rules)
        bare = _CAPTURE.sub("(?:", f"{self.prefix.pattern}(?:{texts})")
        return re.compile(bare.encode())

    @cached_property
    def _anchored(self) -> bool:
        return self.prefix.pattern.replace("\\", "").startswith(self.anchor)

    @cached_property
    def _whole(self) -> tuple[re.Pattern[str], list[tuple[Rule, list[tuple[str, int]]]]]:
        """The prefix and all rules as one expression, and where it keeps each rule's captures."""
        texts = (
            f"(?P<r{i}>{_CAPTURE.sub(rf'(?P<r{i}_{chr(92)}1>', rule.text.pattern)})"
            for i, rule in enumerate(self.rules)
        )
        whole = re.compile(f"{self.prefix.pattern}(?:{'|'.join(texts)})")
        prefix = list(self.prefix.groupindex.items())
        return whole, [
            (rule, prefix + [(n, whole.groupindex[f"r{i}_{n}"]) for n in rule.text.groupindex])
            for i, rule in enumerate(self.rules)
        ]

    def read(self, entry: str) -> Event | None:
        """Return what an entry says, or None where no rule knows it."""
        start = entry.find(self.anchor) if self._anchored else 0
        if start < 0:
            return None
        if self.suffix is not None and entry.endswith(")"):
            entry = self._strip(entry)
        whole, rules = self._whole
        match = whole.match(entry, start) if self._anchored else whole.search(entry)
        if match is None or match.lastgroup is None:
            return None
        rule, places = rules[int(match.lastgroup[1:])]
        captures = {name: match[place] for name, place in places if match[place]}
        return Event(rule=rule, captures=captures)

    def _strip(self, text: str) -> str:
        cut = text.rfind(" (")
        if cut >= 0 and self.suffix is not None and self.suffix.fullmatch(text, cut):
            return text[:cut]
        return text


@dataclass(frozen=True, kw_only=True)
class Dialects:
    """All dialects that a source reads."""

    all: tuple[Dialect, ...] = field(default=())

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """The dialects joined by anchor and prefix, in the order of their files."""
        groups: dict[tuple[str, str], list[Dialect]] = {}
        for dialect in self.all:
            for anchor in dialect.anchors:
                groups.setdefault((anchor, dialect.prefix.pattern), []).append(dialect)
        return tuple(
            Reading(
                family=first.family,
                anchor=anchor,
                anchor_after=first.anchor_after,
                prefix=first.prefix,
                suffix=first.suffix,
                rules=_specific_first(group),
            )
            for (anchor, _), group in groups.items()
            for first in group[:1]
        )


def _specific_first(dialects: Sequence[Dialect]) -> tuple[Rule, ...]:
    """Order the rules of several dialects: each one's catch-all must not hide another's text."""
    rules = [rule for dialect in dialects for rule in dialect.rules]
    return tuple(sorted(rules, key=lambda rule: rule.text.pattern.endswith(": (?P<reason>.*)")))


def built_in() -> tuple[Dialect, ...]:
    """Load every dialect that is shipped, by the names of their files."""
    folder = resources.files("agent.sources") / "dialects"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".yaml")),
        key=lambda file: file.name,
    )
    return tuple(parse(yaml.safe_load(file.read_text("utf-8")), file.name) for file in files)


def choose(names: str | Sequence[str], extra: Iterable[Mapping[str, Any]] = ()) -> Dialects:
    """Return the dialects to read with: ``auto`` (all) or some by name, and rules of the user's.

    A user's rule names the ``dialect`` whose lines it reads (default: the newest Java consumer's)
    and comes before the built-in ones.

    Raises:
        DialectError: an unknown dialect, or a rule that is wrong.

    """
    known = {dialect.name: dialect for dialect in built_in()}
    wanted = list(known) if names == "auto" else [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in known:
            raise DialectError(f"unknown dialect {name!r}; known: auto, {', '.join(known)}")
    for number, rule in enumerate(extra):
        where = f"rules[{number}]"
        host = str(rule.get("dialect", "java-consumer-3.0-4.3"))
        if host not in wanted:
            raise DialectError(f"{where}.dialect: unknown dialect {host!r}; known: {wanted}")
        body = {key: value for key, value in rule.items() if key != "dialect"}
        mine = _rule({"rule": f"user-{number}", **body}, "config", where)
        known[host] = _with_rule(known[host], mine)
    return Dialects(all=tuple(known[name] for name in wanted))


def _with_rule(dialect: Dialect, rule: Rule) -> Dialect:
    fields = {key: getattr(dialect, key) for key in dialect.__dataclass_fields__}
    return Dialect(**fields | {"rules": (rule, *dialect.rules)})


def parse(data: Any, where: str) -> Dialect:
    """Read one dialect as YAML gave it.

    Raises:
        DialectError: a key that is missing or unknown, or an expression that does not compile.

    """
    if not isinstance(data, Mapping):
        raise DialectError(f"{where}: found {type(data).__name__}, wanted a mapping")
    _known_keys(data, _DIALECT_KEYS, where)
    missing = sorted({"dialect", "family", "anchor", "prefix", "rules"} - set(data))
    if missing:
        raise DialectError(f"{where}: missing {', '.join(missing)}")
    name, anchor, suffix = str(data["dialect"]), data["anchor"], data.get("suffix")
    group_type = str(data.get("group_type", "classic"))
    if group_type not in _GROUP_TYPES:
        wanted = ", ".join(_GROUP_TYPES)
        raise DialectError(f"{where}: group_type: found {group_type!r}, wanted one of {wanted}")
    rules = [_rule(r, name, f"{where}: rules[{i}]") for i, r in enumerate(data["rules"])]
    return Dialect(
        name=name,
        family=str(data["family"]),
        client=str(data.get("client", name)),
        versions=str(data.get("versions", "")),
        source=str(data.get("source", "")),
        beside=tuple(data.get("beside", ())),
        anchors=tuple(map(str, anchor if isinstance(anchor, list) else [anchor])),
        anchor_after=data.get("anchor_after"),
        prefix=_compile(data["prefix"], f"{where}: prefix"),
        suffix=None if suffix is None else _compile(suffix, f"{where}: suffix"),
        rules=tuple(replace(rule, group_type=group_type) for rule in rules),
    )


def _rule(data: Any, dialect: str, where: str) -> Rule:
    if not isinstance(data, Mapping):
        raise DialectError(f"{where}: found {data!r}, wanted a mapping with 'text' and an action")
    _known_keys(data, _RULE_KEYS, where)
    if "text" not in data:
        raise DialectError(f"{where}: missing text")
    chosen = [key for key in (*_WITH_STATUS, "does") if key in data]
    if len(chosen) != 1:
        wanted = "one of raise, follow_up, streams, announce, does"
        raise DialectError(f"{where}: found {chosen or 'no action'}, wanted {wanted}")
    action, status = _action(chosen[0], data[chosen[0]], where)
    return Rule(
        name=str(data.get("rule", "rule")),
        dialect=dialect,
        text=_compile(data["text"], f"{where}.text"),
        action=action,
        status=status,
        cites=str(data.get("cites", "")),
        ends_round=bool(data.get("ends_round", False)),
        joined_only=bool(data.get("joined_only", False)),
    )


def _action(key: str, value: Any, where: str) -> tuple[Action, RebalanceStatus]:
    if key == "does":
        plain = [action for action in Action if action not in _WITH_STATUS]
        if value not in plain:
            raise DialectError(f"{where}.does: found {value!r}, wanted one of {', '.join(plain)}")
        return Action(value), RebalanceStatus.NONE
    allowed = STREAMS_CODES if key == "streams" else range(1, CONSUMER_MAX + 1)
    status = BY_LABEL.get(str(value))
    if status is None or status not in allowed:
        names = ", ".join(RebalanceStatus(code).label for code in allowed)
        raise DialectError(f"{where}.{key}: found {value!r}, wanted one of {names}")
    return Action(key), status


def _known_keys(data: Mapping[Any, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(map(str, data)) - known)
    if unknown:
        raise DialectError(
            f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}"
        )


def _compile(text: Any, where: str) -> re.Pattern[str]:
    try:
        return re.compile(str(text))
    except re.error as error:
        raise DialectError(f"{where}: {error} in {text!r}") from error
