"""Loader of log dialects: rules in YAML for the texts of one client and version range.

`dialect_matcher` reads lines with a dialect; an interpreter gives the events their meaning. A file
holds ``dialect``, ``client``, ``versions``, ``source``; ``family`` (dialects that may share a log),
``hosts`` (families that share this one's log) and ``guests`` (prefix of their names: such a name
identifies this family's log); ``anchor`` (a literal, or several, that each of its lines contains),
``found_by`` (literals that find a line in place of the anchor: layouts may write fields apart),
``marks`` (literals; each line holds one of them, for the search of all clients in one pass: the
first four bytes of each are rare in other texts), ``prefix`` (identifies the client; begins with
the anchor), ``named_by`` (expressions of its name before the prefix), ``anonymous`` (lines may
leave out the client's name), ``suffix`` (is cut off); and ``rules``. A rule has a ``text`` that
begins behind the prefix, ``cites`` the class that prints it, and has one effect:

=================== ==============================================================================
``raise: Code``     a cause
``follow_up: Code`` a demand of the last sync on the consumer itself
``streams: Code``   a demand of the last sync on the Streams instance
``announce: Code``  a cause that shows only if the assignment changes soon
``does: sync``      the end of a round, held until ``does: assigned``
``does: settle``    the end of a round, at once
``does: join``      a join was sent
``does: leave``     the member left by the user's will
``does: close``     the client is closed: a dropped member leaves for good
``does: fail``      a fatal error
``does: identify``  its captures alone
``does: manual``    the application assigns the partitions itself: no group, no member
``does: state``     a Streams thread's state: context, no cause
``does: ignore``    nothing; it keeps a later rule from reading the line
=================== ==============================================================================

Captures that count: ``client_id``, ``group``, ``instance_id``, ``member_id``, ``generation``,
``sent_generation`` (of the request behind a response), ``assignor``, ``cluster``, ``state`` (of a
Streams thread), ``assignment`` (all that a Streams member is to take), ``added`` and ``revoked``
(partitions that the member reads from now on, and no more), ``owned`` (all partitions or tasks that
it has from now on; an empty one: none), ``target`` (all that it reads once a line reaches them),
``target_size`` (their number: one line each follows) and ``target_part`` (such a line),
``max_poll_ms`` (the poll interval in force), ``reason``, ``due_ms`` and ``due`` (a scheduled time),
``thread`` (of Streams), ``handle`` (names a client in a line without its id or group) and
``member_name`` (the client id within a member id, if no other is known).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

import yaml

from agent.errors import DialectError
from agent.sources.lines.dialects.backtracking import bound_cost
from agent.sources.lines.dialects.dialect import USERS, Action, Dialect, Rule
from agent.sources.lines.dialects.dialect_matcher import Dialects
from agent.wire.members import kip800_reasons as reasons
from metrics.model.status import BY_LABEL, CONSUMER_MAX, STREAMS_CODES, RebalanceStatus

_NAME_CHARS = 300
"""Longest name within a text: a member id is a client id of at most 255 and a UUID."""
_INNER_CHARS = 1_024
"""Longest other part of a text. Lists have their own bound; the end of a text has none."""
_ANYTHING = re.compile(
    r"\\.|\[\^?(?:\\.|[^\]\\])+(?:\]|$)|"  # an escape or a class, in which a dot is a dot
    r"(?P<name>\(\?P<(?:group|member_id|instance_id|client_id|assignor|due|thread)>)?"
    r"\.(?P<repeat>[+*])(?P<tail>\??[)?$]*$)?"
)
_SHOWN_CHARS = 200
"""Of an expression, in a message."""
_INVALID = (re.error, RecursionError, OverflowError)
"""What `re` raises for an expression: wrong, nested too deep, or with too large a number."""
_WITH_STATUS = (Action.RAISE, Action.FOLLOW_UP, Action.STREAMS, Action.ANNOUNCE)
_GROUP_TYPES = ("classic", "consumer", "share", "streams")
_RULE_KEYS = {
    "rule", "text", "cites", "does", "ends_round", "joined_only", "any_protocol", "anonymous",
    "after", "alone", "reads_next", "reaches_target",
    *_WITH_STATUS,
}  # fmt: skip
_DIALECT_KEYS = {
    "dialect", "family", "client", "versions", "source", "group_type", "beside",
    "anchor", "anchor_after", "anonymous", "found_by", "marks", "named_by", "prefix",
    "suffix", "rules", "hosts", "guests",
}  # fmt: skip


def load_client_dialects() -> tuple[Dialect, ...]:
    """Return every built-in dialect of a client."""
    return _load("logs")


def load_broker_dialects() -> tuple[Dialect, ...]:
    """Return every built-in dialect of a broker's group coordinator."""
    return _load("broker_logs")


