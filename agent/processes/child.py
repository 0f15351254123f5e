"""Child processes of this program: start, watch and end.

Each has a separate process group, so that a Ctrl-C at the terminal does not reach it directly.
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
    """Runs a process from the start. A context manager that ends it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        piped: bool = False,
    ) -> None:
        """Start it; its output goes to the log.

        With ``piped`` its stdin and stdout are pipes, and stderr goes beside the log.
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
        """The process id; it is the id of the process group as well."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process exists (a paused one does)."""
        return self._process.poll() is None

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end and return the exit code.

        Raises:
            subprocess.TimeoutExpired: it did not end in time.
        """
        return self._process.wait(timeout_s)

    def wait_until(self, condition: Callable[[], bool], wanted: str, timeout_s: float) -> None:
        """Poll the condition until it holds.

        Raises:
            ProcessError: it did not in time, or the process ended before; with its last lines.
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
        """Stop all its threads by SIGSTOP, as on a frozen host."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume it by SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it and its own children with SIGKILL, and wait for the end."""
        if self.is_running:
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(10.0)

    def stop(self, timeout_s: float = 15.0) -> int:
        """End it by SIGTERM, after the timeout by SIGKILL; return the exit code."""
        if self.is_running:
            self.resume()
            self._process.terminate()
        try:
            return self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.wait()

    def last_words(self) -> str:
        """Return the last lines of its output and of its log."""
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
