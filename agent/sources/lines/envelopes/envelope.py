"""Unwrapper of raw log lines: prefixes of collectors, container formats and JSON layouts.

Theory of operation. A container runtime wraps the lines of a process (CRI, Docker's json-file) and
cuts long ones; the pieces are joined again, by stream. A collector writes the name of each stream
before its lines. The content may be a JSON object, of the application or of a store. A line that is
not understood is a plain line, so a broken envelope loses nothing.

The application's time is preferred to the container runtime's, and the runtime's to the arrival: a
timestamp in the head of `LogEntry.text` has precedence over `LogEntry.at`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from agent.sources.lines.envelopes.collector_prefix import (
    FORWARDED,
    CollectorPrefix,
    is_bare,
    match_prefix,
)
from agent.sources.lines.envelopes.known_prefixes import KnownPrefixes
from agent.sources.lines.fields.colours import strip_colours
from agent.sources.lines.fields.decoding import Json, decode
from agent.sources.lines.fields.entry_keys import TIMES, has_time, is_entry, read_other_times
from agent.sources.lines.fields.entry_lists import read_forwarded
from agent.sources.lines.fields.entry_origin import JsonEntry
from agent.sources.lines.fields.flat_fields import read_pairs, read_tabbed
from agent.sources.lines.fields.json_entry import read_entries, read_object
from agent.sources.lines.fields.record_fields import read_message
from agent.sources.lines.times.timestamps import TimestampReader, parse_epoch

JOINED_MAX_CHARS = 1 << 20
"""Kept length of a line in pieces; Kafka names a client in the first few hundred characters."""
# Docker cuts at 16 KiB: 4 Ki of the longest characters. A shorter piece without a line end is the
# last text of a process that stopped, and nothing continues it.
_DOCKER_PIECE_MIN_CHARS = 4096
_DOCKERS = ("stdout", "stderr")
_PREFIXES = 2
"""Prefixes before one line: kubectl's before Docker's time, syslog's behind compose's."""

# https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
_CRI = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\S{8,32}) (?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S*)? ?",
    re.ASCII,
)
_AROUND = ("metadata", "meta", "extra", "coralogix", "_meta")
"""Objects beside the message that hold its time: Coralogix's, winston's of kafkajs, tslog's."""
_INSTANTS = (
    ("instant", "epochSecond", "nanoOfSecond"),  # log4j2's JsonLayout
    ("timestamp", "seconds", "nanos"),  # Google Cloud's agent
    (None, "timestampSeconds", "timestampNanos"),  # and its layouts for Logback and log4j2
)
"""Keys of an object with seconds and nanoseconds (None is the entry itself), and their names."""
_COUNTS = (
    ("epochSecond", "nanoOfSecond"),
    ("seconds", "nanos"),
    ("secs_since_epoch", "nanos_since_epoch"),
)
"""Seconds and nanoseconds under any name of a time: log4j2's, Protobuf's, Rust's."""
_TIME_PARTS = ("timestamp", "date", "$date", "S", "N")
_CLOCK = re.compile(r"\d\d?:\d\d", re.ASCII)
_DAYS = ("date", "Date", "day")
_DAY_CHARS = 12
_EPOCH = re.compile(r"\d{10,19}", re.ASCII)
_AFTER_OBJECT = " \t]},;."
"""Characters that a copy has behind an object: the end of an array, of Fluent Bit's pair, or of a
sentence."""
_BAR = " | "
"""Behind a name of compose."""
_DIGIT, _NAME_CHARS = re.compile(r"\d"), 96
_QUOTED_LINE = re.compile(
    r"""(?:^|\s)(?:message|msg|log|entry)=("(?:[^"\\\n]|\\.)*"(?=\s|$))""", re.ASCII
)
"""A whole line of an application as a value of a collector's logfmt."""
_LIBRDKAFKA, _OF_CONSUMER = "[thrd:", "#consumer-"
_CLIENT_BEHIND = re.compile(r"(?<![\w.#-])[\w.-]{1,255}#consumer-\d{1,9}\b")
_STATISTICS = b'"rebalance_cnt"'
"""A key of librdkafka's statistics, an object with a time and no message."""
_URL, _ACTION = "|url: ", "|action:"
# https://github.com/NLog/NLog.Web/blob/v5.3.0/examples/ASP.NET%20Core%206/nlog.config
_BRACES = 6
"""Closing braces that are tried as the last one of an object."""
_ARROW = re.compile(r'" ?=>')
_QUOTES = 2
_BEFORE_LINE = "\ufeff\0"
"""A byte-order mark, and what a crash of the machine leaves of bytes that were not written yet."""
_PLAIN = CollectorPrefix("", "", "", "", 0)


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """One line as the application wrote it."""

    text: str
    at: float | None
    """Unix seconds: of the JSON layout, else of the runtime or the collector."""
    logger: str | None = None
    origin: str = ""
    """Name of the stream within the file; empty if the file is one stream."""
    host: str = ""
    """The part of the origin that names a host, a pod or a container."""
    pid: str = ""
    level: str = ""
    fields: Mapping[str, Any] | None = None
    """Structured fields beside the message."""


