"""Durable changes of files and folders."""

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from agent.errors import OutputError

_LOCK = ".lock"


def replace_file(path: Path, data: Iterable[bytes]) -> None:
    """Replace a file in one step; after a crash it is whole, old or new.

    Raises:
        OutputError: the disk refuses; the old file stays.

    """
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise write_error(path, error) from error


def lock_folder(folder: Path, purpose: str, advice: str) -> int:
    """Create the folder and lock it against other processes; the lock ends with the process.

    Raises:
        OutputError: the folder cannot be used, or another process holds it.

    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise OutputError(f"{purpose} {str(folder)!r}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise OutputError(f"{purpose} {str(folder)!r}: {advice}") from error
    return fd


def sync_folder(folder: Path) -> None:
    """Make renames in the folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_error(path: Path, error: OSError) -> OutputError:
    """Return the error of a checkpoint that cannot be written."""
    return OutputError(f"checkpoint {str(path)!r}: {error.strerror}")
