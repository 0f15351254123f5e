"""Settings of a Java client in its log, and its version: two timeouts, and "Kafka version: 4.3.0".

Theory of operation. A new consumer prints all its settings, one a line ("ConsumerConfig values:",
AbstractConfig.logAll, INFO), and its first line with its name soon after. A search of every log for
such lists would cost a pass over all bytes; so a parser keeps the last bytes that it read, and
looks back once for a client that is new or subscribes. Plain, CRI, Docker and JSON lines look alike
there, except for the end of a setting. A checkpoint holds these bytes in short: of each list that
no client has used, its first line and the lines that are read here.

The version follows the list, for each client of the process (AppInfoParser, INFO).

In the new protocols the broker has the session timeout: the one that is printed has no effect.

A list belongs to the client with the same id, group and instance id. Restore and global consumers
of Streams have no group; before 2.5 a list has no client id if none was configured.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_INT_DIGITS = 10
"""Digits of Java's largest int; Python raises an error for thousands."""
_LIST = b"ConsumerConfig values:"
_HEAD_BYTES = 200
_VERSION = re.compile(rb"Kafka version ?: ([0-9][\w.-]{0,30})")
_VERSION_BYTES = 65_536
"""So far behind its list a client's version is looked for."""
_JAVA = "apache-kafka-java"
"""Name that Java clients send in ApiVersions, so that log and wire agree."""
_CLIENT_ID, _GROUP, _INSTANCE_ID = b"client.id = ", b"group.id = ", b"group.instance.id = "
_PROTOCOL, _CLASSIC = b"group.protocol = ", {b"", b"classic"}
_SHARE = b"Share"
"""Begin of the name of a share consumer's list, which prints the classic protocol."""
_TEXT = re.compile(rb'(?:[^"\\\t\r\n]|\\(?![nrtu"]))*')
"""A value; an entry of a store may hold one line of the list, or all of them."""
_MAX_POLL_MS, _SESSION_MS = b"max.poll.interval.ms = ", b"session.timeout.ms = "
_KEYS = (_CLIENT_ID, _GROUP, _INSTANCE_ID, _PROTOCOL, _MAX_POLL_MS, _SESSION_MS)
_NO_GROUP = b"null"
_KEPT_LISTS = 16
"""Lists in a checkpoint, the last ones: those of the threads of a Streams instance."""


class Client(NamedTuple):
    """Names of the client that the settings belong to."""

    client_id: str
    group: str
    instance_id: str | None


class Settings(NamedTuple):
    """Settings of a client in seconds; None: not printed."""

    max_poll_interval_s: float | None = None
    session_timeout_s: float | None = None
    head: str | None = None
    """First line of the list, with its time: another one shows that another client began."""
    software: str | None = None
    """Name and version as in ApiVersions; None: not printed."""


def has_settings(log: bytes, begin: int, end: int) -> bool:
    """Return whether any client's list begins between two places, which are line starts."""
    return log.find(_LIST, begin, end) >= 0


def find_settings(client: Client, log: bytes, begin: int, end: int) -> Settings:
    """Return the settings in the client's last list between two places."""
    names = (
        client.client_id.encode(),
        client.group.encode(),
        (client.instance_id or "null").encode(),
    )
    for start, list_end in _lists(log, begin, end):
        if names == _names(log, start, list_end):
            return Settings(
                _seconds(_value(_MAX_POLL_MS, log, start, list_end)),
                _session_s(log, start, list_end),
                _head(log, start, list_end).decode(errors="replace"),
                _software(log, start, list_end),
            )
    return Settings()


def condense_settings(log: bytes, is_used: Callable[[Client, str], bool]) -> bytes:
    """Return the last lists of a text in short, for `find_settings` and what continues the text.

    A list that ``is_used`` with its names and its head is left out, and one without a group; the
    last one without a group may go on with it.
    """
    kept = list[bytes]()
    for start, end in _lists(log, 0, len(log)):
        client_id, group, instance_id = _names(log, start, end)
        is_closed = end < len(log) or _find_version(log, start, end) is not None
        if group == _NO_GROUP or (is_closed and not group):
            continue
        names = [each.decode(errors="replace") for each in (client_id, group, instance_id)]
        client = Client(names[0], names[1], None if names[2] == "null" else names[2])
        if not is_used(client, _head(log, start, end).decode(errors="replace")):
            kept.append(_condense(log, start, end))
        if len(kept) == _KEPT_LISTS:
            break
    return b"".join(reversed(kept))


def _condense(log: bytes, start: int, end: int) -> bytes:
    head = _head(log, start, end)
    name = (_SHARE if log.endswith(_SHARE, 0, start) else b"") + _LIST
    lines = [head if name in head else head + name]
    lines += [
        b"\t" + key + _value(key, log, start, end)
        for key in _KEYS
        if log.find(key, start, end) >= 0
    ]
    if (version := _find_version(log, start, end)) is not None:
        lines.append(version)
    return b"\n".join((*lines, b""))


def _lists(log: bytes, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each list, the last one first."""
    while (start := log.rfind(_LIST, begin, end)) >= 0:
        yield start, end
        end = start


def _names(log: bytes, start: int, end: int) -> tuple[bytes, bytes, bytes]:
    return (
        _value(_CLIENT_ID, log, start, end),
        _value(_GROUP, log, start, end),
        _value(_INSTANCE_ID, log, start, end),
    )


def _session_s(log: bytes, start: int, end: int) -> float | None:
    """Return the session timeout where it has an effect; before 3.7 all groups are classic."""
    is_share = log.endswith(_SHARE, 0, start)
    if is_share or _value(_PROTOCOL, log, start, end).lower() not in _CLASSIC:
        return None
    return _seconds(_value(_SESSION_MS, log, start, end))


def _head(log: bytes, start: int, end: int) -> bytes:
    """Return the begin of a list's first line, in which no key can be found."""
    begin = log.rfind(b"\n", 0, start) + 1
    line_end = log.find(b"\n", start, end)
    return log[begin : min(line_end, begin + _HEAD_BYTES)].replace(b" = ", b"=")


def _software(log: bytes, start: int, end: int) -> str | None:
    found = _find_version(log, start, end)
    version = None if found is None else _VERSION.fullmatch(found)
    return None if version is None else f"{_JAVA} {version[1].decode()}"


def _find_version(log: bytes, start: int, end: int) -> bytes | None:
    found = _VERSION.search(log, start, min(end, start + _VERSION_BYTES))
    return None if found is None else found[0]


def _seconds(text: bytes) -> float | None:
    return int(text) / 1000 if text.isdigit() and len(text) <= _INT_DIGITS else None


def _value(key: bytes, log: bytes, start: int, end: int) -> bytes:
    """Return the text behind a key up to the end of the line, plain or within a JSON text."""
    at = log.find(key, start, end)
    if at < 0:
        return b""
    found = _TEXT.match(log, at + len(key), end)
    return b"" if found is None or found.end() == end else found[0].rstrip()
