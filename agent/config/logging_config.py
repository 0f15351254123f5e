"""``log``: level and format of the agent's own log."""

from dataclasses import dataclass
from enum import StrEnum


class LogLevel(StrEnum):
    """As stdlib logging has them."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How the agent's own log is written."""

    LOGFMT = "logfmt"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LoggingConfig:
    """The agent's own log."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.LOGFMT
