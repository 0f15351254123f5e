"""Heads of recorded files: their text, and the texts that show their source type."""

import io
import zlib
from pathlib import Path

from agent.errors import SourceError, reason_of
from agent.sources.lines.whole_files.log_file import find_utf_16
from agent.sources.lines.whole_files.recordings import open_unpacked

HEAD_BYTES = 1 << 16
BROKER_LOG = (
    rb"\[Group(?:Coordinator|MetadataManager) |\[(?:Kafka|Broker)Serv|\.coordinator\.group\."
)
"""A text that a broker prints."""
STATISTICS = rb'"rebalance_cnt\\{0,7}"|"cgrp": ?\{'
"""A text of librdkafka's statistics, also within a text whose quotes are escaped."""


def read_head(path: str) -> bytes:
    """Return the first `HEAD_BYTES` of a file, unpacked.

    Raises:
        SourceError: the file cannot be read, or only once.

    """
    if Path(path).is_fifo():
        raise SourceError(f"{path}: found a pipe, which is read only once; wanted SOURCE:{path}")
    head = b""
    try:
        with open_unpacked(Path(path)) as file:
            read = file.read if isinstance(file, io.FileIO) else file.read1
            while len(head) < HEAD_BYTES and (data := read(HEAD_BYTES - len(head))):
                head += data
    except (OSError, EOFError, zlib.error) as error:
        if not head:  # else its reader reports the damage, at its place
            raise SourceError(f"{path}: {reason_of(error)}") from error
    encoding = find_utf_16(head)
    return head if encoding is None else head.decode(encoding, "replace").encode()
