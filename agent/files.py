"""Durable changes of files and folders."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from agent.errors import OutputError

_LOCK = ".lock"
_OWNER_READS, _OWNER_ENTERS = 0o600, 0o700


def replace_file(path: Path, data: Iterable[bytes]) -> None:
    """Replace a file in one step; after a crash it is whole, old or new. Only its owner reads it.

    Raises:
        OutputError: the disk refuses; the old file stays.

    """
    part = path.with_name(f".{path.name}.part")
    try:
        make_folder(path.parent)
        with os.fdopen(_create_private(part), "wb") as file:
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
        make_folder(folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(folder / _LOCK, flags, _OWNER_READS)
    except OSError as error:
        raise OutputError(f"{purpose} {str(folder)!r}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise OutputError(f"{purpose} {str(folder)!r}: {advice}") from error
    return fd


def make_folder(folder: Path) -> None:
    """Create a folder, and those above it, for its owner alone; an existing one is unchanged.

    Raises:
        OSError: the disk refuses, or one of them is a file.

    """
    if not folder.is_dir():
        if _is_there(folder):
            raise NotADirectoryError(errno.ENOTDIR, _other_than_folder(folder))
        make_folder(folder.parent)
        folder.mkdir(mode=_OWNER_ENTERS, exist_ok=True)


def check_folder(folder: Path, purpose: str) -> None:
    """Check that files can be created in a folder, or the folder itself, without creating it.

    Raises:
        OutputError: it, or one above it, is a file or closed to this user.

    """
    try:
        there = next(each for each in (folder, *folder.absolute().parents) if _is_there(each))
        fault = _folder_fault(there, is_above=there != folder)
    except OSError as error:
        fault = str(error.strerror)
    if fault:
        raise OutputError(f"{purpose} {str(folder)!r}: {fault}")


def _folder_fault(folder: Path, *, is_above: bool) -> str:
    if not folder.is_dir():
        return _other_than_folder(folder)
    listed = 0 if is_above else os.R_OK
    if os.access(folder, os.W_OK | os.X_OK | listed, effective_ids=True):
        return ""
    is_read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    return os.strerror(errno.EROFS if is_read_only else errno.EACCES)


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _other_than_folder(path: Path) -> str:
    found = "a file" if path.exists() else "a link to nothing"
    return f"{str(path)!r} is {found}, wanted a folder"


def is_other_than_file(path: Path) -> bool:
    """Return whether a link, a pipe, a device or a folder is there.

    A link may lead out of the folder, and a pipe's reader waits for its writer.
    """
    try:
        return not stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _create_private(path: Path) -> int:
    """Create a file; one that a crash left, a link or a pipe there is removed."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_READS)


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
