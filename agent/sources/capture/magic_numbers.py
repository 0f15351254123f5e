"""First bytes of captures: they distinguish captures from logs, and need no extra."""

import gzip
import zlib
from pathlib import Path

from agent.errors import SourceError, reason_of

GZIP = b"\x1f\x8b"
PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6),
    b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
    b"\xa1\xb2\x3c\x4d": (">", 1e-9),
}
"""Byte order and unit of the time's fraction, by the magic number."""
PCAPNG = b"\x0a\x0d\x0d\x0a"


def is_capture(path: str) -> bool:
    """Return by its first bytes whether a file is a capture; stdin counts as none.

    Raises:
        SourceError: the file cannot be read, or only once.

    """
    if path == "-":
        return False
    if Path(path).is_fifo():
        wanted = f"wanted logs:{path} or pcap:{path}"
        raise SourceError(f"{path}: found a pipe, which is read only once; {wanted}")
    try:
        with Path(path).open("rb") as file:
            magic = file.read(4)
        if magic[:2] == GZIP:
            with gzip.open(path) as file:
                magic = file.read(4)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"{path}: {reason_of(error)}") from error
    return magic in PCAP or magic == PCAPNG
