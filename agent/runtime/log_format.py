"""Formats of the agent's own log: event name and keys, as logfmt or JSON, one line each on stderr.

Code logs with the standard library: ``log.info("listening", extra={"address": ...})``; ``extra``
holds the keys.
"""

import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from metrics.model.sample import format_time

REPEAT_BURST = 200.0
"""Lines of one place in the code at once: a node's logs are named at the start."""
REPEAT_S = 1.0
"""Then one line in so many seconds."""
MAX_VALUE_CHARS = 4096
"""Of a value, as peers choose some: a broker's error message may have 100 MiB."""
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


def configure(level: str, style: str) -> None:
    """Send all logging to stderr; ``style`` is ``logfmt`` or ``json``. Repeated calls are fine."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else LogfmtFormatter())
    handler.addFilter(RepeatLimit())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # the agent logs the HTTP server's life events itself; its DEBUG is of no use here
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


class RepeatLimit(logging.Filter):
    """Limit on the log lines of each place in the code: a peer may cause one with each request.

    The next line of the place has the number of lines left out as ``suppressed``. Lines of level
    DEBUG are not limited, because a user has switched them on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Every place has its whole burst."""
        super().__init__()
        self._clock = clock
        self._places: dict[tuple[str, int], _LogPlace] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written."""
        if record.levelno < logging.INFO:
            return True
        now, key = self._clock(), (record.pathname, record.lineno)
        place = self._places.setdefault(key, _LogPlace(now))
        place.room = min(REPEAT_BURST, place.room + (now - place.at) / REPEAT_S)
        place.at = now
        if place.room < 1.0:
            place.suppressed += 1
            return False
        place.room -= 1.0
        if place.suppressed:
            record.suppressed, place.suppressed = place.suppressed, 0
        return True


@dataclass(slots=True)
class _LogPlace:
    at: float
    room: float = REPEAT_BURST
    suppressed: int = 0


class LogfmtFormatter(logging.Formatter):
    """``ts=... level=info event=listening address=127.0.0.1:12472``."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quote(value)}" for key, value in _fields(record).items())


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_fields(record), default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "ts": format_time(record.created),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": record.getMessage(),
    }
    fields |= {key: _clip(value) for key, value in vars(record).items() if key not in _STANDARD}
    if record.exc_info:
        fields["traceback"] = logging.Formatter().formatException(record.exc_info)
    return fields


def _clip(value: object) -> object:
    """Return a value as it is, or the begin of its text if that is long."""
    text = str(value)
    more = len(text) - MAX_VALUE_CHARS
    return value if more <= 0 else f"{text[:MAX_VALUE_CHARS]}... ({more} more)"


def _quote(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and not any(char in text for char in ' "=')
    return text if plain and text else json.dumps(text)
