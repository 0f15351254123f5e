"""Strict decoding of a source's position: a damaged one is that source's alone."""

import logging
from typing import Any, TypeVar

import msgspec

from agent.sources.base import SourceHealth

_log = logging.getLogger(__name__)

_Wanted = TypeVar("_Wanted", bound=msgspec.Struct)


def decode_position(
    position: dict[str, Any] | None, wanted: type[_Wanted], source: str, health: SourceHealth
) -> _Wanted:
    """Return a position from a checkpoint; an unusable one is noted and as if there were none."""
    try:
        return msgspec.convert(position or {}, wanted, str_keys=True)
    except (ValueError, TypeError) as error:
        note_unusable(source, error, health)
        return wanted()


def note_unusable(source: str, error: Exception, health: SourceHealth) -> None:
    """Log and count that a position is unusable; the agent keeps a copy of its checkpoint then."""
    _log.warning("position_unusable", extra={"source": source, "error": str(error)})
    health.damaged.append(source)
    health.errors["position"] = health.errors.get("position", 0) + 1
