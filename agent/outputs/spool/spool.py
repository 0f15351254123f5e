"""The spool: a folder of JSON Lines files with all samples, the hand-over to ingest.

Theory of operation. Lines go to a hidden part file. By size or age it is fsynced and renamed to its
final name; a name that appears is complete and is never written again. `JsonlSpool.commit` is the
acknowledgement: lines written before it returned survive kill -9 and a loss of power. The next
start cuts a crash's part file to its last whole line and publishes it.

The checkpoint is saved after the commit. After a crash between the two, a part of a log is read
again. The same events have the same ids: the spool remembers its ids after the checkpoint's
`SpoolMark` and drops their duplicates. A mark never passes ids that are still pending, so a second
crash, before the log is read that far, causes no duplicates either.

A removed folder is created again, with the part file's lines: its descriptor still holds them.

A write sets ``seq`` of a sample, and ``agent`` unless another agent has recorded it.
"""

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from agent.config.codec import format_size
from agent.errors import ConfigError, OutputError
from agent.files import sync_folder
from agent.outputs.spool import directory as folder
from agent.outputs.spool.identity import discard_spool_id
from agent.outputs.spool.part_file import PartFile, create, is_removed
from metrics.model.sample import Sample, encode
from metrics.model.units import Duration, Size

log = logging.getLogger(__name__)

_MIB = 1 << 20
_BUFFER_BYTES = _MIB
"""Limit of lines not yet in the part file. While the disk refuses, further ones are dropped."""
_KNOWN_IDS = 50_000
"""Far more than one checkpoint interval writes, and 6 MB of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolConfig:
    """Folder of the samples, and its bounds."""

    dir: Path
    max_bytes: Size = 512 * _MIB
    """At this size the oldest complete files are evicted; their samples count as dropped."""
    file_bytes: Size = 16 * _MIB
    roll_s: Duration = field(default=60.0, metadata={"key": "roll"})

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises:
            ConfigError: they contradict each other.

        """
        if self.file_bytes < 1:
            raise ConfigError("samples.spool.file_bytes: found 0, wanted 1 or more")
        if self.max_bytes < 2 * self.file_bytes:
            found, file = format_size(self.max_bytes), format_size(self.file_bytes)
            wanted = f"wanted at least twice file_bytes, {file}"
            raise ConfigError(f"samples.spool.max_bytes: found {found}, {wanted}")
        if self.roll_s <= 0:
            raise ConfigError(f"samples.spool.roll: found {self.roll_s}; wanted more than 0")


@dataclass(slots=True)
class SpoolStats:
    """Samples since the start; ``files`` and ``bytes`` count complete files in the folder."""

    written: int = 0
    dropped: int = 0
    """Evicted with the oldest files of a full folder, or lost to a failing disk."""
    repeated: int = 0
    """Duplicates after a crash; the spool held them already."""
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolMark:
    """The checkpoint's part of the spool; valid after `JsonlSpool.commit`."""

    seq: int = 0
    """The last assigned sequence number."""
    settled: int = 0
    """Lines beyond this one may arrive again after a restart."""


_START = SpoolMark()


