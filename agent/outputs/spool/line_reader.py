"""Lines of a spool's file, each of a bounded length: a damaged file may have a line without end."""

from collections.abc import Iterator
from typing import BinaryIO

LINE_MAX_BYTES = 8 << 20
"""Longest line; that of a change has two values of 256 Ki characters, each of six bytes at most."""


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield each line with its end. Of a longer one, its first bytes are yielded, without an end.

    The last line of a file that is still written may lack its end, too; see `is_cut`.
    """
    while line := file.readline(LINE_MAX_BYTES):
        if is_cut(line):
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(LINE_MAX_BYTES)
        yield line


def is_cut(line: bytes) -> bool:
    """Return whether a line was too long."""
    return len(line) == LINE_MAX_BYTES and not line.endswith(b"\n")
