"""Durable changes of files and folders."""

import os
from collections.abc import Iterable
from pathlib import Path

from agent.errors import OutputError


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
