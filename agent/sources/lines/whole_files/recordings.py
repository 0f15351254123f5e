"""Recorded logs as streams: plain, gzip'ed or stdin; a rotated set is one stream."""

import gzip
import io
import os
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.errors import SourceError, reason_of
from agent.sources.lines.times.timestamps import estimate_arrival

STDIN = "-"
_GZIP = b"\x1f\x8b"
_BLOCK_BYTES = 1 << 20
_HEAD_BYTES = 1 << 16
"""The first time of a file is searched in this many bytes."""

_BASE_SUFFIXES = ("log", "out", "txt", "err", "json")
"""Suffixes before a rotation's number; `worker.1` alone is a name of its own."""
_SUFFIX = rf"\.(?:{'|'.join(_BASE_SUFFIXES)})"
_DATE = r"(?P<date>(?:19|20)\d\d-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01]))"
_MONTH_FIRST = r"(?P<month_first>(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])-(?:19|20)\d\d)"
"""As in log4j2's documentation."""
_NUMBERS = r"(?P<numbers>[-_T.]?\d{1,6}(?:[-_.:]\d{1,6}){0,3})?"
"""The time of day, and an index of the files of one date or time: all grow."""
_ROTATED = (
    # logrotate: app.log.2.gz, app.log-20261121; log4j and Logback: app.log.2026-11-21.1
    re.compile(
        rf"(?P<stem>.+)(?P<suffix>{_SUFFIX})[.-](?:{_DATE}{_NUMBERS}|(?P<number>\d{{1,4}}))"
    ),
    # log4j and Logback: app-2026-11-21.log, app.2026-11-21.1.log, app-2026-11-21-06-1.log
    re.compile(rf"(?P<stem>.+?)[._-]{_DATE}{_NUMBERS}(?P<suffix>{_SUFFIX})"),
    re.compile(rf"(?P<stem>.+?)[._-]{_MONTH_FIRST}{_NUMBERS}(?P<suffix>{_SUFFIX})"),
)
_BEING_PACKED = re.compile(rf"({_SUFFIX})\d{{6,}}\.tmp")
"""Logback's name of a dated file that it packs."""
_INNER_NUMBER = re.compile(rf"(?P<stem>.+)[._-](?P<number>\d{{1,4}})(?P<suffix>{_SUFFIX})")


Failed = Callable[[SourceError], None]
Order = tuple[int, str, tuple[int, ...]]
"""Sort key of a rotated set's files, oldest first."""


def fail(error: SourceError) -> None:
    """Raise the error of an unreadable file."""
    raise error


