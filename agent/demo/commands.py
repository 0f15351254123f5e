"""Our own commands as child processes."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from agent.lab.child import Child
from agent.lab.errors import LabError

# of short jobs: without the optimizing compiler Spark takes 33 s of CPU instead of 60
_SHORT_JOBS = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def start(*arguments: str | Path, log: Path, environment: Mapping[str, str] | None = None) -> Child:
    """Start ``rebalance-agent ARGUMENTS`` on this very interpreter."""
    command = [sys.executable, "-P", "-m", "agent", *arguments]
    return Child(str(arguments[0]), command, log, environment=environment)


def run(*arguments: str | Path, log: Path) -> None:
    """Run one of our commands on Spark to its end.

    Raises:
        LabError: it failed; with its last words.
    """
    with start(*arguments, log=log, environment=_SHORT_JOBS | dict(os.environ)) as child:
        code = child.wait()
    if code:
        raise LabError(f"{child.name} failed with exit code {code}; {child.last_words()}")
