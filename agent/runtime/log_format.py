"""Formats of the agent's own log: event name and keys, as logfmt or JSON, one line each on stderr.

Code logs with the standard library: ``log.info("listening", extra={"address": ...})``; ``extra``
holds the keys.
"""

import json
import logging
import sys
from typing import Any

from metrics.model.sample import format_time

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


def configure(level: str, style: str) -> None:
    """Send all logging to stderr; ``style`` is ``logfmt`` or ``json``. Repeated calls are fine."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else LogfmtFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # the agent logs the HTTP server's life events itself; its DEBUG is of no use here
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


class LogfmtFormatter(logging.Formatter):
    """``ts=... level=info event=listening address=127.0.0.1:12472``."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quote(value)}" for key, value in _fields(record).items())


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_fields(record), default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = {
        "ts": format_time(record.created),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": record.getMessage(),
    }
    fields |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
    if record.exc_info:
        fields["traceback"] = logging.Formatter().formatException(record.exc_info)
    return fields


def _quote(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and not any(char in text for char in ' "=')
    return text if plain and text else json.dumps(text)
