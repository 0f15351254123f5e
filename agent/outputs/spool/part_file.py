"""The spool's part file: where lines go until it is published."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class PartFile:
    """Lines and how many of their bytes are safe; a write that fails leaves none behind."""

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
            os.ftruncate(self.fd, self.size)  # the same lines come with the next try
            os.lseek(self.fd, self.size, os.SEEK_SET)
            raise
        finally:
            view.release()
        self.size += done

    def sync(self) -> None:
        """Make what was written durable."""
        if self.synced != self.size:
            os.fsync(self.fd)
            self.synced = self.size

    def recreate(self) -> "PartFile":
        """Return a file of the same name and lines, in the place of one that was removed."""
        part = PartFile(create(self.path), self.path, self.final, self.opened_at)
        try:
            part.append(os.pread(self.fd, self.size, 0))
        except OSError:
            os.close(part.fd)
            raise
        os.close(self.fd)
        return part


def create(path: Path) -> int:
    """Open an empty file; its descriptor can read what it wrote."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)


def is_removed(fd: int) -> bool:
    """Tell whether an open file has no name any more."""
    return os.fstat(fd).st_nlink == 0
