"""``log``: level and format of the agent's own log."""

from dataclasses import dataclass
from enum import StrEnum


class LogLevel(StrEnum):
    """Levels of stdlib logging."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """Format of the agent's own log."""

    LOGFMT = "logfmt"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LoggingConfig:
    """Level and format of the agent's own log."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.LOGFMT
