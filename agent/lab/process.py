"""A Java driver as a child process: commands go in, events come out, and it never outlives us.

A driver reads commands from its stdin, one a line, and writes events to its stdout, one a line. It
halts at the end of its stdin, so it dies with us even where we are killed. It has a process group
of its own: a Ctrl-C at the terminal is ours to pass on.
"""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType
from typing import IO, Self, cast

from agent.lab.errors import LabError

_END = ""


class Driver:
    """One running driver. ``log`` is where its logging framework writes."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        """Start it. What it writes to stderr goes beside its log."""
        self.name = name
        self.log = log
        self._events: SimpleQueue[str] = SimpleQueue()
        with log.with_suffix(".stderr").open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
                bufsize=1,
            )
        self._stdin = cast("IO[str]", self._process.stdin)
        self._stdout = cast("IO[str]", self._process.stdout)
        self._reader = Thread(target=self._read, name=f"events of {name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process, which is its process group as well."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there (a paused one is)."""
        return self._process.poll() is None

    def send(self, command: str) -> None:
        """Give a command and do not wait; events that nobody waited for so far are dropped."""
        self._forget()
        try:
            self._stdin.write(command + "\n")
        except (BrokenPipeError, ValueError) as error:  # ValueError: we have closed it
            raise LabError(f"{self.name} is gone; wanted it to {command!r}") from error

    def do(self, command: str, timeout_s: float = 30.0) -> None:
        """Give a command and wait until it is done."""
        self.send(command)
        self.wait_for(f"done {command.split(' ', 1)[0]}", timeout_s)

    def wait_for(self, start: str, timeout_s: float = 30.0) -> str:
        """Return the next event that starts so; those before it are dropped.

        Raises:
            LabError: it did not come in time, or the driver ended or failed before.

        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            event = self._next(deadline_s, start)
            if event == _END:
                self._events.put(_END)  # for whoever asks again
                raise LabError(f"{self.name} ended; wanted {start!r}; {self._last()}")
            if event.startswith(start):
                return event
            if event.startswith("error"):
                raise LabError(f"{self.name}: {event}; wanted {start!r}; {self._last()}")

    def pause(self) -> None:
        """SIGSTOP: all threads stand still, as on a frozen host; events so far are dropped."""
        self._forget()
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; fine if it already is."""
        if self.running:
            self._process.kill()
        self._wait(10.0)

    def stop(self, timeout_s: float = 15.0) -> None:
        """SIGTERM, then SIGKILL for one that does not end in time."""
        if self.running:
            self.resume()
            self._process.terminate()
        try:
            self._wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def close(self, timeout_s: float = 30.0) -> None:
        """Close the client as its user would, and wait for the end of the process."""
        self.do("close", timeout_s)
        self._wait(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def _forget(self) -> None:
        with suppress(Empty):
            while True:
                if self._events.get_nowait() == _END:
                    self._events.put(_END)  # the end stays told
                    return

    def _next(self, deadline_s: float, wanted: str) -> str:
        try:
            return self._events.get(timeout=max(0.0, deadline_s - time.monotonic()))
        except Empty:
            raise LabError(f"{self.name}: no {wanted!r} in time; {self._last()}") from None

    def _read(self) -> None:
        for line in self._stdout:
            self._events.put(line.rstrip())
        self._events.put(_END)

    def _wait(self, timeout_s: float) -> None:
        self._process.wait(timeout_s)
        self._reader.join(timeout_s)
        with suppress(BrokenPipeError):  # a command that never arrived
            self._stdin.close()
        self._stdout.close()

    def _last(self) -> str:
        texts = [path for path in (self.log.with_suffix(".stderr"), self.log) if path.exists()]
        lines = [line for path in texts for line in path.read_text(errors="replace").splitlines()]
        return f"last lines of {self.log}:\n" + "\n".join(lines[-10:])
