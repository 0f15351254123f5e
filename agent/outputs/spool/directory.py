"""The spool's folder: its lock, its file names, recovery after a crash.

Only files with a name of `file_name`'s form are read or removed.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from agent.files import is_other_than_file, lock_folder, sync_folder
from agent.outputs.spool.line_reader import read_lines
from metrics.model.sample import MALFORMED

_AGENT_CHARS = 128
"""Characters of an agent's name in a file name, which may have 255 bytes."""
_NAME = re.compile(r"(?P<stamp>\d{8}T\d{9}Z)-.*-(?P<seq>\d{12,})\.jsonl", re.ASCII)


class SpoolLine(msgspec.Struct, frozen=True):
    """The fields of a line that the spool itself needs."""

    seq: int
    id: str


_decode = msgspec.json.Decoder(SpoolLine).decode


def file_stamp(now: float) -> str:
    """Return Unix seconds as the beginning of a name: UTC, milliseconds."""
    at = datetime.fromtimestamp(now, UTC)
    return f"{at:%Y%m%dT%H%M%S}{at.microsecond // 1000:03d}Z"


def file_name(stamp: str, agent: str, seq: int) -> str:
    """Return a name that sorts by time; ``seq`` is the first in the file."""
    return f"{stamp}-{re.sub(r'[^A-Za-z0-9_.-]', '_', agent[:_AGENT_CHARS])}-{seq:012d}.jsonl"


def part_path(final: Path) -> Path:
    """Return the path of a file until it is published: hidden, and no ``*.jsonl``."""
    return final.with_name(f".{final.name}.part")


def take_lock(folder: Path) -> int:
    """Create the folder and keep every other process out; the lock dies with the process.

    Raises:
        OutputError: the folder cannot be used, or another process holds it.

    """
    advice = "another process writes there; give each agent a samples.spool.dir of its own"
    return lock_folder(folder, "spool", advice)


def recover(folder: Path) -> None:
    """Publish part files that a crash left, each cut to its last whole line."""
    for part in sorted(folder.glob(".*.jsonl.part")):
        if is_other_than_file(part):
            continue
        size = sum(len(raw) for raw, _ in _lines(part))
        if size == 0:
            part.unlink()
            continue
        with part.open("r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())
        part.rename(folder / part.name.removeprefix(".").removesuffix(".part"))
    sync_folder(folder)


def list_files(folder: Path) -> list[tuple[str, int]]:
    """Return name and size of each complete file, oldest first."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                try:
                    found.append((entry.name, entry.stat().st_size))
                except FileNotFoundError:  # ingested and cleaned up just now
                    continue
    return sorted(found)


def stamp_of(name: str) -> str:
    """Return the stamp in a published name."""
    return name.partition("-")[0]


def lines_since(folder: Path, seq: int, limit: int) -> list[SpoolLine]:
    """Return the newest ``limit`` lines beyond ``seq``, newest first; at least the newest line."""
    found: list[SpoolLine] = []
    for name, _ in reversed(list_files(folder)):
        lines = [line for _, line in _lines(folder / name)]
        newest = lines[-1:] if not found else []
        found += [line for line in reversed(lines) if line.seq > seq] or newest
        match = _NAME.fullmatch(name)
        if len(found) >= limit or (match is not None and int(match["seq"]) <= seq):
            break
    return found[:limit]


def remove_file(path: Path) -> int:
    """Remove a file and return its number of lines; 0 if it is gone already."""
    try:
        with path.open("rb") as file:
            lines = sum(1 for _ in read_lines(file))
        path.unlink()
    except FileNotFoundError:
        return 0
    return lines


def _lines(path: Path) -> Iterator[tuple[bytes, SpoolLine]]:
    """Yield the lines up to the first incomplete one."""
    with path.open("rb") as file:
        for raw in read_lines(file):
            if not raw.endswith(b"\n"):
                return
            try:
                yield raw, _decode(raw)
            except MALFORMED:  # a loss of power can leave a hole
                return
