"""Batches of a spool's new files, one after the other, on a thread.

Theory of operation. The spool is listed repeatedly, and files that are new to `ReadFiles` are read.
A name is kept after its batch is in the tables. So after a kill the next run repeats the batch, and
the tables accept no id twice. A name is dropped together with its file: the list of names is as
long as the spool's list of files, for tables of any age.
"""

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple
from uuid import uuid4

import msgspec
from pyspark.sql import DataFrame, SparkSession

from aggregation.spark.ingest.stream import TRIGGER_S, Take

BATCH_BYTES = 256 << 20
"""Limit of a batch, and so of the data that is held between two commits."""
_LIST = "files"
_SPARK_LISTS = ("sources", "offsets", "commits")
"""Folders of checkpoints in which Spark kept the list before; they only grow."""
_GONE_MAX = 1_000
"""Names of files that are gone stay until there are so many more than files."""


class SpoolFile(NamedTuple):
    """One file of a listing. ``changed_at`` is Unix seconds."""

    path: str
    changed_at: float
    size: int


class ReadFiles:
    """The names of the files that were read, one a line of a file in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        """Read them; a line that a kill has cut, or that is damaged, is a file that is read again.

        The tables accept no id twice, so no record counts again.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name in _SPARK_LISTS:
            shutil.rmtree(folder / name, ignore_errors=True)
        self._path = folder / _LIST
        lines = self._path.read_bytes().split(b"\n") if self._path.exists() else [b""]
        names = map(_name_of, lines[:-1])
        self._names = {name for name in names if name is not None}
        if lines[-1] or len(self._names) < len(lines) - 1:
            self._write()

    def __contains__(self, path: str) -> bool:
        """Return whether a file was read."""
        return path in self._names

    def __len__(self) -> int:
        """Return how many names are kept."""
        return len(self._names)

    def add(self, paths: Collection[str]) -> None:
        """Keep the names of a batch that is in the tables."""
        self._names.update(paths)
        with self._path.open("ab") as file:
            file.write(_lines(paths))
            file.flush()
            os.fsync(file.fileno())

    def forget(self, present: Collection[str]) -> None:
        """Drop the names of deleted files when they are many."""
        if len(self._names) > len(present) + max(_GONE_MAX, len(present)):
            self._names &= set(present)
            self._write()

    def _write(self) -> None:
        partial = self._path.with_suffix(".part")
        partial.write_bytes(_lines(sorted(self._names)))
        partial.replace(self._path)


def _name_of(line: bytes) -> str | None:
    try:
        return msgspec.json.decode(line, type=str)
    except (msgspec.DecodeError, RecursionError):
        return None


def _lines(paths: Iterable[str]) -> bytes:
    return b"".join(msgspec.json.encode(path) + b"\n" for path in paths)


def cut_batches(files: Iterable[SpoolFile]) -> Iterator[list[SpoolFile]]:
    """Yield batches of files in the order of their last change, within the limits of a batch."""
    batch: list[SpoolFile] = []
    size = 0
    for file in sorted(files, key=lambda each: (each.changed_at, each.path)):
        if batch and size + file.size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch


class SpoolStream:
    """A spool that is read on a thread: once, or until it is stopped."""

    def __init__(  # noqa: PLR0913 - one argument a part
        self,
        spark: SparkSession,
        checkpoint: Path,
        list_files: Callable[[], Iterable[SpoolFile]],
        rows_of: Callable[[Sequence[SpoolFile]], DataFrame],
        take: Take,
        *,
        once: bool,
    ) -> None:
        """Start the thread. The names of files that were read are in the folder ``checkpoint``."""
        self._list_files, self._rows_of, self._take, self._once = list_files, rows_of, take, once
        self._stopping, self._jobs = Event(), f"spool-{uuid4()}"
        self._error: BaseException | None = None
        self._behind: int | None = None
        self._spark = spark
        self._thread = Thread(
            target=self._run, args=(ReadFiles(checkpoint),), name=self._jobs, daemon=True
        )
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; return whether it has ended. Raise the error that ended it."""
        self._thread.join(timeout_s)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def has_failed(self) -> bool:
        """Return whether an error ended it."""
        return self._error is not None

    def stop(self) -> None:
        """End it, in the middle of a batch, too."""
        self._stopping.set()
        if self._thread.is_alive():
            self._spark.sparkContext.cancelJobGroup(self._jobs)

    def behind(self) -> int | None:
        """Return how many files the latest batch left; None: there was none."""
        return self._behind

    def _run(self, read: ReadFiles) -> None:
        try:
            self._spark.sparkContext.setJobGroup(
                self._jobs, "files of a spool", interruptOnCancel=True
            )
            number = 0
            while not self._stopping.is_set():
                number = self._read_new(read, number)
                if self._once or self._stopping.wait(TRIGGER_S):
                    return
        except BaseException as error:  # noqa: BLE001 - who waits for it raises it again
            if not self._stopping.is_set():
                self._error = error

    def _read_new(self, read: ReadFiles, number: int) -> int:
        """Read the new files, in batches; return the number of the next batch."""
        files = list(self._list_files())
        read.forget([file.path for file in files])
        new = [file for file in files if file.path not in read]
        left = len(new)
        for batch in cut_batches(new):
            if self._stopping.is_set():
                break
            left -= len(batch)
            self._behind = left
            rows = self._rows_of(batch).persist()
            try:
                self._take(rows, number, 0)
            finally:
                rows.unpersist()
            read.add([file.path for file in batch])
            number += 1
        return number