def _drop(_note: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Rotation:
    """A file's place in its rotated set: the stream's path, and a sort key, oldest first."""

    base: Path
    order: Order


@dataclass(frozen=True, slots=True)
class Recording:
    """One stream: its name (the absolute path without a rotation's suffix) and its files."""

    stream: str
    files: tuple[Path, ...]

    @property
    def is_pipe(self) -> bool:
        """Whether it can be read only once, and may still be written."""
        return any(map(_is_pipe, self.files))

    def blocks(
        self,
        failed: Failed = fail,
        timezone: str | None = None,
        note: Callable[[str], None] = _drop,
    ) -> Iterator[tuple[bytes, float]]:
        """Yield pieces with their arrival time: the file's last change.

        ``failed`` takes the SourceError of an unreadable or damaged file; if it does not raise, the
        other files follow. ``note`` takes sentences on the order of the entries.
        """
        from agent.sources.lines.whole_files.exports import normalise  # noqa: PLC0415 - for replay alone

        for path in self.files:
            arrival_at = None
            try:
                for data, arrival_at in normalise(_blocks(path), timezone, note):
                    yield data, arrival_at
            except SourceError as error:
                failed(error)
                if arrival_at is not None:  # it may have broken off within a line
                    yield b"\n", arrival_at


def stream_of(path: Path) -> str:
    r"""Return a path as valid text: bytes that are not UTF-8 become ``\xff``."""
    return os.fsencode(path).decode(errors="backslashreplace")


def rotation(path: Path) -> Rotation:
    """Split a path into its base and its place in the rotation."""
    name = _BEING_PACKED.sub(r"\1", path.name.removesuffix(".gz") or path.name)
    match = next(filter(None, (pattern.fullmatch(name) for pattern in _ROTATED)), None)
    if match is None:
        return Rotation(path.with_name(name), (2, "", ()))
    found = match.groupdict()
    base = path.with_name(found["stem"] + found["suffix"])
    if found.get("number"):
        return Rotation(base, (0, "", (-int(found["number"]),)))
    date = found.get("date") or "{2}-{0}-{1}".format(*found["month_first"].split("-"))
    return Rotation(base, (1, date, tuple(map(int, re.findall(r"\d+", found["numbers"] or "")))))


def inner_rotation(path: Path) -> Rotation | None:
    """Split ``app-1.log`` as `rotation` does; None: it has no number before its suffix.

    That may as well be the name of another log, such as a second worker's.
    """
    match = _INNER_NUMBER.fullmatch(path.name.removesuffix(".gz"))
    if match is None:
        return None
    base = path.with_name(match["stem"] + match["suffix"])
    return Rotation(base, (0, "", (-int(match["number"]),)))


def recordings(paths: Sequence[str]) -> list[Recording]:
    """Group paths into streams, in the order of their first file.

    Raises:
        SourceError: a path that does not exist or is no file.
    """
    streams: dict[str, dict[Path, Order]] = {}
    for text in paths:
        if text == STDIN:
            streams[STDIN] = {Path(STDIN): rotation(Path(STDIN)).order}
            continue
        path = Path(text).absolute()
        if not path.is_file() and not path.is_fifo():
            found = "a folder" if path.is_dir() else "nothing"
            raise SourceError(f"{text}: found {found}, wanted a log file; - is stdin")
        place = rotation(path)
        streams.setdefault(stream_of(place.base), {})[path] = place.order
    _join_inner_numbers(streams)
    return [Recording(stream, _oldest_first(files)) for stream, files in streams.items()]


def _join_inner_numbers(streams: dict[str, dict[Path, Order]]) -> None:
    """Join ``app-1.log.gz`` and its like with ``app.log`` if both are given.

    Without a packed file among them, they may be the logs of several workers.
    """
    numbered: dict[str, dict[Path, Order]] = {}
    for stream, files in streams.items():
        place = inner_rotation(Path(stream))
        if place is not None and stream_of(place.base) in streams:
            found = numbered.setdefault(stream_of(place.base), {})
            found.update(dict.fromkeys(files, place.order))
    for base, files in numbered.items():
        if any(path.suffix == ".gz" for path in files):
            for path in files:
                streams.pop(stream_of(rotation(path).base), None)
            streams[base] |= files


def _oldest_first(files: dict[Path, Order]) -> tuple[Path, ...]:
    """Sort a rotated set; by default log4j2 gives the newest file the highest number."""
    ordered = sorted(files, key=lambda path: files[path])
    numbered = [path for path in ordered if files[path][0] == 0]
    if len(numbered) > 1:
        first, last = (_first_time(numbered[at]) for at in (0, -1))
        if first is not None and last is not None and first > last:
            numbered.reverse()
    return (*numbered, *ordered[len(numbered) :])


def _first_time(path: Path) -> float | None:
    if _is_pipe(path):
        return None
    from agent.sources.lines.whole_files.exports import find_first_time  # noqa: PLC0415 - for few sets alone

    try:
        data, arrival_at = next(_blocks(path), (b"", 0.0))
    except SourceError:  # its reader reports it
        return None
    return find_first_time(data[:_HEAD_BYTES], arrival_at)


def _is_pipe(path: Path) -> bool:
    """Return whether it can be read once: stdin, a named pipe or a shell's ``<(...)``."""
    return str(path) == STDIN or path.is_fifo()


def _blocks(path: Path) -> Iterator[tuple[bytes, float]]:
    try:
        if _is_pipe(path):
            for data in _read_pipe(path):
                yield data, time.time()
            return
        arrival_at = estimate_arrival(path.stat().st_mtime, time.time())
        with open_unpacked(path) as file:
            # GzipFile's `read` loses what it has where it fails
            read = file.read if isinstance(file, io.FileIO) else file.read1
            while data := read(_BLOCK_BYTES):
                yield data, arrival_at
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"{path}: {reason_of(error)}") from error


def _read_pipe(path: Path) -> Iterator[bytes]:
    """Yield the pieces of a pipe as soon as they come; packed ones are unpacked."""
    is_stdin = str(path) == STDIN
    place = sys.stdin.fileno() if is_stdin else path
    with open(place, "rb", closefd=not is_stdin) as file:
        is_packed = file.peek(2)[:2] == _GZIP
        whole = gzip.GzipFile(fileobj=file) if is_packed else file
        while data := whole.read1(_BLOCK_BYTES):
            yield data


def open_unpacked(path: Path) -> io.FileIO | gzip.GzipFile:
    """Open a file without a buffer: a block is read into the bytes that are searched."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return gzip.open(path) if packed else io.FileIO(path)
