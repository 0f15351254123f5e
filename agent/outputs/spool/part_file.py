"""The spool's part file: holds lines until it is published."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class PartFile:
    """An open part file; ``synced`` bytes are durable, and a failed write leaves no bytes."""

    fd: int
    path: Path
    final: Path
    opened_at: float
    size: int = 0
    synced: int = 0

    def append(self, data: bytes | bytearray) -> None:
        """Write whole lines, or none."""
        view, done = memoryview(data), 0
        try:
            while done < len(data):
                done += os.write(self.fd, view[done:])
        except OSError:
            os.ftruncate(self.fd, self.size)  # the next try writes the same lines
            os.lseek(self.fd, self.size, os.SEEK_SET)
            raise
        finally:
            view.release()
        self.size += done

    def sync(self) -> None:
        """Make all written lines durable."""
        if self.synced != self.size:
            os.fsync(self.fd)
            self.synced = self.size

    def recreate(self) -> "PartFile":
        """Return a new file with the name and the lines of one that was removed."""
        part = PartFile(create(self.path), self.path, self.final, self.opened_at)
        try:
            part.append(os.pread(self.fd, self.size, 0))
        except OSError:
            os.close(part.fd)
            raise
        os.close(self.fd)
        return part


def create(path: Path) -> int:
    """Open an empty file for writing and reading."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)


def is_removed(fd: int) -> bool:
    """Whether an open file no longer has a name."""
    return os.fstat(fd).st_nlink == 0
