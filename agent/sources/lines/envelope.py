"""Takes the wrapping off a raw log line: container formats and JSON layouts.

Theory of operation. A container runtime wraps what a process writes (CRI, Docker's json-file) and
cuts long lines; the pieces are joined again, by stream. What is inside may be JSON of its own: its
message is the text and its time is the entry's. Whatever is not understood is a plain line, so a
broken envelope loses nothing.

The application's clock is better than the runtime's, which is better than the arrival's: a stamp in
the head of `Entry.text` goes before `Entry.at`.
"""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.sources.lines.timestamps import TimestampReader, parse_epoch

JOINED_MAX_CHARS = 1 << 20
"""What is kept of a line that comes in pieces; Kafka names a client in the first few hundred."""
# Docker cuts at 16 KiB: 4 Ki of the longest characters. A shorter piece without a line end is the
# last word of a process that stopped, and nothing continues it.
_DOCKER_PIECE_MIN_CHARS = 4096

# https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
_CRI = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\S{8,32}) (?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S*)? ?",
    re.ASCII,
)
_MESSAGES = ("message", "msg", "short_message", "log", "event")
"""ECS, Logstash and log4j2's JsonLayout; pino, bunyan, zap and slog; GELF; fluentd; structlog."""
_STORED = ("MESSAGE", "textPayload", "line", "@message")
"""A line as a store of logs kept it: journald, Google Cloud, Loki, CloudWatch."""
_FIELDS = ("jsonPayload", "content")
"""A line's own fields, as Google Cloud and Datadog keep them."""
_TIMES = (
    "@timestamp", "timestamp", "time", "ts", "timeMillis", "asctime", "__REALTIME_TIMESTAMP",
)  # fmt: skip
_INSTANTS = (
    ("instant", "epochSecond", "nanoOfSecond"),  # log4j2's JsonLayout
    ("timestamp", "seconds", "nanos"),  # Google Cloud's agent
    (None, "timestampSeconds", "timestampNanos"),  # and its layouts for Logback and log4j2
)
"""A field that holds seconds and nanoseconds, if it is not the entry itself, and their names."""
_EPOCH = re.compile(r"\d{10,19}", re.ASCII)
_LOGGERS = ("log.logger", "logger_name", "loggerName", "logger", "_logger")


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """One line as the application meant it."""

    text: str
    at: float | None
    """Unix seconds: what the JSON layout says, else what the container runtime says."""
    logger: str | None = None


@dataclass(slots=True)
class Pieces:
    """The beginning of a line."""

    text: str
    at: float | None


class Unwrapper:
    """Unwraps the lines of one file, in order."""

    def __init__(self, timezone: str | None = None) -> None:
        """``timezone`` is the IANA name for JSON times without a zone; None is the machine's."""
        self._stamper = TimestampReader(timezone)
        self.pieces: dict[str, Pieces] = {}
        """Of lines, by stream, that later lines continue."""

    def state(self) -> dict[str, Any]:
        """Return what a restart needs of lines that have begun, in types that JSON can carry."""
        return {stream: [begun.text, begun.at] for stream, begun in self.pieces.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a `state` again."""
        self.pieces.update({stream: Pieces(*begun) for stream, begun in state.items()})

    def unwrap(self, raw: bytes, arrival_at: float) -> LogEntry | None:
        """Return the entry of one line, None while it is a piece that a later line continues."""
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        if text.startswith("{"):
            return self._json(text, arrival_at)
        cri = _CRI.match(text)
        if cri is None:
            return LogEntry(text, None)
        at = self._stamper.find(cri["time"], arrival_at)
        return self._piece(cri["stream"], text[cri.end() :], at, arrival_at, last=cri["tag"] == "F")

    def _json(self, text: str, arrival_at: float) -> LogEntry | None:
        found = _decode(text)
        if found is None:
            return LogEntry(text, None)
        log, stream = found.get("log"), _first_text(found, ("stream",))
        if isinstance(log, str) and stream in {"stdout", "stderr"}:  # Docker, also with more fields
            at = self._time(found, arrival_at)
            last = log.endswith("\n") or len(log) < _DOCKER_PIECE_MIN_CHARS
            return self._piece(stream, log.rstrip("\r\n"), at, arrival_at, last=last)
        return self._unwrap_layout(found, None, arrival_at) or self._unwrap_store(
            found, text, arrival_at
        )

    def _unwrap_store(self, found: dict[str, Any], text: str, arrival_at: float) -> LogEntry:
        """Unwrap what a store of logs has written; a plain line where none has."""
        line, at = _first_text(found, _STORED), self._time(found, arrival_at)
        inner: Any = next((found[key] for key in _FIELDS if key in found), None)
        if line is not None and line.startswith("{"):
            inner = _decode(line)
        entry = self._unwrap_layout(inner, at, arrival_at) if isinstance(inner, dict) else None
        plain = LogEntry(text, None) if line is None else LogEntry(line, at)
        return entry or plain

    def _piece(
        self, stream: str, text: str, at: float | None, arrival_at: float, *, last: bool
    ) -> LogEntry | None:
        pieces = self.pieces.pop(stream, None)
        if pieces is not None:
            text = pieces.text + text[: JOINED_MAX_CHARS - len(pieces.text)]
            at = pieces.at
        if not last:
            self.pieces[stream] = Pieces(text[:JOINED_MAX_CHARS], at)
            return None
        found = _decode(text) if text.startswith("{") else None
        entry = None if found is None else self._unwrap_layout(found, at, arrival_at)
        return entry or LogEntry(text, at)

    def _unwrap_layout(
        self, found: dict[str, Any], at: float | None, arrival_at: float
    ) -> LogEntry | None:
        """Return what a layout's JSON says; None where there is no message in it."""
        message = _first_text(found, _MESSAGES)
        if message is None:
            return None
        own = self._time(found, arrival_at)
        return LogEntry(message, at if own is None else own, _logger(found))

    def _time(self, found: dict[str, Any], arrival_at: float) -> float | None:
        for parts, second, nano in _INSTANTS:
            whole = found.get(parts) if parts else found
            if isinstance(whole, dict) and second in whole:
                return _instant(whole[second], whole.get(nano, 0))
        for key in _TIMES:
            value = found.get(key)
            if isinstance(value, str):
                whole = _EPOCH.fullmatch(value) and parse_epoch(int(value))
                return whole or self._stamper.find(value, arrival_at)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return parse_epoch(value)
        return None


def _instant(second: object, nano: object) -> float | None:
    if isinstance(second, int) and isinstance(nano, int):
        return parse_epoch(second * 1_000_000_000 + nano)
    return None


def _decode(text: str) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # cut off, or nested without end
        return None
    return found if isinstance(found, dict) else None


def _first_text(found: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((value for key in keys if isinstance(value := found.get(key), str)), None)


def _logger(found: dict[str, Any]) -> str | None:
    log = found.get("log")  # ECS with nested fields
    nested = log.get("logger") if isinstance(log, dict) else None
    return nested if isinstance(nested, str) else _first_text(found, _LOGGERS)
