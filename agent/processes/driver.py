"""A client's driver as a child process: commands go in, events come out.

A driver reads commands from its stdin, one a line, and writes events to its stdout, one a line. It
halts at the end of its stdin, so it never outlives its parent, even a killed one.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType
from typing import IO, Self, cast

from agent.processes.child import Child
from agent.processes.errors import ProcessError

_END = ""


class Driver(Child):
    """One running driver. ``log`` is the log file of its logging framework."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it. Its stderr goes to a file beside its log."""
        super().__init__(name, command, log, environment=environment, piped=True)
        self._events: SimpleQueue[str] = SimpleQueue()
        self._stdin = cast("IO[str]", self._process.stdin)
        self._stdout = cast("IO[str]", self._process.stdout)
        self._reader = Thread(target=self._read, name=f"events of {name}", daemon=True)
        self._reader.start()

    def send(self, command: str) -> None:
        """Send a command and do not wait; unread events are dropped."""
        self._forget()
        try:
            self._stdin.write(command + "\n")
        except (BrokenPipeError, ValueError) as error:  # ValueError: the pipe is closed
            text = f"{self.name} is gone; wanted it to {command!r}; {self.last_words()}"
            raise ProcessError(text) from error

    def do(self, command: str, timeout_s: float = 120.0) -> None:
        """Send a command and wait until it is done."""
        self.send(command)
        self.wait_for(f"done {command.split(' ', 1)[0]}", timeout_s)

    def wait_for(self, start: str, timeout_s: float = 120.0) -> str:
        """Return the next event that begins with ``start``; events before it are dropped.

        Raises:
            ProcessError: it did not arrive in time, or the driver ended or failed before.

        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            event = self._next(deadline_s, start)
            if event == _END:
                self._events.put(_END)  # for the next call
                raise ProcessError(f"{self.name} ended; wanted {start!r}; {self.last_words()}")
            if event.startswith(start):
                return event
            if event.startswith("error"):
                raise ProcessError(f"{self.name}: {event}; wanted {start!r}; {self.last_words()}")

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end, close its pipes and return the exit code."""
        code = super().wait(timeout_s)
        self._reader.join(timeout_s)
        with suppress(BrokenPipeError):  # a command that never arrived
            self._stdin.close()
        self._stdout.close()
        return code

    def pause(self) -> None:
        """Drop unread events and stop it by SIGSTOP."""
        self._forget()
        super().pause()

    def close(self, timeout_s: float = 30.0) -> None:
        """Close the client as its user would, and wait for the end of the process."""
        self.do("close", timeout_s)
        self.wait(timeout_s)

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
                    self._events.put(_END)  # the end is not dropped
                    return

    def _next(self, deadline_s: float, wanted: str) -> str:
        try:
            return self._events.get(timeout=max(0.0, deadline_s - time.monotonic()))
        except Empty:
            raise ProcessError(f"{self.name}: no {wanted!r} in time; {self.last_words()}") from None

    def _read(self) -> None:
        for line in self._stdout:
            self._events.put(line.rstrip())
        self._events.put(_END)


class Drivers:
    """Starts drivers of one cluster's clients; a context manager that ends those that still run.

    Logs are ``FOLDER/CLIENT_ID.log``; a restarted client appends to its own.
    """

    def __init__(self, bootstrap: str, folder: Path) -> None:
        """Start nothing yet."""
        self._bootstrap = bootstrap
        self._folder = folder
        self._started: list[Driver] = []

    def _log(self, client_id: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{client_id}.log"

    def _start(
        self, client_id: str, command: Sequence[str | Path], *settings: Mapping[str, str] | None
    ) -> Driver:
        """Start a client with settings; later ones override."""
        merged = {"bootstrap.servers": self._bootstrap}
        for given in settings:
            merged |= given or {}
        arguments = [f"{key}={value}" for key, value in merged.items()]
        driver = Driver(client_id, [*command, *arguments], self._log(client_id))
        self._started.append(driver)
        return driver

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for driver in self._started:
            driver.kill()
