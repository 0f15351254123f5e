"""One open log file, plain or gzip'ed, and its fingerprint."""

import codecs
import contextlib
import gzip
import hashlib
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

from msgspec import Meta

from agent.sources.lines.times.timestamps import estimate_arrival

FIRST_BLOCK_BYTES = 64 << 10
"""Size of the first block of a file, whose lines may all be a client's, in objects: 0.2 s."""
BLOCK_BYTES = 256 << 10
"""Size of a block if many lines are a client's: the event loop waits 10 ms."""
LARGE_BLOCK_BYTES = 2 << 20
"""Size of blocks with few lines of a client. Python's own code leaves the
CPU's cache between two blocks, so few large ones are faster. A block holds the longest line, so
that reading proceeds even if the agent is restarted after each block."""
_LEAST_BLOCK_BYTES, BLOCK_S = 16 << 10, 0.05
"""Smallest block, and the CPU time that one may take before the next ones are smaller."""
_PIECE_BYTES = 256 << 10
"""Bytes of a block between two looks at the CPU time: a client's lines may follow MiB of others.
They would take twice as long where no line is a client's: such a block is read at once."""
_SAMPLE_BYTES = 2 << 10
"""Bytes at the begin of each piece that show whether lines are a client's."""
_MANY_LINES = 1 << 14
"""Lines of a client are many if there is one in fewer bytes than this."""
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""Begin of a log that PowerShell's ``>`` wrote."""
_WIDE_BYTES, _LEAST_WIDE = 128, 16
"""Bytes whose every second one is zero, in UTF-16."""
DELIMITER = re.compile(rb"\Asep=[,;\t|]\r?\n")
"""First line of a CSV for a spreadsheet."""
_HEAD_BYTES = 1024
_WHOLE = 1 << 62
"""Offset after the end of a packed file: its length is not known without unpacking it."""
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_SUFFIX = ".gz"
_PACKING_S = 2.0
"""A packed file that changed so recently may still be written."""


class NotAFileError(OSError):
    """A folder, a FIFO or a device: it would block, or never end."""


class DamagedError(OSError):
    """A gzip'ed file that does not unpack, from here on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Read position and fingerprint of a file, to find it under another name or as a copy."""

    device: int
    inode: int
    head_bytes: Annotated[int, Meta(ge=0, le=_HEAD_BYTES)]
    """Number of the file's first bytes in the digest ``head``."""
    head: str
    offset: Annotated[int, Meta(ge=0, le=_WHOLE)]


NOTHING = Place(device=0, inode=0, head_bytes=0, head="", offset=0)
"""The end of no file: each file of a rotated set follows it."""


class Chunk(NamedTuple):
    """The next bytes of a file."""

    data: bytes
    arrival_at: float
    """Unix seconds: at most now, and at most the file's last change."""
    starts_file: bool


