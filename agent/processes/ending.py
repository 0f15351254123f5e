"""The end of the process within a limit, whatever its disk, a peer or a thread does.

Theory of operation. A thread that waits on a disk cannot be cancelled, and Python's event loop ends
only once its threads have ended; a blocked event loop does not even see a signal. So the signals
that end the process go to a thread that does nothing else: every other thread blocks them. It has
the process end in order, and after the limit at once. What was acknowledged is on disk by then, and
the next start continues from there. Once all is on disk, threads that still compute or wait are not
waited for.
"""

import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

LIMIT_S = 9.0
"""From the signal to the end; a service manager waits at least 10 s."""
_LOG_S = 0.5
"""For the last log line, which may go to a blocked disk, too."""
_REST_S = 1.0
"""For the interpreter's own end, once all is on disk."""
_ENDS = {signal.SIGTERM, signal.SIGINT}

_log = logging.getLogger(__name__)


class EndInTime:
    """Ends the process within `LIMIT_S` of a signal, from `watch` to the end of the context."""

    def __init__(self) -> None:
        self._drained = threading.Event()

    def __enter__(self) -> Self:
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def watch(self, stop: Callable[[], None]) -> None:
        """Call ``stop`` from another thread at a signal; call this before other threads begin.

        They inherit that these signals are blocked. The thread has the privileges of its caller, so
        those that are not needed are dropped before.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
        threading.Thread(target=self._watch, args=(stop,), name="ending", daemon=True).start()

    def note_drained(self) -> None:
        """Note that all is on disk: nothing is waited for any more."""
        gc.freeze()  # the interpreter's last collections looked at 20,000 streams for 0.8 s of CPU
        self._drained.set()

    def _watch(self, stop: Callable[[], None]) -> None:
        signal.sigwait(_ENDS)
        stop()
        if self._drained.wait(LIMIT_S):
            time.sleep(_REST_S)
            os._exit(0)
        _force()


def _force() -> None:
    threading.Thread(target=_report, name="last line", daemon=True).start()
    time.sleep(_LOG_S)
    os._exit(1)


def _report() -> None:
    hint = "a disk or a peer does not answer; what was acknowledged is safe"
    _log.error("end_forced", extra={"after_s": LIMIT_S, "hint": hint})