@dataclass(slots=True)
class Pieces:
    """The beginning of a line."""

    text: str
    at: float | None


class Unwrapper:
    """Unwrapper of the lines of one file, in order."""

    def __init__(self, timezone: str | None = None) -> None:
        """``timezone`` is the IANA name for JSON times without a zone; None is the machine's."""
        self._reader = TimestampReader(timezone)
        self.pieces: dict[str, Pieces] = {}
        """Incomplete lines, by stream."""
        self.known = KnownPrefixes()

    def state(self) -> dict[str, Any]:
        """Return the incomplete lines for a checkpoint, in types that JSON can carry."""
        return {stream: [begun.text, begun.at] for stream, begun in self.pieces.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        self.pieces.update({stream: Pieces(*begun) for stream, begun in state.items()})

    def unwrap(self, raw: bytes, arrival_at: float) -> list[LogEntry]:
        """Return the entries of one line; none while it is a piece that a later line continues."""
        text = strip_colours(raw.decode("utf-8", "replace").rstrip("\r\n").lstrip(_BEFORE_LINE))
        if is_bare(text) and not (self.known and self.known.recall(text)):
            return [LogEntry(_name_client(_trim(text)), None)]
        return self._unwrap(_unquote(text), _PLAIN, arrival_at, _PREFIXES)

    def _unwrap(
        self, text: str, prefix: CollectorPrefix, arrival_at: float, left: int
    ) -> list[LogEntry]:
        if text.lstrip().startswith("{"):
            return self._unwrap_json(text.lstrip(), prefix, arrival_at)
        if text.startswith(FORWARDED) and (forwarded := read_forwarded(text)):
            records = (self._entries(each, prefix, None, arrival_at) for each in forwarded)
            return list(chain.from_iterable(records)) or [self._plain(text, prefix, arrival_at)]
        cri = _CRI.match(text)
        if cri is not None:
            at = self._reader.find(cri["time"], arrival_at)
            line, last = text[cri.end() :], cri["tag"] == "F"
            return self._join(cri["stream"], line, prefix, at, arrival_at, last=last)
        found = self.known.match(text) if left else None
        if found is None:
            entries = self._unwrap_behind(text, prefix, arrival_at)
            return entries or [self._plain(read_message(text) or text, prefix, arrival_at)]
        outer = found._replace(
            origin="/".join(filter(None, (prefix.origin, found.origin))),
            host=found.host or prefix.host,
            time=found.time or prefix.time,
        )
        return self._unwrap(text[found.end : found.stop], outer, arrival_at, left - 1)

    def _unwrap_behind(
        self, text: str, prefix: CollectorPrefix, arrival_at: float
    ) -> list[LogEntry]:
        """Return the entries of a quoted line or an object after any head.

        Empty: there is no such line, or the object is a list of fields and not a log entry.
        """
        tabbed = read_tabbed(text) if "\t" in text else None
        if tabbed is not None:
            return self._entries(tabbed, prefix, None, arrival_at)
        line = _QUOTED_LINE.search(text) if '="' in text else None
        if line is not None:
            pairs = read_pairs(text)
            if pairs is not None:  # a collector's fields around a line, as Alloy's and Vector's
                return self._entries(pairs, prefix, None, arrival_at)
            inner = _unquote(line[1])
            if inner.startswith("{") or self._reader.find(inner, arrival_at) is not None:
                return self._unwrap(inner, prefix, arrival_at, 1)
        begin = text.find(' {"') + 1 or text.find('\t{"') + 1
        found = decode(text[begin:].rstrip()) if begin and text.rstrip().endswith("}") else None
        if found is None or not is_entry(found):
            return []
        if not prefix.time:
            prefix = prefix._replace(time=text[:begin])
        return self._entries(found, prefix, None, arrival_at)

    def _plain(self, text: str, prefix: CollectorPrefix, arrival_at: float) -> LogEntry:
        text = _name_client(_trim(text))
        if prefix is _PLAIN:
            return LogEntry(text, None)
        at = self._reader.find(prefix.time, arrival_at) if prefix.time else None
        return LogEntry(text, at, None, prefix.origin, prefix.host, prefix.pid)

    def _unwrap_json(self, text: str, prefix: CollectorPrefix, arrival_at: float) -> list[LogEntry]:
        found = decode(text) or _decode_copied(text)
        if found is None:
            entries = self._unwrap_objects(text, prefix, None, arrival_at)
            return entries or [self._plain(text, prefix, arrival_at)]
        log, stream = found.get("log"), found.get("stream")
        if isinstance(log, str) and isinstance(stream, str) and stream in _DOCKERS:
            at = self.find_time(found, arrival_at)
            if at is None and prefix.time:
                at = self._reader.find(prefix.time, arrival_at)
            is_last = log.endswith("\n") or len(log) < _DOCKER_PIECE_MIN_CHARS
            line = log.rstrip("\r\n")
            entry = JsonEntry(line, found)
            origin = next(read_entries({**found, "log": "."}), entry)
            outer = prefix._replace(
                origin=origin.origin or prefix.origin, host=origin.host or prefix.host
            )
            return self._join(stream, line, outer, at, arrival_at, last=is_last)
        entries = self._entries(found, prefix, None, arrival_at)
        return entries or [self._plain(text, prefix, arrival_at)]

    def _unwrap_objects(
        self, text: str, prefix: CollectorPrefix, at: float | None, arrival_at: float
    ) -> list[LogEntry]:
        """Return the entries of a text of several lines, the first of them an object, if it is one.

        A store holds the lines that a runtime wrote, several in one field; ``at`` is its time.
        """
        first, _, others = text.partition("\n")
        if not (others and first.startswith("{") and first.rstrip().endswith("}")):
            return []
        lines = [line for line in text.split("\n") if line]
        inner = [
            each for line in lines for each in self._unwrap(line, prefix, arrival_at, _PREFIXES)
        ]
        return [replace(each, at=at) if each.at is None else each for each in inner]

    def _entries(
        self, found: Json, prefix: CollectorPrefix, at: float | None, arrival_at: float
    ) -> list[LogEntry]:
        """Return the entries of an object; ``at`` is the runtime's time."""
        return [
            each
            for entry in read_object(found)
            for each in self._read_named(self._entry(entry, prefix, at, arrival_at), arrival_at)
        ]

    def _read_named(self, entry: LogEntry, arrival_at: float) -> list[LogEntry]:
        """Return the entries of a text in an envelope, which may begin with a name of its own.

        A collector reads the files of syslog, and a container prints the lines of several programs.
        """
        name = _match_name(entry.text)
        if name is None:
            outer = CollectorPrefix(entry.origin, entry.host, entry.pid, "", 0)
            return self._unwrap_objects(entry.text, outer, entry.at, arrival_at) or [entry]
        origin = "/".join(filter(None, (entry.origin, name.origin)))
        prefix = name._replace(
            origin=origin, host=name.host or entry.host, pid=name.pid or entry.pid
        )
        inner = self._unwrap(entry.text[name.end : name.stop], prefix, arrival_at, 1)
        return [replace(each, at=entry.at) if each.at is None else each for each in inner]

    def _entry(
        self, entry: JsonEntry, prefix: CollectorPrefix, at: float | None, arrival_at: float
    ) -> LogEntry:
        own = self.find_time(entry.times, arrival_at)
        if own is None:
            own = at
        if own is None and prefix.time:
            own = self._reader.find(prefix.time, arrival_at)
        origin, host = entry.origin, entry.host
        if prefix.origin and not (prefix.is_tag and origin):  # not the application's own
            origin, host = prefix.origin, prefix.host
        pid = prefix.pid or entry.pid
        text = strip_colours(entry.text).rstrip("\r\n")
        return LogEntry(text, own, entry.logger, origin, host, pid, entry.level, entry.fields)

    def _join(  # noqa: PLR0913 - one piece of a line
        self,
        stream: str,
        text: str,
        prefix: CollectorPrefix,
        at: float | None,
        arrival_at: float,
        *,
        last: bool,
    ) -> list[LogEntry]:
        """Join the pieces of a line, and return its entries with the last one."""
        key = stream + prefix.origin
        pieces = self.pieces.pop(key, None)
        if pieces is not None:
            text = pieces.text + text[: JOINED_MAX_CHARS - len(pieces.text)]
            at = pieces.at
        if not last:
            self.pieces[key] = Pieces(text[:JOINED_MAX_CHARS], at)
            return []
        text = strip_colours(text)
        found = decode(text) if text.startswith("{") else None
        if found is None:
            entries = self._unwrap_objects(text, prefix, at, arrival_at)
        else:
            entries = self._entries(found, prefix, at, arrival_at)
        plain = LogEntry(text, at, None, prefix.origin, prefix.host, prefix.pid)
        return entries or self._read_named(plain, arrival_at)

    def find_time(self, found: Mapping[str, Any], arrival_at: float) -> float | None:
        """Return the time (Unix seconds) of an object with an entry's fields; None without one."""
        for parts, second, nano in _INSTANTS:
            whole = found.get(parts) if parts else found
            if isinstance(whole, dict) and second in whole:
                return _instant(whole[second], whole.get(nano, 0))
        for key in TIMES:
            value = found.get(key)
            value = _find_part(value)
            if isinstance(value, str):
                value = _add_day(value, found)
                whole = _EPOCH.fullmatch(value) and parse_epoch(int(value))
                at = whole or self._reader.find(value, arrival_at)
                if at is not None:
                    return at
            elif isinstance(value, int | float) and not isinstance(value, bool):
                return parse_epoch(value)
        inner = (found[key] for key in _AROUND if isinstance(found.get(key), dict))
        times = (self.find_time(each, arrival_at) for each in inner if has_time(each))
        others = (self._read_time(value, arrival_at) for value in read_other_times(found))
        return next((at for at in chain(times, others) if at is not None), None)

    def _read_time(self, value: str | float, arrival_at: float) -> float | None:
        """Return the time of a number or a text."""
        if isinstance(value, str):
            return self._reader.find(value, arrival_at)
        return parse_epoch(value)


def date_line(
    line: bytes, reader: TimestampReader, unwrapper: Unwrapper, arrival_at: float
) -> float | None:
    """Return the time of a line (Unix seconds); None without one."""
    for entry in unwrapper.unwrap(line, arrival_at):
        at = reader.find(entry.text, arrival_at)
        if at is not None:
            return reader.place_day(at, entry.at)
        if entry.at is not None:
            return entry.at
    found = decode(line.decode("utf-8", "replace").strip()) if _STATISTICS in line else None
    return None if found is None else unwrapper.find_time(found, arrival_at)


def _find_part(value: Any) -> Any:
    """Return the time within an object, as of loguru and monolog before 2, or Jackson's numbers.

    Jackson writes a `LocalDateTime` as `[2026,11,20,13,20,5,123000000]`, and leaves zeros at the
    end out.
    """
    if isinstance(value, dict):
        part = next((value[part] for part in _TIME_PARTS if part in value), None)
        if part is not None:
            return part
        counts = (
            (value[second], value.get(nano, 0)) for second, nano in _COUNTS if second in value
        )
        return next((at for each in counts if (at := _instant(*each)) is not None), None)
    is_numbers = isinstance(value, list) and len(value) in _NUMBERS_OF_TIME
    if not is_numbers or not all(type(each) is int and 0 <= each < 10**9 for each in value):
        return value
    year, month, day, hour, minute, second, nanos = [*value, 0, 0][:7]
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}"


