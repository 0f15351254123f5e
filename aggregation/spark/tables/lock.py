"""An advisory lock on the folder of the tables: one writer at a time."""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from aggregation.spark.errors import SparkJobError, SparkSetupError

_TIMEOUT_S = 30.0
"""Within this time a killed ingest's JVM ends its commit and releases the lock."""
_POLL_S = 0.2


@contextmanager
def table_lock(
    tables: Path, notify: Callable[[str], None], timeout_s: float = _TIMEOUT_S
) -> Iterator[int]:
    """Hold the lock and provide its file descriptor, so that child processes can hold it too.

    Raises:
        SparkSetupError: the folder cannot be written to.
        SparkJobError: another process holds it for longer than ``timeout_s`` seconds.

    """
    with _open_lock(tables) as file:
        deadline, is_reported = time.monotonic() + timeout_s, False
        while not _take(file.fileno()):
            if time.monotonic() >= deadline:
                raise SparkJobError(f"another ingest is writing to {str(tables)!r}")
            if not is_reported:
                notify(f"waiting for another ingest to let go of {str(tables)!r}")
                is_reported = True
            time.sleep(_POLL_S)
        yield file.fileno()


def _open_lock(tables: Path) -> IO[bytes]:
    try:
        tables.mkdir(parents=True, exist_ok=True)
        return (tables / "_lock").open("ab")
    except OSError as error:
        text = f"cannot write to the tables' folder {str(tables)!r}: {error.strerror}"
        raise SparkSetupError(text) from error


def _take(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
