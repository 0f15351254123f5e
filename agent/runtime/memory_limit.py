"""The memory limit of the agent's process: above it, no store grows.

Theory of operation. Every store has its own bound in rows; this limit is in bytes, for all of them
together. Python returns freed memory late and never all of it, so eviction until memory falls would
never end; but evicted rows make room for new ones. Above the limit the C library first returns the
free memory that it keeps, of a restart or a large page. If that is not enough, stores keep their
size and dispensable buffers are released at once.
"""

import contextlib
import gc
import logging
import os
from collections.abc import Callable
from pathlib import Path

_STATM = Path("/proc/self/statm")
_SHRINK_AGAIN_AT = 1.02
"""Buffers shrink again after this growth since the last shrink, as a factor."""
_RESTORE_BELOW = 0.95
"""Stores may grow again below this share of the limit."""
_WORTH_A_RELEASE = 0.25
"""Above this share of the limit a start may have left much free memory."""

_log = logging.getLogger(__name__)


def resident_bytes() -> int:
    """Return the resident size of the process; 0 if the system does not report it (no Linux)."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def release_free_memory() -> None:
    """Return free memory of the C library to the system; other libraries than glibc's keep it.

    Cycles are freed first: a page's template and its macros are one, and full collections are rare.
    What is frozen is not visited (`agent.runtime.collector`).
    """
    import ctypes  # noqa: PLC0415 - at the limit alone

    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class MemoryLimit:
    """Compares resident memory with the limit, and shrinks or restores the stores."""

    def __init__(
        self,
        resident: Callable[[], int] = resident_bytes,
        release: Callable[[], None] = release_free_memory,
    ) -> None:
        """``resident`` returns the resident size of the process in bytes.

        ``release`` returns free memory to the system.
        """
        self._resident, self._release = resident, release
        self._shrunk_bytes = 0
        """Resident size at the last shrink; 0: the stores may grow."""
        self._is_starting = True

    def end_start(self, limit_bytes: int) -> None:
        """Release the memory that the start has freed, once, if the process is large.

        Most of it is the text of the checkpoint.
        """
        if self._is_starting and self._resident() > limit_bytes * _WORTH_A_RELEASE:
            self._release()
        self._is_starting = False

    def enforce(
        self, limit_bytes: int, shrink: Callable[[], None], restore: Callable[[], None]
    ) -> None:
        """Check once. Call ``shrink`` above the limit and at further growth; ``restore`` below."""
        found = self._resident()
        if found > max(limit_bytes, self._shrunk_bytes * _SHRINK_AGAIN_AT):
            self._release()
            found = self._resident()
        if found > limit_bytes and found > self._shrunk_bytes * _SHRINK_AGAIN_AT:
            if not self._shrunk_bytes:
                keys = {"limit_bytes": limit_bytes, "found_bytes": found}
                _log.warning("memory_limit", extra=keys)
            self._shrunk_bytes = found
            shrink()
        elif self._shrunk_bytes and found < limit_bytes * _RESTORE_BELOW:
            self._shrunk_bytes = 0
            _log.info("memory_limit_restored", extra={"limit_bytes": limit_bytes})
            restore()
