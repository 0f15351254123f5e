"""Reader of a spool's lines in order, from any sequence number: the input of pushes and producers.

The spool itself is the buffer while a receiver is unreachable: bounded in bytes, durable.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from agent.files import is_other_than_file
from agent.outputs.spool.directory import SpoolLine
from agent.outputs.spool.line_reader import is_cut, read_lines
from metrics.model.sample import MALFORMED

_SEQ = re.compile(r"-(?P<seq>\d{12,})\.jsonl")
_decode = msgspec.json.Decoder(SpoolLine).decode


class SpoolBatch(NamedTuple):
    """Whole lines, as in the spool."""

    lines: list[bytes]
    numbers: list[int]

    @property
    def first(self) -> int:
        """Return the number of the first line."""
        return self.numbers[0]

    @property
    def last(self) -> int:
        """Return the number of the last line."""
        return self.numbers[-1]


def batch_after(folder: Path, seq: int, max_lines: int, max_bytes: int) -> SpoolBatch | None:
    """Return the next lines beyond ``seq``, at least one; None if there are none.

    Raises:
        OSError: the folder cannot be read.

    """
    lines: list[bytes] = []
    numbers: list[int] = []
    size = 0
    for number, line in _lines_after(folder, seq):
        if lines and (len(lines) >= max_lines or size + len(line) > max_bytes):
            break
        size += len(line)
        lines.append(line)
        numbers.append(number)
    return SpoolBatch(lines, numbers) if lines else None


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
    if is_other_than_file(path):
        return
    try:
        with path.open("rb") as file:
            for line in read_lines(file):
                if not line.endswith(b"\n") and not is_cut(line):
                    return
                if (number := _read_number(line)) > seq:
                    yield number, line
    except FileNotFoundError:  # the oldest file was evicted, for the spool's bound
        return


def _read_number(line: bytes) -> int:
    """Return the number of a whole line; 0 of any other."""
    try:
        return 0 if is_cut(line) else _decode(line).seq
    except MALFORMED:
        return 0


def _first(name: str) -> int:
    found = _SEQ.search(name)
    return 0 if found is None else int(found["seq"])


def newest_seq(folder: Path) -> int:
    """Return the last number in a spool; 0 if it is empty.

    Raises:
        OSError: the folder cannot be read.

    """
    names = sorted((_first(path.name), path.name) for path in folder.iterdir())
    for first, name in reversed(names):
        if first and not is_other_than_file(folder / name):
            return max((number for number, _ in _lines(folder, name, 0)), default=first - 1)
    return 0
