"""Atomic exchange of two folders, so that a reader sees either the old or the new one."""

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # Linux 3.15, glibc 2.28; not on every file system (NFS)


def exchange(one: Path, other: Path) -> None:
    """Exchange the names of two folders.

    Raises:
        OSError: this system or file system cannot do that, or a folder does not exist.

    """
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    paths = os.fsencode(one), os.fsencode(other)
    if renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one), None, str(other))
