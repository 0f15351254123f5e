"""What a run leaves behind: processes and listening ports; either is a failure of the run.

Whatever a test starts inherits a mark in its environment, by which it is found when its parent is
gone too. A pytest that a test starts finds the mark set, and leaves the look to the outer one.
"""

import gc
import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest

_MARK = "REBALANCE_AGENT_TEST_RUN"
_PORTS = "listening"
_PATIENCE_S = 90.0
"""A JVM ends some time after the process that it belongs to."""


class LeftOver:
    """The plugin of the process that the run began in, which looks when all is over."""

    def __init__(self) -> None:
        self._run = uuid.uuid4().hex
        self._found: list[str] = []
        os.environ[_MARK] = self._run

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker of xdist has said."""
        self._found += getattr(node, "workeroutput", {}).get(_PORTS, [])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        yield
        del os.environ[_MARK]
        self._found += [*_listening(), *self._processes()]
        if self._found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        for line in self._found:
            print(f"LEFT OVER: {line}")  # noqa: T201 - below the summary, where it is read

    def _processes(self) -> list[str]:
        """Give what still runs some time, tell of the rest, and end it."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while (running := self._running()) and time.monotonic() < deadline_s:
            time.sleep(0.1)
        found = []
        for process in running:
            with suppress(psutil.Error):
                found.append(f"process {process.pid}: {' '.join(process.cmdline())[:500]}")
                process.send_signal(signal.SIGKILL)
        return found

    def _running(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(_MARK) == self._run and process.pid != os.getpid():
                    found.append(process)
        return found


class Worker:
    """The plugin of a worker of xdist: its own ports are told to where the run began."""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        session.config.workeroutput[_PORTS] = _listening()  # type: ignore[attr-defined]


def register(config: pytest.Config) -> None:
    """Have the process look for what it has to."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Worker())
    elif _MARK not in os.environ:
        config.pluginmanager.register(LeftOver())


def _listening() -> list[str]:
    gc.collect()
    here = psutil.Process().net_connections(kind="inet")
    return [
        f"port {each.laddr.port}, on which the tests' own process listens"
        for each in here
        if each.status == psutil.CONN_LISTEN
    ]
