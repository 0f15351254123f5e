"""Rotation as rotators number, pack and remove files: all lines are read once, in order.

The test writes the lines, so it knows the lines that each look of the reader can find. Lines in
files that were rotated before the first look are old.
"""

import gzip
import itertools
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.sources.lines.following.config import FilesConfig
from agent.sources.lines.following.tail import SCAN_S, FileTail
from tests.faults.rotating_log import numbers
from tests.faults.test_rotation import _Reader

_ROUNDS = int(os.environ.get("FAULT_ROTATIONS", "60")) // 4
_STEPS = 12
_KEPT = (1, 2, 5)

pytestmark = pytest.mark.timeout(120 + 12 * _ROUNDS)


class _Set:
    """A rotated set; ``packing`` is of each rotated file, of all but the newest, or of none.

    ``name`` is that of a rotated file.
    """

    def __init__(
        self,
        folder: Path,
        *,
        copies: bool,
        ascends: bool,
        packing: str,
        kept: int,
        name: str = "app.log.{}",
    ) -> None:
        self._name = name
        self.path = folder / "app.log"
        self._copies, self._ascends = copies, ascends
        self._packing, self._kept = packing, kept
        self._number = self._last = 0
        self._older: list[Path] = []
        """The newest first."""
        self.path.touch()

    def write(self) -> None:
        with self.path.open("ab") as file:
            for _ in range(random.Random(self._number).choice([1, 3, 20])):
                self._number += 1
                file.write(b"line %d of the load %s\n" % (self._number, b"x" * 200))

    def rotate(self) -> None:
        if not self._ascends:
            self._shift()
        self._last += 1
        number = self._last if self._ascends else 1
        rotated = self.path.with_name(self._name.format(number))
        time.sleep(0.02)  # a file system's times are as exact as the kernel's clock
        if self._copies:
            shutil.copyfile(self.path, rotated)
            os.truncate(self.path, 0)
        else:
            self.path.rename(rotated)
            self.path.touch()
        self._older.insert(0, rotated)
        for old in self._older[self._kept :]:
            old.unlink()
        del self._older[self._kept :]
        packed = {"none": 0, "delayed": -1, "at once": 1}[self._packing]
        for at in range(len(self._older)):
            if packed and at >= (packed < 0) and self._older[at].suffix != ".gz":
                self._older[at] = _pack(self._older[at], keeps_time=packed < 0)

    def _shift(self) -> None:
        for at in reversed(range(len(self._older))):
            old = self._older[at]
            end = ".gz" if old.suffix == ".gz" else ""
            self._older[at] = old.rename(self.path.with_name(self._name.format(at + 2) + end))

    def lines(self) -> list[int]:
        """Return the numbers of the lines that the set holds now."""
        texts = [
            gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            for path in [*reversed(self._older), self.path]
        ]
        return [number for text in texts for number in numbers(text)]

    def own_lines(self) -> list[int]:
        return numbers(self.path.read_bytes())


def _pack(path: Path, *, keeps_time: bool) -> Path:
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    if keeps_time:  # as gzip does; what writes the log and packs it at once keeps none
        os.utime(packed, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    path.unlink()
    return packed


class _Agent:
    """A source with one file; it may be down."""

    def __init__(self, path: Path) -> None:
        self._config = FilesConfig(paths=(str(path),))
        self.reader = _Reader()
        self._now = time.time()
        self._source: FileTail | None = None
        self._position: dict[str, Any] = {}

    def look(self) -> None:
        if self._source is None:
            self._source = FileTail(
                self._config,
                lambda _: self.reader,
                position=self._position,
                clock=lambda: self._now,
            )
        self._now += SCAN_S
        for _ in range(8):  # a rotated set is read a block of a file at a time
            while self._source.step(lambda _: None, lambda _stream, _at: None):
                pass

    def stop(self) -> None:
        if self._source is not None:
            self._position = msgspec.json.decode(msgspec.json.encode(self._source.checkpoint()))
            for tail in self._source._tails.values():
                tail.follower.close()
            self._source = None


@pytest.mark.parametrize("packing", ["none", "at once", "delayed"])
@pytest.mark.parametrize("order", ["newest is 1", "newest is last"])
@pytest.mark.parametrize("method", ["create", "copytruncate"])
def test_what_a_look_can_find_is_read_once(
    tmp_path: Path, method: str, order: str, packing: str
) -> None:
    for number, kept in itertools.product(range(_ROUNDS), _KEPT):
        folder = tmp_path / f"{number}-{kept}"
        folder.mkdir()
        log = _Set(
            folder,
            copies=method == "copytruncate",
            ascends=order == "newest is last",
            packing=packing,
            kept=kept,
        )
        _try_round(log, random.Random(number), f"round {number}, {kept} kept")


@pytest.mark.parametrize("packing", ["none", "at once", "delayed"])
@pytest.mark.parametrize("order", ["newest is 1", "newest is last"])
def test_numbers_before_the_suffix_are_a_set_where_one_of_them_was_read(
    tmp_path: Path, order: str, packing: str
) -> None:
    """As log4j2's and Logback's `app-%i.log.gz`; another worker's log is called alike."""
    for number in range(_ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        ascends = order == "newest is last"
        log = _Set(
            folder, copies=False, ascends=ascends, packing=packing, kept=_STEPS, name="app-{}.log"
        )
        log.write()
        _try_round(log, random.Random(number), f"round {number}", olds=0)


def test_another_workers_log_is_no_part_of_a_set(tmp_path: Path) -> None:
    log = _Set(tmp_path, copies=False, ascends=False, packing="at once", kept=3)
    (tmp_path / "app-1.log").write_bytes(b"line 1000001 of another worker\n")
    agent = _Agent(log.path)
    for _ in range(4):
        log.write()
        agent.look()
        log.rotate()
        log.write()
        log.rotate()
    log.write()
    agent.look()
    agent.stop()

    assert agent.reader.read == list(range(1, log.lines()[-1] + 1))


def _try_round(log: _Set, chance: random.Random, name: str, olds: int | None = None) -> None:
    for _ in range(chance.choice([0, 0, 1, 2]) if olds is None else olds):
        log.write()
        log.rotate()
    agent, old, wanted = _Agent(log.path), set(log.lines()) - set(log.own_lines()), set[int]()
    agent.look()
    steps = []
    for _ in range(_STEPS):
        steps.append(chance.choice(["write", "write and rotate", "look", "look", "stop"]))
        if "write" in steps[-1]:
            log.write()
        if "rotate" in steps[-1]:
            log.rotate()
        if steps[-1] == "look":
            agent.look()
            wanted |= set(log.lines()) if log.own_lines() else set()
        if steps[-1] == "stop":
            agent.stop()
    log.write()  # an empty file does not yet follow those before it
    agent.look()
    agent.stop()
    wanted = (wanted | set(log.lines())) - old
    assert agent.reader.read == sorted(wanted | set(agent.reader.read)), f"{name}: {steps}"
    assert old.isdisjoint(agent.reader.read), f"{name}: {steps}"