class OpenLog:
    """A file's descriptor and offset; offsets are those of the plain text."""

    def __init__(self, path: Path) -> None:
        """Open at the start.

        Raises:
            OSError: as open() does; NotAFileError if it is not a plain file.

        """
        # Non-blocking, as open() of a FIFO waits for a writer; it is refused below.
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(self._fd)
            raise NotAFileError(f"{path}: not a plain file")
        self.device, self.inode = found.st_dev, found.st_ino
        self.offset = 0
        self._head = b""
        self._raw = io.FileIO(self._fd)
        self._gzip = None
        is_begun = path.suffix == _GZIP_SUFFIX and found.st_size < len(_GZIP_MAGIC)
        self._packed = is_begun or os.pread(self._fd, 2, 0) == _GZIP_MAGIC
        if self._packed:
            self._gzip = gzip.GzipFile(fileobj=self._raw)
        self._file = self._gzip or self._raw

    def skip_to(self, offset: int) -> None:
        """Continue at ``offset``.

        Raises:
            OSError: the file cannot be read up to there.

        """
        with _translate_damage():
            self._head = self._first(min(offset, _HEAD_BYTES))
            self._file.seek(offset)
        self.offset = offset

    def end(self) -> Place:
        """Return the place after the last byte; nothing is read.

        Raises:
            OSError: the file cannot be read.

        """
        with _translate_damage():
            head = self._first(_HEAD_BYTES)
        offset = _WHOLE if self._packed else self.size
        return replace(self.place, head_bytes=len(head), head=_digest(head), offset=offset)

    def read(self, now: float, size: int) -> Chunk | None:
        """Return the next ``size`` bytes, fewer at the end, then None.

        Raises:
            OSError: the file cannot be read.

        """
        data = self._raw.read(size) if self._gzip is None else _unpack(self._gzip, size)
        if not data:
            return None
        arrival_at = min(now, estimate_arrival(os.fstat(self._fd).st_mtime, now))
        chunk = Chunk(data, arrival_at, self.offset == 0)
        self._head += data[: _HEAD_BYTES - len(self._head)]
        self.offset += len(data)
        return chunk

    def give_back(self, count: int) -> bool:
        """Read the last ``count`` bytes again; return False for a packed file: it is read once."""
        if self._packed:
            return False
        self._raw.seek(-count, os.SEEK_CUR)
        self.offset -= count
        return True

    @property
    def place(self) -> Place:
        """Return the read position."""
        return Place(
            device=self.device,
            inode=self.inode,
            head_bytes=len(self._head),
            head=_digest(self._head),
            offset=self.offset,
        )

    @property
    def size(self) -> int:
        """Return the bytes in the file; of a gzip'ed one the bytes read, as it does not grow."""
        return self.offset if self._packed else os.fstat(self._fd).st_size

    def stamp(self) -> tuple[int, int] | None:
        """Return the size and last change of a file that is read to its end; None: it is not."""
        found = os.fstat(self._fd)
        is_read = not self._packed and found.st_size == self.offset
        return (found.st_size, found.st_mtime_ns) if is_read else None

    def is_being_packed(self, now: float) -> bool:
        """Return whether the rest of a packed file may still come, at Unix seconds ``now``."""
        return self._packed and 0 <= now - self.changed_at < _PACKING_S

    def unpack_again(self) -> None:
        """Continue at the same offset of a packed file that has grown.

        Raises:
            DamagedError: it does not unpack.

        """
        self._raw.seek(0)
        self._file = self._gzip = gzip.GzipFile(fileobj=self._raw)
        with _translate_damage():
            self._file.seek(self.offset)

    @property
    def changed_at(self) -> float:
        """Return the time of the last change (Unix seconds)."""
        return os.fstat(self._fd).st_mtime

    @property
    def has_bytes(self) -> bool:
        """Whether the file holds any bytes."""
        return self._packed or self.size > 0

    def is_unchanged(self) -> bool:
        """Return whether the bytes read are still there: a truncated file can have grown again."""
        if self._packed:
            return True
        return self.size >= self.offset and self._first(len(self._head)) == self._head

    def is_at(self, path: Path) -> bool:
        """Whether the path still leads to this file."""
        try:
            found = path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self.device, self.inode)

    def is_copy_of(self, place: Place) -> bool:
        """Return whether this is the file of the place, or a copy of it."""
        if not place.head_bytes:  # nothing was read of it
            return self.is_inode_of(place)
        if not self._packed and self.size < place.offset:
            return False
        try:
            with _translate_damage():
                return _digest(self._first(place.head_bytes)) == place.head
        except OSError:
            return False

    def is_whole_of(self, place: Place) -> bool:
        """Return whether all of its bytes were read: the place is its end."""
        has_length = self._packed or self.size == place.offset
        return place.head_bytes > 0 and has_length and self.is_copy_of(place)

    def is_inode_of(self, place: Place) -> bool:
        """Return whether it is the same inode, under any name."""
        return (self.device, self.inode) == (place.device, place.inode)

    @property
    def descriptor(self) -> int:
        """Return the number of the open descriptor."""
        return self._fd

    def close(self) -> None:
        """Close the file; the place stays available."""
        self._file.close()
        self._raw.close()

    def _first(self, count: int) -> bytes:
        if not self._packed:
            return os.pread(self._fd, count, 0)
        self._file.seek(0)
        try:
            return self._file.read(count)
        finally:
            self._file.seek(self.offset)  # the next read continues where it was


def find_utf_16(head: bytes) -> str | None:
    """Return the encoding of a text in UTF-16, also without its mark, as of a piece; None: no."""
    if head.startswith(UTF_16):
        return "utf-16"
    begin = head[:_WIDE_BYTES]
    places = ((begin[1::2], begin[::2], "utf-16-le"), (begin[::2], begin[1::2], "utf-16-be"))
    names = (
        name
        for zeros, others, name in places
        if len(zeros) >= _LEAST_WIDE and not zeros.strip(b"\0") and b"\0" not in others
    )
    return next(names, None)


def _unpack(file: gzip.GzipFile, left: int) -> bytes:
    """Read a block; at damage it ends before the damaged bytes, and the next read fails."""
    pieces: list[bytes] = []
    try:
        with _translate_damage():
            while left and (piece := file.read1(left)):
                pieces.append(piece)
                left -= len(piece)
    except DamagedError:
        if not pieces:
            raise
    return b"".join(pieces)


def cut_block(block: Chunk, is_quiet: Callable[[bytes], bool]) -> Iterator[Chunk]:
    """Yield a block in pieces of some `_PIECE_BYTES`, each with whole lines; a quiet one whole."""
    data, end = block.data, 0
    starts = range(0, len(data), _PIECE_BYTES)
    if all(is_quiet(data[start : start + _SAMPLE_BYTES]) for start in starts):
        yield block
        return
    while end < len(data):
        begin, end = end, data.find(b"\n", end + _PIECE_BYTES) + 1 or len(data)
        yield Chunk(data[begin:end], block.arrival_at, block.starts_file and not begin)


def choose_block_bytes(size: int, lines: int, took_s: float) -> int:
    """Return the size of the next block, by a client's lines in the last one and its CPU time.

    Lines in objects, or without times, take up to 0.7 ms each, and the event loop waits.
    """
    if size and took_s > BLOCK_S:
        fitting = int(size * BLOCK_S / took_s)
        return min(BLOCK_BYTES, max(_LEAST_BLOCK_BYTES, fitting))
    return BLOCK_BYTES if lines * _MANY_LINES > size else LARGE_BLOCK_BYTES


@contextlib.contextmanager
def _translate_damage() -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedError(str(error)) from error


def _digest(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()[:32]