_NUMBERS_OF_TIME = range(5, 8)


def _add_day(time: str, found: Mapping[str, Any]) -> str:
    """Return a time of day behind the date that another field of its object holds."""
    if _CLOCK.match(time) is None:
        return time
    days = (found.get(key) for key in _DAYS)
    day = next((day for day in days if isinstance(day, str) and len(day) <= _DAY_CHARS), None)
    return time if day is None else f"{day} {time}"


def _match_name(text: str) -> CollectorPrefix | None:
    """Return the name of a stream before the text of a store's entry, if there is one.

    A number is in each of them, apart from compose's: a time, a process, a suffix of a pod.
    """
    if (_BAR not in text and _DIGIT.search(text, 0, _NAME_CHARS) is None) or is_bare(text):
        return None
    found = match_prefix(text)
    return found if found is not None and (found.origin or found.pid) else None


def _trim(text: str) -> str:
    """Return a text without blanks at its end; one stays after a colon: an empty field.

    NLog's layout for ASP.NET has the request behind each message.
    """
    if _URL in text:
        before, _, request = text.rpartition(_URL)
        text = before if _ACTION in request else text
    trimmed = text.rstrip()
    return f"{trimmed} " if trimmed.endswith(":") and trimmed != text else trimmed


def _name_client(text: str) -> str:
    """Return a line of librdkafka with its client's name before the message.

    Node prints the object of a log event with the name last, and so do handlers of users' own.
    """
    begin = text.find(_LIBRDKAFKA)
    if begin < 0 or _OF_CONSUMER in text[:begin]:
        return text
    name = _CLIENT_BEHIND.search(text, begin)
    return text if name is None else f"{text[:begin]} {name[0]} {text[begin:]}"


