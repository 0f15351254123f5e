"""The end of the process within a time limit, even if its disk, a peer or a thread hangs.

Theory of operation. A thread that waits on a disk cannot be cancelled, and Python's event loop ends
only after its threads. A blocked event loop does not even see a signal. So a thread of its own
handles the signals that end the process, and all other threads block them. It starts an orderly
end, and after the limit it ends the process at once. All acknowledged data are on disk then, and
the next start continues from there. When all data are on disk, the process ends without waiting for
threads that still compute or wait.
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
"""For the last log line: it may go to a blocked disk, too."""
_REST_S = 1.0
"""For the interpreter's own end, once all is on disk."""
_ENDS = {signal.SIGTERM, signal.SIGINT}

_log = logging.getLogger(__name__)


class EndInTime:
    """Ends the process within `LIMIT_S` of a signal, from `watch` to the end of the context."""

    def __init__(self, report: Callable[[], None] | None = None) -> None:
        """``report`` writes the last line of a forced end; by default it is logged."""
        self._drained = threading.Event()
        self._report = report or _report

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
        """Note that all data are on disk: the process need not wait for anything any more."""
        gc.freeze()  # the interpreter's last collections looked at 20,000 streams for 0.8 s of CPU
        self._drained.set()

    def _watch(self, stop: Callable[[], None]) -> None:
        signal.sigwait(_ENDS)
        stop()
        if self._drained.wait(LIMIT_S):
            time.sleep(_REST_S)
            os._exit(0)
        threading.Thread(target=self._report, name="last line", daemon=True).start()
        time.sleep(_LOG_S)
        os._exit(1)


def _report() -> None:
    hint = "a disk or a peer does not answer; what was acknowledged is safe"
    _log.error("end_forced", extra={"after_s": LIMIT_S, "hint": hint})
