"""Small files that a configuration or a folder names, read within bounds.

Theory of operation. Such a path may lead to a device without end, to a pipe that nobody writes, or
to a file of gigabytes. What is read is bounded in bytes, and a pipe in time: a shell's ``<(...)``
is one.
"""

import errno
import os
import select
import stat
import time
from pathlib import Path

MAX_BYTES = 1 << 20
"""Of a token, a password, properties, a certificate or a key store."""
_AUTHORITIES_MAX_BYTES = 16 << 20
"""Of a file of many authorities; that of a machine has 250 KB."""
PIPE_WAIT_S = 5.0
_PIECE_BYTES = 1 << 16


def read_bytes(path: Path, max_bytes: int = MAX_BYTES, wait_s: float = PIPE_WAIT_S) -> bytes:
    """Return the content of a file; of a pipe or a terminal, what comes within ``wait_s``.

    Raises:
        OSError: it cannot be read, is longer, or a pipe's writer does not end in time.

    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return _read(fd, max_bytes, time.monotonic() + wait_s)
    finally:
        os.close(fd)


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a file, in UTF-8, with line feeds as line ends.

    Raises:
        OSError: as of `read_bytes`.
        UnicodeDecodeError: it is no text.

    """
    return read_bytes(path, max_bytes).decode().replace("\r\n", "\n").replace("\r", "\n")


def check_certificates(path: Path | None) -> None:
    """Check a file that OpenSSL reads, which searches a device for a certificate without end.

    Raises:
        OSError: it cannot be read, is no plain file, or is too long.

    """
    if path is None:
        return
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "is a pipe or a device, wanted a file")
    if found.st_size > _AUTHORITIES_MAX_BYTES:
        raise _too_long(_AUTHORITIES_MAX_BYTES)
    path.open("rb").close()


def _read(fd: int, max_bytes: int, deadline_s: float) -> bytes:
    content = bytearray()
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    while True:
        try:
            data = os.read(fd, _PIECE_BYTES)
        except BlockingIOError:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not waiting.poll(left_s * 1000):
                raise TimeoutError(errno.ETIMEDOUT, "is a pipe that does not end in time") from None
            continue
        if not data:
            return bytes(content)
        content += data
        if len(content) > max_bytes:
            raise _too_long(max_bytes)


def _too_long(max_bytes: int) -> OSError:
    size = f"{max_bytes >> 20} MiB" if max_bytes >= MAX_BYTES else f"{max_bytes} bytes"
    return OSError(errno.EFBIG, f"is longer than {size}")
