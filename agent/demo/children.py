"""Our own commands as child processes that never outlive us in peace: SIGTERM, then SIGKILL."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent.lab.errors import LabError

_END_TIMEOUT_S = 15.0
# of short jobs: without the optimizing compiler Spark takes 33 s of CPU instead of 60
_SHORT_JOBS = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def command(*arguments: str | Path) -> list[str]:
    """Return ``rebalance-agent ARGUMENTS`` for this very interpreter."""
    return [sys.executable, "-P", "-m", "agent", *map(str, arguments)]


def run(arguments: Sequence[str | Path], log: Path) -> None:
    """Run one of our commands on Spark to its end, what it says into a log.

    Raises:
        LabError: it failed; with its last words.
    """
    with child(command(*arguments), log, _SHORT_JOBS | dict(os.environ)) as process:
        code = process.wait()
    if code:
        last = log.read_text(errors="replace").splitlines()[-5:]
        raise LabError(f"{arguments[0]} failed with exit code {code}:\n" + "\n".join(last))


@contextmanager
def child(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process; it has a session of its own, so that a Ctrl-C is ours to pass on."""
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: S603
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ask a process to end, wait, and kill one that does not; fine if it has ended."""
    process.terminate()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
