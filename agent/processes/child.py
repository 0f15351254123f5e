"""A child process: how everything that we run is started, watched and ended.

It has a process group of its own: a Ctrl-C at the terminal is ours to pass on.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.processes.errors import ProcessError

_STEP_S = 0.05
_LAST_LINES = 10


class Child:
    """Runs from the start. A context manager that ends it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        piped: bool = False,
    ) -> None:
        """Start it; what it prints goes to the log.

        With ``piped`` its stdin and stdout are ours, and stderr goes beside the log.
        """
        self.name = name
        self.log = log
        self._printed = log.with_suffix(".stderr") if piped else log
        with self._printed.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603
                [str(part) for part in command],
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else output,
                stderr=output,
                env=environment,
                start_new_session=True,
                text=True,
                bufsize=1,
            )

    @property
    def pid(self) -> int:
        """Its process, which is its process group as well."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there (a paused one is)."""
        return self._process.poll() is None

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end and return its exit code.

        Raises:
            subprocess.TimeoutExpired: it did not end in time.
        """
        return self._process.wait(timeout_s)

    def wait_until(self, condition: Callable[[], bool], wanted: str, timeout_s: float) -> None:
        """Look until the condition holds.

        Raises:
            ProcessError: it did not in time, or the process ended before; with its last words.
        """
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if not self.is_running or time.monotonic() > deadline_s:
                found = f"not in {timeout_s:.0f} s" if self.is_running else "it ended"
                raise ProcessError(
                    f"{self.name}: wanted {wanted}, but {found}; {self.last_words()}"
                )
            time.sleep(_STEP_S)

    def pause(self) -> None:
        """SIGSTOP: all threads stand still, as on a frozen host."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, to its own children too, and wait until it is gone; fine if it already is."""
        if self.is_running:
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(10.0)

    def stop(self, timeout_s: float = 15.0) -> int:
        """SIGTERM, then SIGKILL for one that does not end in time; return its exit code."""
        if self.is_running:
            self.resume()
            self._process.terminate()
        try:
            return self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.wait()

    def last_words(self) -> str:
        """Return the last lines of what it printed and of its log."""
        texts = [path for path in dict.fromkeys((self._printed, self.log)) if path.exists()]
        lines = [line for path in texts for line in path.read_text(errors="replace").splitlines()]
        return "\n".join([f"last lines of {self.log}:", *lines[-_LAST_LINES:]])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
