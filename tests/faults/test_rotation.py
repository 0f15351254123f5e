"""Rotation by every common method under load: each line that a file has kept is read, once.

``make faults`` rotates 1,000 times; ``FAULT_ROTATIONS`` sets how often.
"""

import gzip
import itertools
import os
import random
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.sources.lines.following.config import FilesConfig
from agent.sources.lines.following.tail import FileTail
from metrics.model.signals import Signal
from tests.faults.rotating_log import RotatingLog, numbers

_ROTATIONS = int(os.environ.get("FAULT_ROTATIONS", "60"))
_BYTES_MAX, _BYTES_MAX_AT_TIMES = 300_000, 3_000_000
"""Less than is read at once, and more."""
_DEADLINE_S = 60.0

pytestmark = pytest.mark.timeout(120 + 3 * _ROTATIONS)


class _Reader:
    """A stream parser that keeps the lines' numbers."""

    lines = 0
    unread = manual = long = 0

    def __init__(self, _stream: str = "") -> None:
        self.read: list[int] = []
        self._part = b""

    @property
    def counts(self) -> "_Reader":
        return self

    @property
    def pending(self) -> int:
        return len(self._part)

    def is_quiet(self, _sample: bytes) -> bool:
        return False

    def feed(self, data: bytes, _arrival_at: float) -> list[Signal]:
        lines, end, self._part = (self._part + data).rpartition(b"\n")
        self.read += numbers(lines + end)
        return []

    def flush(self) -> list[Signal]:
        return []

    def release_overdue(self, _until: float) -> list[Signal]:
        return []

    def horizon(self) -> float | None:
        return None

    def oldest_pending_at(self) -> float | None:
        return None

    @property
    def origins(self) -> tuple[str, ...]:
        return ()

    @property
    def eviction_count(self) -> int:
        return 0

    @property
    def newest(self) -> int:
        return self.read[-1] if self.read else 0

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        del state


class _Tail:
    """The source of type ``logs`` over one file."""

    def __init__(self, path: Path) -> None:
        self.reader = _Reader()
        self.source = FileTail(FilesConfig(paths=(str(path),)), lambda _: self.reader)

    def read(self) -> bool:
        """Read a block; tell whether there is more."""
        return self.source.step(lambda _: None, lambda _stream, _at: None)

    def close(self) -> None:
        for tail in self.source._tails.values():
            tail.follower.close()


def _rotate_under_load(log: RotatingLog, tail: _Tail, method: str) -> None:
    """Rotate at random sizes; the reader is somewhere in the file, at its end or a file behind."""
    chance, rotate = random.Random(12472), getattr(log, method)
    for number in range(_ROTATIONS):
        most = _BYTES_MAX_AT_TIMES if chance.random() < 0.05 else _BYTES_MAX
        size = chance.randrange(1, most)
        deadline_s = time.monotonic() + _DEADLINE_S
        while log.size < size:
            assert time.monotonic() < deadline_s
            if chance.random() < 0.5:
                tail.read()
        if number % 3:  # else it is found behind; what a rotation removes unread is lost
            _catch_up(log, tail)
        rotate()
        if chance.random() < 0.5:
            tail.read()
    _wait_for_a_line(log)  # an empty file does not yet follow those before it
    log.stop()


def _catch_up(log: RotatingLog, tail: _Tail) -> None:
    """Read the rotated files to their end: on a busy machine the number of blocks is not known."""
    deadline_s = time.monotonic() + _DEADLINE_S
    wanted = log.last_rotated()
    while tail.reader.newest < wanted:
        assert time.monotonic() < deadline_s, f"line {wanted} was not read"
        tail.read()


def _wait_for_a_line(log: RotatingLog) -> None:
    deadline_s = time.monotonic() + _DEADLINE_S
    while log.size == 0:
        assert time.monotonic() < deadline_s


def _read_all(tail: _Tail) -> list[int]:
    for _ in range(8):  # a rotated set is read a block of a file at a time
        while tail.read():
            pass
    return tail.reader.read


@pytest.mark.parametrize("method", ["create", "copytruncate"])
def test_nothing_that_a_file_has_kept_is_lost(tmp_path: Path, method: str) -> None:
    with RotatingLog(tmp_path) as log:
        tail = _Tail(log.path)
        _wait_for_a_line(log)  # an empty file has no head to know its copy by
        tail.read()
        _rotate_under_load(log, tail, method)
        kept = log.kept()
        read = _read_all(tail)
        tail.close()

    assert len(kept) > _ROTATIONS
    assert sorted(set(kept) - set(read)) == []
    assert len(read) == len(set(read))
    if method == "create":
        assert read == list(range(1, read[-1] + 1))


_MANY = 120
_SPARE = 40
"""Descriptors that are left: fewer than there are rotated files."""


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """Let this process open few more files than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    free = (number for number in itertools.count() if number not in used)
    limit = next(itertools.islice(free, _SPARE, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _shift_all(path: Path, kept: int, method: str) -> None:
    for number in range(kept, 0, -1):
        path.with_name(f"{path.name}.{number}").rename(path.with_name(f"{path.name}.{number + 1}"))
    first = path.with_name(f"{path.name}.1")
    if method == "create":
        path.rename(first)
        path.touch()
    elif method == "gzip":
        first.write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        path.touch()
    else:
        shutil.copyfile(path, first)
        os.truncate(path, 0)


@pytest.mark.parametrize("method", ["create", "gzip", "copytruncate"])
@pytest.mark.parametrize("unread", [1, 60])
@pytest.mark.usefixtures("few_descriptors")
def test_a_rotated_set_of_more_files_than_descriptors_is_read_once(
    tmp_path: Path, method: str, unread: int
) -> None:
    """Some are found at a look: one, or more than can be open."""
    path, tail = tmp_path / "app.log", _Tail(tmp_path / "app.log")
    for number in range(1, _MANY + 1):
        with path.open("ab") as file:
            file.write(f"line {number} of the load {'x' * 200}\n".encode())
        if number == 1 or number % unread == 0:
            while tail.read():
                pass
        _shift_all(path, number - 1, method)
    path.write_bytes(f"line {_MANY + 1} of the load {'x' * 200}\n".encode())
    read = _read_all(tail)
    faults = tail.source.health.errors
    tail.close()

    assert read == list(range(1, _MANY + 2))
    assert "unreadable" not in faults
    assert "descriptors" not in faults
