"""Tail of log files: globs to signals.

Theory of operation. Globs are evaluated every few seconds, so files may appear later. Files of one
rotated set are one stream, named by the absolute path without a rotation's suffix. Each stream has
a `Follower` for its files and a `StreamParser` for its lines. Its position is the place after the
last complete line; between any two awaits it agrees with the signals that were emitted.
"""

import asyncio
import contextlib
import glob
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from sys import intern
from typing import Any

from agent.processes.descriptors import EXHAUSTED
from agent.sources.base import Detach, Emit, SourceHealth
from agent.sources.lines.following.config import FilesConfig, ReadFrom
from agent.sources.lines.following.file_reports import FileReports, describe_unfollowed
from agent.sources.lines.following.open_tails import OpenTails
from agent.sources.lines.following.rotation import Follower
from agent.sources.lines.following.stream_tail import CreateParser, StreamTail
from agent.sources.lines.parsing.origin_streams import name_stream
from agent.sources.lines.parsing.stream_parser import SupportsClock, SupportsDocuments
from agent.sources.lines.whole_files.log_file import (
    BLOCK_S,
    LARGE_BLOCK_BYTES,
    NOTHING,
    Chunk,
    NotAFileError,
    OpenLog,
    Place,
    choose_block_bytes,
    cut_block,
    find_utf_16,
)
from agent.sources.lines.whole_files.recordings import rotation, stream_of
from metrics.model.signals import Signal

POLL_S = 0.25
"""Between two stat() of a file; 10 quiet files cost well below 0.1 % of a core."""
SCAN_S = 5.0
"""Between two evaluations of the globs, and two tries of an unreadable file."""
GONE_S = 30.0
"""A file that is missing for so long was deleted, not rotated."""
_SLICE_S = 0.02
"""Time of a step before other tasks have their turn."""
_MANY_FILES = 500
"""With more, the globs are evaluated in a thread: 20,000 take a second."""
_PAUSE_SHARE = 4.0
"""Pause after a step, in units of its CPU time: looks at many files take a fifth of a core at most.

By its duration the pause would be long on a busy machine, and a leave's reason too late to count.
For the same reason it ends after `SCAN_S`: a step that reads 20,000 files takes 16 s of CPU.
"""
_MAX_FINISHED = 1_000
_STAMP_S = 1.0
"""A file system's time of a change may be so far behind the clock."""

_log = logging.getLogger(__name__)


