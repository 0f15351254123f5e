"""A log that a separate process writes without a pause, and a rotator like logrotate.

The rotation itself loses some lines (copytruncate: those between copy and truncation);
`RotatingLog.kept` are the lines in the files, including removed files.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_ROTATED_FILES = 4
_LAST_BYTES = 1000
"""Hold a whole line."""
_LINE = re.compile(rb"^line (\d+) of the load x{200}$", re.MULTILINE)

# It opens the path again when another file stands there, as a program that was told to, and waits
# for a rotation where the machine leaves the rotator no time.
_WRITER = """
import os, sys, time
path, number = sys.argv[1], 0
file = open(path, "ab", buffering=0)
while os.getppid() == int(sys.argv[2]):
    if os.fstat(file.fileno()).st_size > 4_000_000:
        time.sleep(0.001)
    else:
        for _ in range(50):
            number += 1
            file.write(b"line %d of the load %s\\n" % (number, b"x" * 200))
    try:
        mine = os.fstat(file.fileno()).st_ino == os.stat(path).st_ino
    except FileNotFoundError:
        mine = False
    if not mine:
        file.close()
        file = open(path, "ab", buffering=0)
"""


class RotatingLog:
    """Grows from the start."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "app.log"
        self.path.touch()
        self._removed: list[int] = []
        command = [sys.executable, "-c", _WRITER, str(self.path), str(os.getpid())]
        self._writer = subprocess.Popen(command)

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def create(self) -> None:
        """Rename the file; a new one is made in its place."""
        self._shift()
        self.path.rename(self._rotated(1))
        self.path.touch()

    def copytruncate(self) -> None:
        """Copy the file and cut it to nothing, while it is written."""
        self._shift()
        shutil.copyfile(self.path, self._rotated(1))
        os.truncate(self.path, 0)

    def last_rotated(self) -> int:
        """Return the number of the last whole line that the newest rotated file holds; 0: none."""
        try:
            with self._rotated(1).open("rb") as file:
                file.seek(-min(file.seek(0, os.SEEK_END), _LAST_BYTES), os.SEEK_END)
                return max(numbers(file.read()), default=0)
        except FileNotFoundError:
            return 0

    def stop(self) -> None:
        self._writer.kill()
        self._writer.wait()

    def kept(self) -> list[int]:
        """Return the numbers of all whole lines that were in a file at the end of its life."""
        paths = [self._rotated(number) for number in range(_ROTATED_FILES, 0, -1)]
        texts = [path.read_bytes() for path in [*paths, self.path] if path.exists()]
        return self._removed + [number for text in texts for number in numbers(text)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _rotated(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _shift(self) -> None:
        last = self._rotated(_ROTATED_FILES)
        if last.exists():
            self._removed += numbers(last.read_bytes())
            last.unlink()
        for number in range(_ROTATED_FILES - 1, 0, -1):
            if self._rotated(number).exists():
                self._rotated(number).rename(self._rotated(number + 1))


def numbers(text: bytes) -> list[int]:
    """Return the numbers of the whole lines in some bytes."""
    return [int(found) for found in _LINE.findall(text)]
