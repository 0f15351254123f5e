"""What the agent's process may need: above that it keeps no more than it has.

Theory of operation. Every store has a bound of its own, in rows; this one is in bytes, for all of
them together. Python returns what it has freed late and never all of it, so to forget would show
nothing and go on for ever; but what is forgotten makes room for what is new. So at the limit the
stores stay as large as they are, and what can be done without is let go at once.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path

_STATM = Path("/proc/self/statm")
_SHRINK_AGAIN_AT = 1.02
"""Of what was there when something was let go: then again."""
_RESTORE_BELOW = 0.95
"""Of the limit: stores may grow again."""

_log = logging.getLogger(__name__)


def resident_bytes() -> int:
    """Return what the process has in memory; 0 where the system does not say (no Linux)."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class MemoryLimit:
    """Watches it."""

    def __init__(self, resident: Callable[[], int] = resident_bytes) -> None:
        """``resident`` says how many bytes the process has."""
        self._resident = resident
        self._shrunk_bytes = 0
        """With how many bytes something was let go last; 0: the stores may grow."""

    def enforce(
        self, limit_bytes: int, spare: Callable[[], None], grow: Callable[[], None]
    ) -> None:
        """Look once. Call ``spare`` above the limit, and when it grows on; ``grow`` once below."""
        found = self._resident()
        if found > limit_bytes and found > self._shrunk_bytes * _SHRINK_AGAIN_AT:
            if not self._shrunk_bytes:
                keys = {"limit_bytes": limit_bytes, "found_bytes": found}
                _log.warning("memory_limit", extra=keys)
            self._shrunk_bytes = found
            spare()
        elif self._shrunk_bytes and found < limit_bytes * _RESTORE_BELOW:
            self._shrunk_bytes = 0
            _log.info("memory_limit_restored", extra={"limit_bytes": limit_bytes})
            grow()
