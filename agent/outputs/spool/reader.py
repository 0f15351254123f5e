"""Reader of a spool's lines in order, from any sequence number: the input of pushes and producers.

The spool itself is the buffer while a receiver is unreachable: bounded in bytes, durable.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from agent.errors import OutputError
from agent.outputs.spool.directory import SpoolLine
from metrics.model.sample import MALFORMED

_SEQ = re.compile(r"-(?P<seq>\d{12,})\.jsonl")
_decode = msgspec.json.Decoder(SpoolLine).decode


class SpoolBatch(NamedTuple):
    """Whole lines, as in the spool."""

    lines: list[bytes]
    first: int
    last: int


def spool_id(folder: Path) -> str:
    """Return the spool's own id, created once: sequence numbers count within one spool.

    Raises:
        OutputError: it cannot be written.

    """
    path = folder / ".id"
    try:
        if not path.exists():
            part = path.with_name(".id.part")
            part.write_text(uuid4().hex, encoding="ascii")
            part.replace(path)
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise OutputError(f"spool {str(folder)!r}: {error}") from error


def batch_after(folder: Path, seq: int, max_lines: int, max_bytes: int) -> SpoolBatch | None:
    """Return the next lines beyond ``seq``, at least one; None if there are none.

    Raises:
        OSError: the folder cannot be read.

    """
    lines: list[bytes] = []
    first = last = size = 0
    for number, line in _lines_after(folder, seq):
        if lines and (len(lines) >= max_lines or size + len(line) > max_bytes):
            break
        first, last, size = first or number, number, size + len(line)
        lines.append(line)
    return SpoolBatch(lines, first, last) if lines else None


def _lines_after(folder: Path, seq: int) -> Iterator[tuple[int, bytes]]:
    names = [path.name for path in folder.iterdir() if _SEQ.search(path.name)]
    files = sorted((_first(name), name) for name in names)
    begun = [number for number, _ in files if number <= seq + 1]
    start = max(begun, default=0)
    for number, name in files:
        if number >= start:
            yield from _lines(folder, name, seq)


def _lines(folder: Path, name: str, seq: int) -> Iterator[tuple[int, bytes]]:
    path = folder / name
    if not path.exists():  # published since the folder was listed
        path = folder / name.removeprefix(".").removesuffix(".part")
    try:
        with path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    return
                try:
                    number = _decode(line).seq
                except MALFORMED:
                    continue
                if number > seq:
                    yield number, line
    except FileNotFoundError:  # the oldest file was evicted, for the spool's bound
        return


def _first(name: str) -> int:
    found = _SEQ.search(name)
    return 0 if found is None else int(found["seq"])