def _unquote(text: str) -> str:
    """Return a line that is a string of JSON, as jq prints it, or the only cell of a table."""
    inner = text.strip(" ,")
    if len(inner) < _QUOTES or inner[0] != '"' or inner[-1] != '"':
        return text
    try:
        found = msgspec.json.decode(inner, type=str)
    except (msgspec.DecodeError, RecursionError):
        cell = inner[1:-1].replace('""', "")
        return text if '"' in cell else inner[1:-1].replace('""', '"')
    return strip_colours(found).rstrip("\r\n")


def _decode_copied(text: str) -> dict[str, Any] | None:
    """Return the object at the begin of a text, with at most a few marks behind it."""
    end = len(text)
    least = len(text.rstrip(_AFTER_OBJECT))
    if _ARROW.search(text) is not None:  # Ruby's hash, as fluentd and Fluent Bit print it
        return _decode_copied(_ARROW.sub('":', text))
    for _ in range(_BRACES):
        end = text.rfind("}", least, end)
        found = None if end < 0 else decode(text[: end + 1])
        if found is not None or end < 0:
            return found
    return None


def _instant(second: object, nano: object) -> float | None:
    if isinstance(second, int) and isinstance(nano, int):
        return parse_epoch(second * 1_000_000_000 + nano)
    return None
