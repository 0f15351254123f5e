"""Structured fields as a part of the message: one text for every layout of key and value.

Theory of operation. Go's and Node's loggers write a message and fields: as JSON, as logfmt, as a
message with JSON or pairs behind it. Rules read one form of all of them, franz-go's own::

    [INFO] heartbeat errored; group: payments, err: REBALANCE_IN_PROGRESS

Known fields come first, in a fixed order, because layouts sort them; the others follow, as those
that a logger adds to each line.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from agent.sources.lines.fields.decoding import Json, decode, decode_first
from agent.sources.lines.fields.entry_keys import level_of
from agent.sources.lines.fields.inspected_objects import as_json

_KNOWN = (
    "why", "group", "groupId", "member_id", "memberId", "leaderId", "isLeader", "instance_id",
    "generation", "generationId", "balance_protocol", "protocol", "leader", "assigned", "added",
    "lost", "revoking", "memberAssignment", "groupProtocol", "err", "error",
    # that clients do not write, but their users' loggers may
    "group_id", "consumer_group", "clientId", "client_id", "reason", "duration",
)  # fmt: skip
_ORDER = {name: place for place, name in enumerate(_KNOWN)}
_MAX_CHARS = 8_192
"""Longest value; an assignment has some characters for each partition."""
_MAX_FIELDS = 64
_INFRASTRUCTURE = frozenset(
    (
        "message", "msg", "level", "severity", "lvl", "time", "ts", "timestamp", "@timestamp",
        "@version", "log.level", "caller", "source", "stacktrace", "kubernetes", "docker", "stream",
        "_p", "tag", "host", "hostname", "pid", "v", "log",
    )
)  # fmt: skip
_LEVELS = {
    "DBG": "DEBUG", "INF": "INFO", "WRN": "WARN", "ERR": "ERROR", "WARNING": "WARN", "D": "DEBUG",
    "I": "INFO", "W": "WARN", "E": "ERROR", "DEBUG-4": "DEBUG",
}  # fmt: skip
_KNOWN_LEVELS = frozenset(("DEBUG", "INFO", "WARN", "ERROR"))
"""Levels in the form that rules read; of others, as NestJS's LOG, nothing depends."""
_PAIR = re.compile(
    r'(?<!\S)(?:"?([A-Za-z_@][\w.@-]{0,63})"?='
    r'(?:"((?:[^"\\]|\\.){0,8192})"'
    r'|(\{(?=")(?:[^{}"]|"(?:[^"\\]|\\.){0,1024}"){0,128}\}|[^\s"]\S{0,8191})?))'
)
_WORDY = re.compile(
    r"(?<!\S)(why|err|error|reason|added|lost|assigned|revoking)="
    r"(?=([^\s\"={][^=\t\n]{0,8191}))"
)
"""Values with blanks that go-zero and console-slog write without quotes."""
_WITH_KEY = 2
"""Parts of a value that another key follows: its own words and that key."""
_NEXT_KEY = re.compile(r"[A-Za-z_@][\w.@-]{0,63}")
_LEVEL = re.compile(
    r"(?:^|[\s|\[])(?i:(trace|debug|info|warn(?:ing)?|error|dbg|inf|wrn|err|[diwe](?=\])))"
    r"(?=[\]|:\s\[]|$)"
    r"(?:[\]|:]|\[(?:\d{1,9}|\d{4}-\d\d-\d\d[T ][^\]\s]{5,24}|\d\d-\d\d\|[\d:.]{8,15})\])?"
    r"(?:(?<=\])\S{1,512}\.go:\d{1,7}(?: \S{1,512}\(\))?)?"  # logrus' caller on a terminal
    r"(?:\s+\d{1,9}(?=\s+\S{1,255}\.go:\d))?"
    r"(?:\s+(?:\S+\.go:\d+\]?|[\w.@/-]+:\d+)(?: >)?)?\s+"
)
_WORDS = re.compile(
    r"(?<!\S)(?:msg|message)=([^\s\"=][^=\n]{0,1024}?)(?=\s+[A-Za-z_@][\w.@-]{0,63}=|\s*$)"
)
"""A message that Kratos writes without quotes."""
_LOGGER = re.compile(r"^[\w.-]{1,64}: ")
_PROGRAM = re.compile(r"^[a-z][\w./-]{0,63}: (?=[a-z\[])")
"""Prefix of each message by charm's and other loggers."""
_SENDER = re.compile(r"^(?:\([^()\n]{1,255}\)|[\w.@-]{1,128}/\d{1,10} on [\w.-]{1,253}): ")
"""Name, process and host that pino-pretty and bunyan write behind the level."""
_PLACES = re.compile(
    r"^(?:(?:\[[^\s\[\]]{1,255}\.go:\d{1,7}[^\s\[\]]{0,255}\]|<[^\s<>]{1,255}:\d{1,7}>"
    r"|\[\d\d-\d\d\|[\d:.]{8,15}\])\s{1,16}){1,4}"
)
"""Places in a program, and geth's time, behind the level."""
_SEPARATOR = re.compile(r"\s(?:[-\u2013|]|--|[=-]>)$")
"""Between a message and its fields."""
_JSON_TAIL = re.compile(r"\s(?=\{\")")
_ENCLOSED = re.compile(r"\s\((?=[A-Za-z_][\w.-]{0,63}=)")
_ENCLOSED_KEY = re.compile(r"([A-Za-z_][\w.-]{0,63})=")
_ENCLOSED_WORD = re.compile(r"[^\s,]{0,8192}?(?=, |\)$)")
"""A field of those that bunyan's command line writes in parentheses behind the message."""
_INSPECTED = re.compile(r"\s(?=\{ '?[A-Za-z_$][\w$.@-]{0,63}'?: )")
_DECODER = json.JSONDecoder()
_MAX_OBJECTS = 8
"""Objects of a line that are tried, so that a line costs its length at most so many times."""