class FileTail:
    """The files of one source; each stream has its own parser."""

    kind = "logs"

    def __init__(  # noqa: PLR0913 - settings, positions and seams of tests
        self,
        config: FilesConfig,
        parser: CreateParser,
        *,
        position: dict[str, Any] | None = None,
        orphans: dict[str, Any] | None = None,
        readers: dict[str, object] | None = None,
        origin_of: Callable[[str], str] = str,
        are_streams_apart: bool = False,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Continue from ``position``, a former `checkpoint`; ``parser`` creates a stream's parser.

        ``orphans`` are positions of streams without a source, because the configuration changed:
        those that match the paths are removed from there and continued here. ``readers`` are shared
        with the other sources of the type. If several sources name a file, the source with a
        position in it reads it, else the first, so that nothing is reported twice. ``origin_of``
        names the origin of a stream's members. With ``are_streams_apart`` a parser's state changes
        only when its own stream is read: idle streams cost nothing. ``pause`` waits for a number of
        seconds.
        """
        self._reports = FileReports(self.kind, config.paths)
        self.health = SourceHealth(files=self._reports.files)
        self._origin_of = origin_of
        self._config, self._parser = config, parser
        self._are_apart = are_streams_apart
        self._clock, self._pause = clock, pause
        self._open = OpenTails(self._report_short, are_apart=are_streams_apart)
        self._tails: dict[str, StreamTail] = {}
        self._readers = {} if readers is None else readers
        self._is_shared = False
        """Whether another source reads a file of this one: that is logged once."""
        self._restored: dict[str, StreamTail] = {}
        """Streams of the checkpoint that no scan has seen yet."""
        for stream, place in {**(position or {}), **_claim(orphans or {}, config.paths)}.items():
            self._restore(stream, place)
        self._finished: dict[tuple[int, int], Place] = {}
        """Files that were read to their end, by device and inode, the newest last."""
        self._scanned_at: float | None = None
        self._is_short = self._are_many = False
        self._is_behind = True
        """Whether one of the streams has more; before the first step that is unknown."""
        self._limit: float | None = None
        self._is_limited = False
        """Whether a stream was passed over as it is beyond the limit."""
        self._busy: dict[str, StreamTail] = {}
        """Tails that were read, or added, since `_find_busy` found nothing pending in them."""

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Read until it is cancelled."""
        try:
            while True:
                began_at = time.thread_time()
                await self._step_in_slices(emit, detach)
                took_s = time.thread_time() - began_at
                pause_s = min(max(POLL_S, _PAUSE_SHARE * took_s), SCAN_S)
                await self._pause(0.0 if self._is_behind and not self._is_limited else pause_s)
        finally:
            for tail in self._tails.values():
                tail.follower.close()

    def step(self, emit: Emit, detach: Detach) -> bool:
        """Read at most one block of each stream; return whether one has more."""
        for _ in self._advance_all(emit, detach, _newest, lambda: False):
            pass
        return self._is_behind

    async def _step_in_slices(self, emit: Emit, detach: Detach) -> None:
        """Read some blocks of each stream; between slices pages and other sources have a turn."""
        found: dict[str, Path] | None = None
        if self._is_scan_due(self._clock()) and len(self._tails) > _MANY_FILES:
            found = await asyncio.to_thread(_newest, self._config.paths)
        until = time.monotonic() + _SLICE_S

        def has_time() -> bool:
            return time.monotonic() < until

        for _ in self._advance_all(emit, detach, lambda paths: found or _newest(paths), has_time):
            if not has_time():
                await asyncio.sleep(0)
                until = time.monotonic() + _SLICE_S

    def _is_scan_due(self, now: float) -> bool:
        return self._scanned_at is None or abs(now - self._scanned_at) >= SCAN_S

    def _advance_all(
        self,
        emit: Emit,
        detach: Detach,
        find: Callable[[Sequence[str]], dict[str, Path]],
        has_time: Callable[[], bool],
    ) -> Iterator[None]:
        """Step through all streams; between two of them the positions agree with the signals."""
        now = self._clock()
        if self._is_scan_due(now):
            yield from self._scan(find(self._config.paths), now, detach)
            self._scanned_at = now
            self._open.try_more()
        self._is_limited = False
        bugs = list[Exception]()
        for tail in list(self._tails.values()):
            try:
                self._read_blocks(tail, now, emit, detach, has_time)
            except Exception as error:  # noqa: BLE001 - a bug: raised after the step
                bugs.append(self._pass_over(tail, error))
            yield
        tails: Collection[StreamTail] = self._tails.values()
        self.health.up = not tails or any(tail.fault is None for tail in tails)
        tails = self._find_busy()
        for tail in tails:
            try:
                self._settle(tail, now, emit)
                self._emit(tail.release_overdue(now), emit)
            except Exception as error:  # noqa: BLE001 - a bug: raised after the step
                bugs.append(self._pass_over(tail, error))
        self.health.lag_s = max((tail.lag_s(now) for tail in tails), default=0.0)
        self._is_behind = any(tail.is_behind for tail in tails)
        if bugs:
            raise bugs[0]

    def _read_blocks(
        self,
        tail: StreamTail,
        now: float,
        emit: Emit,
        detach: Detach,
        has_time: Callable[[], bool],
    ) -> None:
        """Read the next blocks of a stream, unless others have to catch up with it."""
        if self._is_ahead(tail, now):
            self._is_limited = True
        elif tail.is_due(now):
            while self._advance(tail, now, emit, detach) and tail.is_behind:
                if self._is_ahead(tail, now) or not (tail.is_within_line or has_time()):
                    break

    def _pass_over(self, tail: StreamTail, error: Exception) -> Exception:
        """Pass over the bytes that showed a bug; return its error, with the stream's name.

        What the parser holds goes with them: it would show the bug for ever.
        """
        tail.forget_parser()
        self._count(Counter(["bug"]))
        error.add_note(f"in {tail.stream}: its bytes are passed over")
        return error

    def watermark(self, now: float) -> float:
        """Return the watermark: the lowest one of its streams (Unix seconds)."""
        if self._scanned_at is None:
            return 0.0
        return min((tail.watermark(now) for tail in self._find_busy()), default=now)

    @property
    def is_behind(self) -> bool:
        """Whether a stream has more than was read by the last step, or there was none."""
        return self._is_behind

    def limit_reading(self, to: float | None) -> None:
        """Read no stream on that has been read beyond a time (Unix seconds); None: all of them."""
        self._limit = to

    def checkpoint(self) -> dict[str, Any]:
        """Return each stream's place and its parser's state."""
        tails = self._restored | self._tails
        found = {
            stream: tail.keep_position() if self._are_apart else tail.position()
            for stream, tail in tails.items()
        }
        return {stream: position for stream, position in found.items() if position is not None}

    def _is_ahead(self, tail: StreamTail, now: float) -> bool:
        return self._limit is not None and tail.is_behind and tail.watermark(now) > self._limit

    def _find_busy(self) -> Collection[StreamTail]:
        """Return the tails that may be behind or hold a signal; 20,000 idle ones cost nothing."""
        if not self._are_apart:
            return self._tails.values()
        for stream, tail in list(self._busy.items()):
            if tail.is_at_rest() or stream not in self._tails:
                del self._busy[stream]
        return self._busy.values()

    def _add(self, tail: StreamTail) -> None:
        self._tails[tail.stream] = self._busy[tail.stream] = tail

    def _scan(self, paths: dict[str, Path], now: float, detach: Detach) -> Iterator[None]:
        first, known = self._scanned_at is None, None
        sets = _RotatedSets()
        self._reports.report_scan(paths.values(), now)
        for stream, path in paths.items():
            tail = self._tails.get(stream) or self._restored.pop(stream, None)
            if tail is None and not self._may_take(stream):
                self._report_shared(stream)
                continue
            if tail is None:
                known = self._index_places() if known is None else known
                place = _find_place(path, known)
                if place is not None and place not in self._finished.values():
                    continue  # its own stream still reads it, under its new name
                at_end = first and self._config.read_from is ReadFrom.END
                before, is_new = None, None
                if place is None and not sets.has_older(path):
                    before = NOTHING
                elif place is None:
                    since = math.inf if self._scanned_at is None else self._scanned_at
                    is_new = partial(_is_new, since=since, known=known)
                follower = Follower(path, place, before=before, at_end=at_end, is_new=is_new)
                tail = StreamTail(stream, follower, self._parser)
                self._take(stream)
                tail.idle_at = self._scanned_at  # it is younger than the last scan, or was moved
                yield
            self._reports.report_open(stream)
            self._add(tail)
            tail.follower.path = path
        self._report_many()
        self._end_restored(now, detach)

    def _end_restored(self, now: float, detach: Detach) -> None:
        """Continue streams that are in the middle of a rotation; end streams of other paths."""
        for stream, tail in self._restored.items():
            if not Path(stream).exists():  # on its way from one file to the next, or deleted
                self._add(tail)
                continue
            self._detach(tail, now, detach)  # the configuration does not want it any more
            if tail.follower.place is not None:  # or it is a part of another stream now
                self._note_finished([tail.follower.place])
        self._restored.clear()

    def _index_places(self) -> dict[tuple[int, int], list[Place]]:
        """Return the places in files that streams read or have read, by device and inode."""
        tails = [*self._tails.values(), *self._restored.values()]
        found: dict[tuple[int, int], list[Place]] = {}
        for place in [*self._finished.values(), *(tail.follower.place for tail in tails)]:
            if place is not None:
                found.setdefault((place.device, place.inode), []).insert(0, place)
        return found

    def _note_finished(self, places: Sequence[Place]) -> None:
        for place in places:
            self._finished.pop((place.device, place.inode), None)
            self._finished[place.device, place.inode] = place
        while len(self._finished) > _MAX_FINISHED:
            del self._finished[next(iter(self._finished))]

    def _restore(self, stream: str, position: Any) -> None:
        """Resume a stream; if its position is unusable, read it like a new one."""
        stream = intern(stream)  # the path of its follower, and the origin of its members
        if not self._may_take(stream):
            return
        try:
            tail = StreamTail.resume(
                stream, partial(Follower, Path(stream)), position, self._parser
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _log.warning("position_unusable", extra={"path": stream, "error": repr(error)})
            self.health.damaged.append(self._origin_of(stream))
            self._count(Counter(["position"]))
            return
        if self._open.limit is not None and len(self._restored) >= self._open.limit:
            tail.rest_parser()
        self._restored[stream] = tail
        self._take(stream)

    def _may_take(self, stream: str) -> bool:
        return self._readers.get(_real_path(stream), self) is self

    def _take(self, stream: str) -> None:
        """Become the reader of a file, until its stream ends."""
        self._readers[_real_path(stream)] = self

    def _report_shared(self, stream: str) -> None:
        if not self._is_shared:
            self._is_shared = True
            hint = "another source reads it; name each file in one source of a type"
            _log.warning("log_shared", extra={"path": stream, "hint": hint})

    def _detach(self, tail: StreamTail, now: float, detach: Detach) -> None:
        self._readers.pop(_real_path(tail.stream), None)
        self._reports.report_end(tail.stream)
        for origin in ("", *tail.parser.origins):
            detach(name_stream(self._origin_of(tail.stream), origin), now)

    def _advance(self, tail: StreamTail, now: float, emit: Emit, detach: Detach) -> bool:
        """Read at most one block of a stream; return whether there was one."""
        tail.is_waiting = not self._open.let_in(tail)
        if tail.is_waiting:
            self._busy[tail.stream] = tail
            return False
        try:
            chunk = tail.follower.read(now)
        except FileNotFoundError:
            self._miss(tail, now, emit, detach)
            return False
        except OSError as error:
            if error.errno in EXHAUSTED:
                self._open.run_short()
                self._busy[tail.stream] = tail
                tail.is_behind = True  # tried again in the next step, with idle files closed
            else:
                self._fail(tail, error, now)
            return False
        finally:
            self._note_faults(tail.stream, tail.follower.take_faults())
            self._note_finished(tail.follower.take_finished())
            self._open.note(tail, is_read=False)
        if chunk is not None:
            self._open.note(tail, is_read=True)
        if tail.fault is not None:
            _log.info("log_readable_again", extra={"path": tail.stream})
        tail.fault = tail.gone_at = tail.failed_at = None
        tail.is_behind = tail.follower.is_behind
        if chunk is not None:
            self._busy[tail.stream] = tail
            tail.read_at = now
            self._feed_block(tail, chunk, now, emit)
            self._open.note_half(tail)
        tail.idle_at = None if tail.is_behind else now
        return chunk is not None

    def _report_many(self) -> None:
        limit = self._open.limit
        if limit is not None and len(self._tails) > limit and not self._are_many:
            self._are_many = True
            hint = "idle ones are closed until they change"
            keys = {"files": len(self._tails), "open_max": limit, "hint": hint}
            _log.info("log_files_many", extra=keys)

    def _report_short(self, count: int) -> None:
        self._count(Counter(["descriptors"]))
        if not self._is_short:
            keys = {"open": count, "files": len(self._tails)}
            _log.warning("descriptors_short", extra=keys)
        self._is_short = True

    def _observe_clock(self, tail: StreamTail, chunk: Chunk, now: float) -> None:
        """Compare new lines with the wall clock: they may come from another zone."""
        parser = tail.parser
        if tail.is_behind or not isinstance(parser, SupportsClock):
            return
        gap_s = None if tail.idle_at is None else now - tail.idle_at
        for shift in parser.observe_clock(chunk.data, chunk.arrival_at, gap_s):
            hours = {"ahead_hours": shift.after / 3600, "before_hours": shift.before / 3600}
            extra = {"path": tail.stream, "stream": shift.origin, **hours}
            hint = "times are corrected; the setting timezone of the source names their zone"
            _log.warning("log_in_another_zone", extra={**extra, "hint": hint})
            self._count(Counter(["zone"]))

    def _feed_block(self, tail: StreamTail, block: Chunk, now: float, emit: Emit) -> None:
        """Read a block, or its first pieces if they take long: the rest is read again later."""
        size, lines, took_s = 0, 0, 0.0
        for piece in cut_block(block, tail.parser.is_quiet):
            self._observe_clock(tail, piece, now)
            size += len(piece.data)
            left = len(block.data) - size
            piece_lines, piece_s = self._feed(tail, piece, emit, behind=tail.is_behind or left > 0)
            lines, took_s = lines + piece_lines, took_s + piece_s
            if left and took_s > BLOCK_S and tail.follower.give_back(left):
                tail.is_behind = True
                break
        tail.is_within_line = size < LARGE_BLOCK_BYTES and b"\n" not in block.data
        block_bytes = choose_block_bytes(size, lines, took_s)
        tail.follower.block_bytes = LARGE_BLOCK_BYTES if tail.is_within_line else block_bytes

    def _feed(
        self, tail: StreamTail, chunk: Chunk, emit: Emit, *, behind: bool
    ) -> tuple[int, float]:
        """Return the number of a client's lines, and the CPU time of these and their signals."""
        parser, counts = tail.parser, tail.parser.counts
        unread, long, evicted = counts.unread, counts.long, parser.eviction_count
        lines = counts.lines
        signals = []
        if chunk.starts_file and find_utf_16(chunk.data) is not None:
            self._count(Counter(["undecodable"]))
            error = "found UTF-16, wanted UTF-8"
            _log.warning("log_unreadable", extra={"path": tail.stream, "error": error})
        if chunk.starts_file and isinstance(parser, SupportsDocuments):
            signals = parser.begin_file(chunk.data, chunk.arrival_at)
        elif chunk.starts_file and parser.pending:  # half a line that nothing continues
            signals = parser.feed(b"\n", chunk.arrival_at)
        began_at = time.thread_time()
        signals += parser.feed(chunk.data, chunk.arrival_at)
        self.health.read_bytes += len(chunk.data)
        self.health.unparsed += counts.unread - unread
        if counts.long != long:
            self._count(Counter(long_line=counts.long - long))
        if parser.eviction_count != evicted:
            self._count(Counter(member_evicted=parser.eviction_count - evicted))
        size, lines = len(chunk.data), counts.lines - lines
        if counts.manual:
            self._reports.report_manual(tail.stream)
        self._reports.report_read(tail.stream, size, lines, signals, behind=behind)
        self._emit(signals, emit)
        return lines, time.thread_time() - began_at

    def _settle(self, tail: StreamTail, now: float, emit: Emit) -> None:
        """Read what a parser holds of a document, once nothing is added to the file."""
        if signals := tail.settle(now):
            self._reports.report_read(tail.stream, 0, 0, signals, behind=False)
            self._emit(signals, emit)

    def _emit(self, signals: Sequence[Signal], emit: Emit) -> None:
        if signals:
            self.health.signals += len(signals)
            emit(signals)

    def _miss(self, tail: StreamTail, now: float, emit: Emit, detach: Detach) -> None:
        """Handle a missing file: a rotation is under way, or the file was deleted."""
        tail.is_behind = False
        tail.gone_at = now if tail.gone_at is None else min(tail.gone_at, now)
        if now < tail.gone_at + GONE_S:
            return
        tail.follower.close()
        if tail.follower.place is not None:
            self._note_finished([tail.follower.place])
        del self._tails[tail.stream]
        self._open.forget(tail)
        self._emit(tail.parser.flush(), emit)
        self._detach(tail, now, detach)
        _log.info("log_deleted", extra={"path": tail.stream})

    def _fail(self, tail: StreamTail, error: OSError, now: float) -> None:
        reason = _reason(error)
        self._count(Counter([reason]))
        if tail.fault != reason:
            _log.warning("log_unreadable", extra={"path": tail.stream, "error": str(error)})
        tail.fault, tail.is_behind, tail.failed_at = reason, False, now

    def _note_faults(self, stream: str, faults: Sequence[str]) -> None:
        """Count faults, and name the log of which lines are lost."""
        if "lost" in faults:
            hint = "its file was removed or cut before its end was read; keep more rotated files"
            _log.warning("log_lost", extra={"path": stream, "hint": hint})
        self._count(Counter(faults))

    def _count(self, faults: Counter[str]) -> None:
        for reason, count in faults.items():
            if count:
                self.health.errors[reason] = self.health.errors.get(reason, 0) + count


def _newest(patterns: Sequence[str]) -> dict[str, Path]:
    """Return the newest file of each stream; a file under two names is read once."""
    streams: dict[str, Path] = {}
    for pattern in patterns:
        for text in glob.glob(pattern, recursive=True):  # noqa: PTH207 - takes absolute patterns
            path = Path(text).absolute()
            if describe_unfollowed(str(path)) is not None:
                continue
            found = rotation(path)
            stream = stream_of(found.base)
            known = streams.get(stream)
            if known is None or rotation(known).order < found.order:
                streams[stream] = path
    once = {os.path.realpath(streams[stream]): stream for stream in sorted(streams, reverse=True)}
    return {stream: streams[stream] for stream in sorted(once.values())}


def _real_path(stream: str) -> str:
    """Return the path behind links; without links the same object, to save memory."""
    found = os.path.realpath(stream)
    return stream if found == stream else found


class _RotatedSets:
    """The sizes of rotated sets, folder by folder: thousands of new files may share one."""

    def __init__(self) -> None:
        self._folders: dict[Path, Counter[Path]] = {}

    def has_older(self, path: Path) -> bool:
        """Return whether there are more files of the path's rotated set."""
        path = Path(os.path.realpath(path))
        if path.parent not in self._folders:
            try:
                bases = Counter(rotation(each).base for each in path.parent.iterdir())
            except OSError:  # a folder that may be passed but not listed
                bases = Counter()
            self._folders[path.parent] = bases
        return self._folders[path.parent][rotation(path).base] > 1


def _is_new(log: OpenLog, since: float, known: Mapping[tuple[int, int], Sequence[Place]]) -> bool:
    """Return whether a rotated file was written after the last scan, and no stream has read it."""
    if log.changed_at < since - _STAMP_S:
        return False
    # a file of a deleted stream may have left its inode to this one
    return not any(log.is_copy_of(place) for place in known.get((log.device, log.inode), ()))


def _find_place(path: Path, known: Mapping[tuple[int, int], Sequence[Place]]) -> Place | None:
    """Return the place in a file that another stream reads, or has read, by another name."""
    try:
        found = path.stat()
        same = known.get((found.st_dev, found.st_ino), ())
        if not same:
            return None
        with contextlib.closing(OpenLog(path)) as log:
            return next((place for place in same if log.is_copy_of(place)), None)
    except OSError:
        return None


def _claim(orphans: dict[str, Any], patterns: Sequence[str]) -> dict[str, Any]:
    """Remove and return the positions of streams that the patterns match."""
    if not orphans:
        return {}
    globs = [str(Path(pattern).absolute()) for pattern in patterns]
    # a stream without a file now is in the middle of a rotation
    wanted = [stream for stream in (*_newest(patterns), *globs) if stream in orphans]
    # thousands of sources may have one path each: only real patterns are compared with all streams
    for pattern in filter(glob.has_magic, globs):
        wanted += [stream for stream in orphans if fnmatch(stream, pattern)]
    return {stream: orphans.pop(stream) for stream in dict.fromkeys(wanted)}


def _reason(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "permission"
    return "not_a_file" if isinstance(error, NotAFileError) else "unreadable"