@cache
def _load(folder_name: str) -> tuple[Dialect, ...]:
    """Load a folder's dialects once, in the order of their file names."""
    folder = resources.files("agent.sources") / folder_name / "dialects"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".yaml")),
        key=lambda file: file.name.removesuffix(".yaml"),
    )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # of libyaml: a tenth of the time
    return tuple(
        parse_dialect(
            yaml.load(file.read_text("utf-8"), loader),  # noqa: S506
            file.name,
            is_built_in=True,
        )
        for file in files
    )


@cache
def _automatic() -> Dialects:
    """Return all dialects, compiled once for all sources."""
    return Dialects(all=load_client_dialects())


def choose_dialects(
    names: str | Sequence[str], extra: Iterable[Mapping[str, Any]] = ()
) -> Dialects:
    """Return the dialects for ``auto`` (all) or some names, with the user's rules.

    A user's rule has precedence over the built-in ones of its ``dialect`` (default: the newest Java
    consumer's).

    Raises:
        DialectError: an unknown dialect, or an invalid rule.

    """
    extra = list(extra)
    if names == "auto" and not extra:
        return _automatic()
    known = {dialect.name: dialect for dialect in load_client_dialects()}
    wanted = list(known) if names == "auto" else [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in known:
            raise DialectError(f"unknown dialect {name!r}; known: auto, {', '.join(known)}")
    for number, rule in enumerate(extra):
        where = f"rules[{number}]"
        _check_mapping(rule, where)
        host = str(rule.get("dialect", "java-consumer-3.0-4.3"))
        if host not in wanted:
            raise DialectError(f"{where}.dialect: unknown dialect {host!r}; known: {wanted}")
        body = {key: value for key, value in rule.items() if key != "dialect"}
        if "text" in body:
            body["text"] = _bound_cost(str(body["text"]), where)
        mine = _rule({"rule": f"user-{number}", **body}, USERS, known[host].group_type, where)
        _compile(mine.text, f"{where}.text")
        known[host] = replace(known[host], rules=(mine, *known[host].rules))
    return Dialects(all=tuple(known[name] for name in wanted))


def list_codes(dialect: Dialect, known: Iterable[Dialect]) -> frozenset[RebalanceStatus]:
    """Return the codes that a client of this dialect can show, by all its rules."""
    beside = (
        rule
        for other in known
        for rule in other.rules
        if other.name in dialect.beside or f"{other.name}/{rule.name}" in dialect.beside
    )
    shown = frozenset(rule.visible_status for rule in (*dialect.rules, *beside)) - {
        RebalanceStatus.NONE
    }
    if any("client_reason" in rule.captures for rule in dialect.rules):
        return shown | reasons.CODES | {RebalanceStatus.DROPPED_GROUP}
    return shown


def parse_dialect(data: Any, where: str, *, is_built_in: bool = False) -> Dialect:
    """Create a dialect from parsed YAML; a test compiles the texts of the built-in ones.

    Raises:
        DialectError: a key that is missing or unknown, or an expression that does not compile.

    """
    _check_mapping(data, where)
    _check_keys(data, _DIALECT_KEYS, where)
    missing = sorted({"dialect", "family", "anchor", "prefix", "rules"} - set(data))
    if missing:
        raise DialectError(f"{where}: missing {', '.join(missing)}")
    name, anchor, suffix = str(data["dialect"]), data["anchor"], data.get("suffix")
    group_type = str(data.get("group_type", "classic"))
    if group_type not in _GROUP_TYPES:
        wanted = ", ".join(_GROUP_TYPES)
        raise DialectError(f"{where}: group_type: found {group_type!r}, wanted one of {wanted}")
    if not isinstance(data["rules"], list):
        raise DialectError(f"{where}: rules: found {data['rules']!r}, wanted a list")
    rules = [
        _rule(
            rule,
            name,
            group_type,
            f"{where}: rules[{number}]",
            is_anonymous=bool(data.get("anonymous", False)),
        )
        for number, rule in enumerate(data["rules"])
    ]
    if not is_built_in:
        for number, rule in enumerate(rules):
            _compile(rule.text, f"{where}: rules[{number}].text")
    return Dialect(
        name=name,
        family=str(data["family"]),
        client=str(data.get("client", name)),
        versions=str(data.get("versions", "")),
        source=str(data.get("source", "")),
        group_type=group_type,
        beside=tuple(data.get("beside", ())),
        anchors=tuple(map(str, anchor if isinstance(anchor, list) else [anchor])),
        found_by=tuple(map(str, data["found_by"])) if "found_by" in data else None,
        marks=tuple(map(str, data["marks"])) if "marks" in data else None,
        named_by=tuple(_compile(text, f"{where}: named_by") for text in data.get("named_by", ())),
        anchor_after=data.get("anchor_after"),
        prefix=_compile(data["prefix"], f"{where}: prefix"),
        suffix=None if suffix is None else _compile(suffix, f"{where}: suffix"),
        rules=tuple(rules),
        hosts=tuple(data.get("hosts", ())),
        guests=data.get("guests"),
    )


def _rule(
    data: Any, dialect: str, group_type: str, where: str, *, is_anonymous: bool = False
) -> Rule:
    """``is_anonymous``: rules with a group may create a client without a name."""
    _check_mapping(data, where)
    _check_keys(data, _RULE_KEYS, where)
    if "text" not in data:
        raise DialectError(f"{where}: missing text")
    chosen = [key for key in (*_WITH_STATUS, "does") if key in data]
    if len(chosen) != 1:
        wanted = "one of raise, follow_up, streams, announce, does"
        raise DialectError(f"{where}: found {' and '.join(chosen) or 'no action'}, wanted {wanted}")
    action, status = _action(chosen[0], data[chosen[0]], where)
    return Rule(
        name=str(data.get("rule", "rule")),
        dialect=dialect,
        group_type=group_type,
        text=_bound_repeats(str(data["text"])),
        action=action,
        status=status,
        cites=str(data.get("cites", "")),
        ends_round=bool(data.get("ends_round", False)),
        joined_only=bool(data.get("joined_only", False)),
        any_protocol=bool(data.get("any_protocol", False)),
        anonymous=bool(data.get("anonymous", is_anonymous and "(?P<group>" in str(data["text"]))),
        alone=bool(data.get("alone", False)),
        reads_next=bool(data.get("reads_next", False)),
        reaches_target=bool(data.get("reaches_target", False)),
        after=tuple(data.get("after", ())),
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


def _check_mapping(data: Any, where: str) -> None:
    if not isinstance(data, Mapping):
        raise DialectError(f"{where}: found {data!r}, wanted a mapping")


def _check_keys(data: Mapping[Any, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(map(str, data)) - known)
    if unknown:
        raise DialectError(
            f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}"
        )


def _bound_repeats(text: str) -> str:
    """Return an expression with a limit for every repeat, except one at its end.

    Without limits, a hostile line that repeats a text takes time in proportion to the cube of its
    length, and no other line is read during that time.
    """

    def bound(found: re.Match[str]) -> str:
        name, repeat, tail = found["name"], found["repeat"], found["tail"]
        if repeat is None or (tail is not None and name is None):
            return found[0]
        most = _INNER_CHARS if name is None else _NAME_CHARS
        return f"{name or ''}.{{{int(repeat == '+')},{most}}}{tail or ''}"

    return _ANYTHING.sub(bound, text)


def _bound_cost(text: str, where: str) -> str:
    """Return a user's expression with limits that bound its cost."""
    try:
        bounded = bound_cost(text)
    except _INVALID:
        return text  # `_compile` reports it
    if bounded is None:
        raise DialectError(
            f"{where}.text: found parts that match one text in too many ways in {_clip(text)}, "
            "wanted parts with one end, as [^,]+ before a comma or a possessive (?:a|ab)*+"
        )
    return bounded


def _compile(text: Any, where: str) -> re.Pattern[str]:
    try:
        return re.compile(_bound_repeats(str(text)))
    except _INVALID as error:
        raise DialectError(f"{where}: {error} in {_clip(str(text))}") from error


def _clip(text: str) -> str:
    """Return a text for a message."""
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…")
