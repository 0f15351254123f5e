"""Keys of a log entry: its message, time, level and logger, as layouts and stores name them."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from agent.sources.lines.fields.decoding import Json

TEMPLATES = ("@mt", "MessageTemplate", "messageTemplate")
"""Message templates with values in other fields: Serilog's, without a rendered message."""
MESSAGES = (
    "formattedMessage", "message", "msg", "short_message", "log", "event", "MESSAGE", "textPayload",
    "line", "@message",
    "_raw", "body", "short_msg", "text", "stringValue", "content", "@m", "_msg", "RenderedMessage",
    "LogMessage", "LogEntry", "rawlog", "Body", "Log", "Log_s", "LogEntry_s", "Message", "Line",
    "@rawstring", "logmsg", "_line", "M", "Content", "raw", "m",
    *TEMPLATES,
    "logMessage", "log_message", "log.message", "Msg", "rawMessage", "raw_message", "_message",
    "messageText", "message_text", "rendered_message", "renderedMessage", "full_message", "entry",
)  # fmt: skip
"""ECS, Logstash and log4j2's JsonLayout; pino, bunyan, zap and slog; GELF; fluentd; structlog; then
journald, Google Cloud, Loki, CloudWatch, Splunk, OTLP, Datadog; names that users give it."""
TIMES = (
    "entry_timestamp", "@timestamp", "timestamp", "time", "ts", "timeMillis", "asctime",
    "__REALTIME_TIMESTAMP",
    "timeUnixNano", "observedTimeUnixNano", "_time", "eventTime", "datetime", "date", "t",
    "Timestamp", "@t", "log_time", "receiveTimestamp", "ingestionTime", "_timestamp",
    "TimeGenerated", "TimeStamp", "Date", "Time", "dt", "__time__", "_time_", "_messagetime",
    "received_at", "EventTime", "ibm_datetime", "_ts", "TimeCreated", "Date and Time", "T",
    "timestamp_nanos", "__TIMESTAMP__", "p_timestamp",
)  # fmt: skip
_OTHER_TIMES = re.compile(
    r"(?:[\w.-]{1,24}/)?[\W_]?(?:(?:log|event|received?|record|message|msg|utc|iso|local|server|system|unix|app|creation)[\W_]?){0,3}"
    r"(?:time[\W_]?stamp|date[\W_]?time|time|date|ts|(?:time|date)?(?:created|logged|emitted|occurred|reported|generated)(?:[\W_]?at)?"
    r"|instant|when|epoch)"
    r"(?:[\W_]?(?:utc|iso|ms|us|ns|millis|micros|nanos|seconds?|milliseconds))?",
    re.IGNORECASE | re.ASCII,
)
"""Names that people give a time in a layout of their own, after those above."""
_NAME_CHARS, _NAMES = 40, 64
_YEAR = re.compile(r"(?<!\d)20\d\d(?!\d)")
_LEVELS = (
    "level", "severity", "lvl", "severityText", "log.level", "levelname", "level_name", "@l",
    "loglevel", "Level", "LogLevel", "L",
)  # fmt: skip
_LOGGERS = ("log.logger", "logger_name", "loggerName", "logger", "_logger", "log_name", "name")


def has_time(found: Mapping[str, Any]) -> bool:
    """Return whether an object has a key of a time."""
    return not found.keys().isdisjoint(TIMES) or "instant" in found or "timestampSeconds" in found


def read_other_times(found: Mapping[str, Any]) -> Iterator[str | float]:
    """Yield the values of an object that may be its time, if it has no key of a known one."""
    for key, value in islice(found.items(), _NAMES):
        if len(key) > _NAME_CHARS or _OTHER_TIMES.fullmatch(key) is None:
            continue
        is_text = isinstance(value, str) and len(value) <= _NAME_CHARS
        if is_text and (value.isdecimal() or _YEAR.search(value) is not None):
            yield int(value) if value.isdecimal() else value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield value


def is_dated(found: Json) -> bool:
    """Return whether an object has a key of a time, also of a name that people give it."""
    return has_time(found) or next(read_other_times(found), None) is not None


def is_entry(found: Json) -> bool:
    """Return whether an object is an entry by itself: a message with a level or a time."""
    return not found.keys().isdisjoint(MESSAGES) and (
        has_time(found) or not found.keys().isdisjoint(_LEVELS)
    )


def dicts(found: Json, key: str) -> Iterator[Json]:
    """Yield the objects of a list; none if the key holds no list."""
    yield from (each for each in as_list(found.get(key)) if isinstance(each, dict))


def as_list(value: Any) -> list[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def first(found: Json, paths: tuple[str, ...]) -> str:
    """Return the first text under some keys; a key may be a path with dots. Empty: none."""
    for path in paths:
        value = found.get(path)
        if value is None and "." in path:
            value = found
            for part in path.split("."):
                value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    return ""


def level_of(found: Json) -> str:
    """Return an entry's level, in capitals, or an empty text."""
    for key in _LEVELS:
        value = found.get(key)
        if isinstance(value, str):
            return value.upper()
    return ""


def logger_of(found: Json) -> str | None:
    """Return the name of an entry's logger."""
    log = found.get("log")  # ECS with nested fields
    nested = log.get("logger") if isinstance(log, dict) else None
    return nested if isinstance(nested, str) else first(found, _LOGGERS) or None
