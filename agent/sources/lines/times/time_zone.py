"""Time zones by their IANA names."""

from datetime import UTC, timezone
from zoneinfo import ZoneInfo

from agent.errors import ConfigError


def find_zone(name: str) -> ZoneInfo | timezone:
    """Return a time zone.

    Raises:
        ConfigError: no such time zone.

    """
    if name == "UTC":  # also where the machine has no time zone data
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(
            f"timezone: unknown time zone {name!r}; wanted an IANA name such as 'Europe/Berlin' "
            "(and time zone data on this machine)"
        ) from error