class JsonlSpool:
    """One folder and its one writer."""

    def __init__(
        self, config: SpoolConfig, *, agent: str, now: float, mark: SpoolMark = _START
    ) -> None:
        """Open the folder; ``now`` is Unix seconds, ``mark`` the checkpoint's.

        Raises:
            OutputError: the folder cannot be used, or another process writes to it.

        """
        self.stats = SpoolStats()
        self._config, self._agent, self._now = config, agent, now
        self._buffer, self._buffer_seq = bytearray(), 0
        self._part: PartFile | None = None
        self._lock = folder.take_lock(config.dir)
        try:
            folder.recover(config.dir)
            files = folder.list_files(config.dir)
            lines = folder.lines_since(config.dir, mark.settled, _KNOWN_IDS)
        except OSError as error:
            os.close(self._lock)
            raise self._write_error(error) from error
        self._stamp = folder.stamp_of(files[-1][0]) if files else ""
        self._keep_count(files)
        # Oldest first: duplicates arrive in that order.
        self._pending_ids = {
            line.id: line.seq for line in reversed(lines) if line.seq > mark.settled
        }
        self._seq = max([mark.seq, *(line.seq for line in lines)])
        if not self._seq:  # receivers know higher numbers of an earlier spool in this folder
            discard_spool_id(config.dir)

    @property
    def mark(self) -> SpoolMark:
        """The mark for the checkpoint after a commit."""
        pending = next(iter(self._pending_ids.values()), self._seq + 1)
        return SpoolMark(seq=self._seq, settled=pending - 1)

    def has_room(self) -> bool:
        """Whether the buffer is below its limit, after a write to the disk if that is due."""
        return len(self._buffer) < self._buffer_bytes or self._try_flush()

    def write(self, samples: Iterable[Sample], *, is_whole: bool = False) -> list[Sample]:
        """Add samples; they are durable once the next `commit` has returned.

        Returns them as the spool has them, with agent and ``seq``. While the disk refuses and the
        buffer is full, samples are dropped; their ``seq`` is 0. A batch that ``is_whole`` is kept
        in any case: its caller has checked `has_room` before.
        """
        return [self._write(sample, is_whole=is_whole) for sample in samples]

    def _write(self, sample: Sample, *, is_whole: bool) -> Sample:
        agent, known = sample.agent or self._agent, self._pending_ids.pop(sample.id, None)
        if known is not None:
            self.stats.repeated += 1
            return msgspec.structs.replace(sample, agent=agent, seq=known)
        if not is_whole and not self.has_room():
            self.stats.dropped += 1
            return msgspec.structs.replace(sample, agent=agent, seq=0)
        self._seq += 1
        self._buffer_seq = self._buffer_seq if self._buffer else self._seq
        line = msgspec.structs.replace(sample, agent=agent, seq=self._seq)
        self._buffer += encode(line)
        self.stats.written += 1
        return line

    def commit(self) -> None:
        """Make all written samples durable.

        Raises:
            OutputError: they are not; the lines are kept for the next commit.

        """
        try:
            self._recreate_removed()
            self._flush()
            if self._part is not None:
                self._part.sync()
        except OSError as error:
            raise self._write_error(error) from error

    def tick(self, now: float) -> None:
        """Advance time: publish the part file once it is old enough.

        Raises:
            OutputError: as for `commit`.

        """
        self._now = now
        # After the clock steps back the age is negative, possibly for long.
        if self._part is not None and abs(now - self._part.opened_at) >= self._config.roll_s:
            self._roll()

    def close(self) -> None:
        """Publish the part file and release the folder, even if publishing fails.

        Raises:
            OutputError: as for `commit`.

        """
        try:
            self._roll()
        finally:
            if self._part is not None:
                os.close(self._part.fd)
                self._part = None
            os.close(self._lock)

    @property
    def _buffer_bytes(self) -> int:
        return min(_BUFFER_BYTES, self._config.file_bytes)

    def _roll(self) -> None:
        try:
            self._recreate_removed()
            self._flush()
            self._publish()
        except OSError as error:
            raise self._write_error(error) from error

    def _recreate_removed(self) -> None:
        """Create a removed folder with its lock, and a removed part file, again."""
        if is_removed(self._lock):
            lock = folder.take_lock(self._config.dir)
            os.close(self._lock)
            self._lock = lock
            self._keep_count(folder.list_files(self._config.dir))
            log.warning("spool_recreated", extra={"dir": str(self._config.dir)})
        if self._part is not None and is_removed(self._part.fd):
            self._part = self._part.recreate()
            sync_folder(self._config.dir)

    def _try_flush(self) -> bool:
        try:
            self._flush()
        except OSError:
            return False
        return True

    def _flush(self) -> None:
        if not self._buffer:
            return
        size = 0 if self._part is None else self._part.size
        if size + len(self._buffer) > self._config.file_bytes:
            self._publish()
        if self._part is None:
            self._part = self._open()
        self._part.append(self._buffer)
        self._buffer.clear()

    def _open(self) -> PartFile:
        self._stamp = max(self._stamp, folder.file_stamp(self._now))
        final = self._config.dir / folder.file_name(self._stamp, self._agent, self._buffer_seq)
        path = folder.part_path(final)
        fd = create(path)
        sync_folder(self._config.dir)
        return PartFile(fd, path, final, self._now)

    def _publish(self) -> None:
        part = self._part
        if part is None:
            return
        part.sync()
        part.path.rename(part.final)
        os.close(part.fd)
        self._part = None
        self.stats.files += 1
        self.stats.bytes += part.size
        sync_folder(self._config.dir)
        self._keep_bound()

    def _keep_bound(self) -> None:
        limit = self._config.max_bytes - self._config.file_bytes  # the next part file's
        if self.stats.bytes <= limit:
            return
        files = folder.list_files(self._config.dir)  # ingest may have cleaned up
        total = sum(size for _, size in files)
        while files and total > limit:
            name, size = files.pop(0)
            self.stats.dropped += folder.remove_file(self._config.dir / name)
            total -= size
        self._keep_count(files)

    def _keep_count(self, files: Sequence[tuple[str, int]]) -> None:
        self.stats.files, self.stats.bytes = len(files), sum(size for _, size in files)

    def _write_error(self, error: OSError) -> OutputError:
        return OutputError(f"spool {str(self._config.dir)!r}: {error}")