def structure(text: str, level: str, fields: Mapping[str, Any] | None) -> str | None:
    """Return the message and its fields in one form; None for a line without fields."""
    if fields is None:
        return _structure_line(text)
    flat = _flatten(fields)
    own = _structure_line(text) if _GROUPS.isdisjoint(flat) else None  # a store's object around it
    return _render(level, text, flat) if own is None else own


def _flatten(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return fields with those of a group of them: slog's WithGroup, or winston's ``extra``.

    GELF writes an underscore before each.
    """
    if not _GROUPS.isdisjoint(fields):
        return fields
    if not _OF_GELF.isdisjoint(fields):
        return {name.removeprefix("_"): value for name, value in fields.items()}
    groups = (value for value in fields.values() if isinstance(value, dict))
    return next((group for group in groups if not _GROUPS.isdisjoint(group)), fields)


_GROUPS = frozenset(("group", "groupId", "why"))
"""Fields of which a client's line has one; franz-go names no group where it has a reason."""
_OF_GELF = frozenset(f"_{name}" for name in _GROUPS)
_IN_GROUP = tuple(f".{name}" for name in sorted(_GROUPS))
"""Keys of these within a group of slog's, as text."""


def _structure_line(text: str) -> str | None:
    if (behind := _find_object(text) or _find_inspected(text)) is not None:
        head, enclosed = _split_enclosed(behind[0])
        return _render_behind(head, {**enclosed, **behind[1]})
    head, enclosed = _split_enclosed(text)
    if enclosed:
        return _render_behind(head, enclosed)
    if text.endswith("}") and _JSON_TAIL.search(text) is not None:
        return None
    pairs = {
        key: _unquote(quoted) if quoted else _read_plain(plain)
        for key, quoted, plain in _PAIR.findall(text)
    }
    if not pairs:
        return None
    pairs.update(_read_wordy(text))
    group = next((key for key in pairs if key.endswith(_IN_GROUP)), "")
    if group and _GROUPS.isdisjoint(pairs):
        begin = group[: group.rindex(".") + 1]
        pairs = {key.removeprefix(begin): value for key, value in pairs.items()}
    if "msg" in pairs or "message" in pairs:  # logfmt
        level = pairs.get("level") or pairs.get("lvl") or pairs.get("severity") or ""
        words = _WORDS.search(text)
        message = pairs.get("msg") or pairs.get("message") or ""
        return _render(level, message if words is None else words[1], pairs)
    first = _PAIR.search(text)
    return None if first is None else _render(*_split(text[: first.start()]), pairs)


def _read_wordy(text: str) -> Iterator[tuple[str, str]]:
    """Yield the values that go up to the next key, a tab or the end, in linear time."""
    for found in _WORDY.finditer(text):
        value, end = found[2], found.end(2)
        if text.startswith("=", end):
            words = value.rsplit(maxsplit=1)
            if len(words) == _WITH_KEY and _NEXT_KEY.fullmatch(value[-len(words[1]) :]):
                yield found[1], words[0]
        elif end == len(text) or text[end] == "\t":
            yield found[1], value.rstrip()


def _read_plain(text: str) -> Any:
    """Return an object as a value, or the text itself."""
    found = decode(text) if text.startswith('{"') else None
    return text if found is None else found


def _find_object(text: str) -> tuple[str, Json] | None:
    """Return the text before an object, and the object; without a group it ends the text.

    More may follow it: NestJS writes the time since its line before, pino-pretty its own fields.
    """
    end = 0
    for begin in islice(_JSON_TAIL.finditer(text), _MAX_OBJECTS):
        if begin.start() < end:  # within the object before
            continue
        head = text[: begin.start()]
        if not end and text.endswith("}"):  # zap's console layout
            found = decode(text[begin.end() :])
            if found is not None:
                return head, found
        with contextlib.suppress(ValueError, RecursionError):
            found, end = decode_first(text, begin.end())
            if not _GROUPS.isdisjoint(found):
                return head, found
    return None


def _split_enclosed(text: str) -> tuple[str, Json]:
    """Return the text before fields in parentheses that end it, and the fields with a group."""
    begin = _ENCLOSED.search(text) if text.endswith(")") else None
    found: Json = {}
    at = len(text) if begin is None else begin.end()
    while len(found) < _MAX_FIELDS and (key := _ENCLOSED_KEY.match(text, at)) is not None:
        value, at = _read_enclosed(text, key.end())
        found[key[1]] = value
        at += len(", ") * text.startswith(", ", at)
    if begin is None or text[at:] != ")" or _GROUPS.isdisjoint(found):
        return text, {}
    return text[: begin.start()], found


def _read_enclosed(text: str, begin: int) -> tuple[Any, int]:
    """Return a value that is JSON or a word, and the place behind it."""
    with contextlib.suppress(ValueError, RecursionError):
        if text[begin : begin + 1] in {'"', "{", "["}:
            return _DECODER.raw_decode(text, begin)
    word = _ENCLOSED_WORD.match(text, begin)
    return ("", begin) if word is None else (word[0], word.end())


def _find_inspected(text: str) -> tuple[str, Json] | None:
    """Return the same of an object with a group that Node prints on one line."""
    begin = _INSPECTED.search(text)
    if begin is None:
        return None
    with contextlib.suppress(ValueError, RecursionError):
        found, _ = decode_first(as_json(text[begin.end() :]), 0)
        if not _GROUPS.isdisjoint(found):
            return text[: begin.start()], found
    return None


def _render_behind(head: str, found: Json) -> str:
    """Render an object after a text: the fields of that message, or another entry."""
    message = found.get("message")
    if isinstance(message, str) and level_of(found):
        return _render(level_of(found), message, found)
    return _render(*_split(head), _flatten(found))


def _split(head: str) -> tuple[str, str]:
    """Split the level from the message of a console layout."""
    level = _LEVEL.search(head + " ")
    message = head.strip() if level is None else head[level.end() :].strip() or head.strip()
    message = _PLACES.sub("", message)
    if message.endswith('"'):  # klog quotes it
        message = message.rstrip('"').rpartition('"')[2]
    elif "\t" in message:  # zap writes a logger and a caller before it
        message = message.rpartition("\t")[2]
    if message.endswith(":"):  # hclog writes a logger before it, and a colon behind
        message = _LOGGER.sub("", message[:-1])
    message = _SEPARATOR.sub("", _PROGRAM.sub("", _SENDER.sub("", message)))
    return "" if level is None else level[1], message


def _render(level: str, message: str, fields: Mapping[str, Any]) -> str:
    level = level.upper()
    level = _LEVELS.get(level, level)
    head = f"[{level if level in _KNOWN_LEVELS else 'INFO'}] {message.strip()}"
    names = [name for name in fields if name not in _INFRASTRUCTURE][:_MAX_FIELDS]
    names.sort(key=lambda name: _ORDER.get(name, len(_ORDER)))
    pairs = ", ".join(f"{name}: {_write(fields[name])}" for name in names)
    return f"{head}; {pairs}" if pairs else head


def _write(value: Any) -> str:
    """Write a value as franz-go does."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)[:_MAX_CHARS]
    if not value:
        return ""
    error = _read_error(value) if isinstance(value, dict) else None
    return _write_object(value) if error is None else error


def _write_object(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()[:_MAX_CHARS]
    except RecursionError:  # read with the last level that the stack has
        return ""


def _read_error(found: Json) -> str | None:
    """Return the text of an error: franz-go's kerr.Error, or one of slog's converters."""
    if isinstance(found.get("Message"), str):
        return ": ".join(filter(None, (found["Message"], str(found.get("Description", "")))))
    error = found.get("error")
    return error if isinstance(error, str) else None


def _unquote(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\")
