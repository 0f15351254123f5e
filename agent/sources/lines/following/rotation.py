"""Follower of one log through rotation, truncation and restarts. No parser, clock or wait.

Theory of operation. Three events start the same search: another file is at the path, the file was
truncated, or the agent restarts. The file that was read last is searched at the path and in its
rotated set, by its inode and its first KiB: it may have been renamed, copied or compressed. Its
remaining bytes are read first, then the files of the set between it and the path's own, then the
path's own.

If the file that was read last is gone, or was empty, it cannot be recognized. Then the file before
it is searched, and reading continues with that file's successor. At the first start this file is
the newest rotated one that was already there; nothing before it is read.

A renamed file is closed when its successor has bytes and the renamed file has no further bytes,
checked in this order: a writer that has begun the new file does not write to the old one any more.
No timeout is involved.
"""

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from sys import intern

from agent.processes.descriptors import EXHAUSTED
from agent.sources.lines.whole_files.log_file import (
    FIRST_BLOCK_BYTES,
    NOTHING,
    Chunk,
    DamagedError,
    OpenLog,
    Place,
)
from agent.sources.lines.whole_files.recordings import Order, Rotation, inner_rotation, rotation

Split = Callable[[Path], Rotation | None]
"""Splits a path as `rotation` does; None: it is no rotated file's."""
Select = Callable[[Mapping[Path, int]], Sequence[Path]]
"""Selects the files to read from those of a set, oldest first, with their inodes."""
_TRIES = 5
"""To open a set between two rotations."""
_OPEN_MAX = 16
"""Files of a set that are open, and the path's own: the set is searched again at the end of each.

A set may have more files than the process may have descriptors.
"""
_SETTLED_S = 1.0
"""A folder that changes a second time within this may keep its time of change."""


class Follower:
    """Reader of one stream's files, in order."""

    __slots__ = (
        "_at_end",
        "_before",
        "_faults",
        "_finished",
        "_folder_at",
        "_idle",
        "_is_new",
        "_is_partial",
        "_log",
        "_next",
        "_parked",
        "_path",
        "_place",
        "_seen",
        "block_bytes",
        "place_number",
    )

    def __init__(
        self,
        path: Path,
        place: Place | None = None,
        *,
        before: Place | None = None,
        at_end: bool = False,
        is_new: Callable[[OpenLog], bool] | None = None,
    ) -> None:
        """Continue from ``place``, else from the start or end of ``path``. Opens nothing yet.

        ``before`` is the end of the file before that of ``place``; None: it is not known.
        ``is_new`` finds the rotated files before ``path`` that belong to a stream without a place:
        it was rotated before its first look.
        """
        self.path = path
        # most of 20,000 idle files need none of these: a Path, a list and a Counter take 600 bytes
        self._faults: tuple[str, ...] = ()
        self._finished: tuple[Place, ...] = ()
        self._place, self._at_end, self._is_new = place, at_end, is_new
        self._log: OpenLog | None = None
        self._next: Sequence[OpenLog] = ()
        # It is the place while nothing is read of this file: an empty file has no head to know it
        # by, and its first bytes may be those of a later one.
        self._before = before
        self._idle = False
        self._folder_at: int | None = None
        """Change of the folder as the file was empty: without another one no file was missed."""
        self._is_partial = False
        """Whether the file is packed and not yet whole: it is waited for."""
        self._seen = (-1, -1)
        self.block_bytes = FIRST_BLOCK_BYTES
        """Bytes of the next block."""
        self.place_number = 0
        """Number of `place`: it is another one after a byte was read or the file changed."""
        self._parked: tuple[int, int] | None = None
        """Device and inode of an idle file that was closed."""

    @property
    def path(self) -> Path:
        """The path of the stream's newest file; it changes if each file has another name."""
        return Path(self._path)

    @path.setter
    def path(self, path: Path) -> None:
        self._path = intern(str(path))

    def take_faults(self) -> Sequence[str]:
        """Return the faults since the last call.

        ``truncated``; ``lost``: the file of a checkpoint is missing; ``unreadable``: a rotated
        file.
        """
        faults, self._faults = self._faults, ()
        return faults

    def take_finished(self) -> Sequence[Place]:
        """Return the files that were read to their end since the last call."""
        finished, self._finished = self._finished, ()
        return finished

    @property
    def before(self) -> Place | None:
        """Return the end of the file before; `NOTHING`: there is none, None: it is not known."""
        return self._before

    @property
    def place(self) -> Place | None:
        """Return the read position of the stream; None before the first file is open."""
        if self._log is None:
            return self._place
        return (self._before if self._log.offset == 0 else None) or self._log.place

    def read(self, now: float) -> Chunk | None:
        """Return the next block; None if there is no new byte at Unix seconds ``now``.

        Raises:
            FileNotFoundError: no file at the path, and the former one is read.
            OSError: the file cannot be read; call again later.

        """
        if self._log is None:
            if not self._open():
                return None
        elif self._idle and not self._is_partial:
            if not self._look():
                return None
        elif not self._reading.is_unchanged():  # and has grown up to the place again
            self._follow_copy()
        while (chunk := self._block(now)) is None:
            if self._is_partial or not self._go_further():
                self._idle = True
                return None
        # A short block is the end of the file for now: the next read looks at it first.
        self._idle = len(chunk.data) < self.block_bytes and not self._next
        return chunk

    def give_back(self, count: int) -> bool:
        """Read the last ``count`` bytes of a block again; return whether the file allows it."""
        if not self._reading.give_back(count):
            return False
        self._idle = False
        return True

    @property
    def is_behind(self) -> bool:
        """Whether bytes were left after the last `read`."""
        return not self._idle

    @property
    def descriptor(self) -> int | None:
        """Return the descriptor of the file that is read; None: no file is open."""
        return None if self._log is None else self._log.descriptor

    def park(self, unread: int = 0) -> bool:
        """Close an idle file until it changes; return False if it is busy.

        The last ``unread`` bytes are read again then.
        """
        log = self._log
        if log is None or not self._idle:
            return False
        self._parked = (log.device, log.inode)
        self._seen = log.stamp() or self._seen
        self.close()
        if unread and self._place is not None:
            self._place = replace(self._place, offset=max(0, self._place.offset - unread))
        return True

    def _unpark(self, parked: tuple[int, int]) -> bool:
        """Open a parked file again if it has changed; until then it costs one stat()."""
        found = os.stat(self._path)  # noqa: PTH116 - no Path for each look
        seen, self._seen = self._seen, (found.st_size, found.st_mtime_ns)
        moved = parked != (found.st_dev, found.st_ino)
        if seen == self._seen and not moved:
            return False
        place = self._place
        is_empty = place == NOTHING and not moved and self._is_folder_unchanged()
        if place is None or moved or not (is_empty or place.inode == found.st_ino):
            self._parked = None
            if place is not None:
                self._resume(place)
            return True
        log = OpenLog(self.path)
        self._parked = None
        if is_empty:
            self._switch(log)
        elif log.is_copy_of(place):
            log.skip_to(place.offset)
            self._switch(log)
        else:
            log.close()
            self._faults += ("truncated",)
            self._resume(place)
        return True

    def close(self) -> None:
        """Close the files; `read` continues at the same place."""
        self._place = self.place
        self._forget_next()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _forget_next(self) -> None:
        for log in self._next:
            log.close()
        self._next = ()

    def _open(self) -> bool:
        """Open the file to read; return False for a parked one without a change."""
        if self._parked is not None:
            return self._unpark(self._parked)
        self._start()
        return True

    def _start(self) -> None:
        if self._place is not None:
            if not self._resume(self._place):
                self._faults += ("lost",)
            return
        if self._is_new is not None:
            self._start_at_oldest(self._is_new)
            return
        self._switch(OpenLog(self.path))
        self._skip_old()

    def _skip_old(self) -> None:
        if self._at_end:
            self._reading.skip_to(self._reading.size)

    def _start_at_oldest(self, is_new: Callable[[OpenLog], bool]) -> None:
        self._go_on(self._open_set(rotation, partial(self._select_new, is_new)))
        self._skip_old()

    @property
    def _reading(self) -> OpenLog:
        assert self._log is not None  # noqa: S101 - a bug, and a word to the type checker
        return self._log

    def _go_further(self) -> bool:
        """Move on at the end of a file; return whether more bytes may follow."""
        if any(log.has_bytes for log in self._next):
            log = self._reading
            if log.size <= log.offset:  # looked at after its successor
                self._pass_on()
            return True
        self._forget_next()  # a writer may not have come to them yet
        return self._look()

    def _look(self) -> bool:
        """Return whether there is more to read; an idle file costs one stat()."""
        log = self._reading
        try:
            found = os.stat(self._path)  # noqa: PTH116 - no Path for each look
        except FileNotFoundError:
            if log.size > log.offset and log.is_unchanged():
                return True
            raise
        moved = (found.st_dev, found.st_ino) != (log.device, log.inode)
        seen, self._seen = self._seen, (found.st_size, found.st_mtime_ns)
        if not moved and seen == self._seen:
            return False
        if not log.is_unchanged():
            self._follow_copy()
            return True
        return self._look_on(log, found.st_size, moved=moved)

    def _look_on(self, log: OpenLog, size: int, *, moved: bool) -> bool:
        """Return whether the file grew, or the one of ``size`` at the path succeeds it."""
        before = self._before if log.offset == 0 else None
        if before is not None:  # its first bytes: only the set shows the file that they are in
            if size == log.size == 0:
                return False
            if before != NOTHING or moved or not self._is_folder_unchanged():
                self._resume(before, finished=True)
            return True
        if log.size > log.offset:
            return True
        if moved and size > 0:
            self._resume(log.place, finished=True)
            return True
        return False

    def _follow_copy(self) -> None:
        """Continue at the current place of a truncated file's content."""
        self._faults += ("truncated",)
        self._resume(self._reading.place)

    def _pass_on(self) -> None:
        """Go to the next file; a pending one may have been copied and truncated since."""
        waiting, self._next = self._next, ()
        try:
            found = self._resume(self._reading.place, finished=True, otherwise=waiting)
        except FileNotFoundError:  # in the middle of a rotation by rename
            found = False
            self._go_on(waiting)
        except OSError:  # no descriptor is left: tried again
            self._next = waiting
            raise
        if found:
            for log in waiting:
                log.close()

    def _resume(
        self, place: Place, *, finished: bool = False, otherwise: Sequence[OpenLog] = ()
    ) -> bool:
        """Go to the file of ``place`` or its successor; return whether it was found.

        If it was not, continue with the files ``otherwise``, or the path's own.
        """
        logs = [] if (own := self._open_own(place)) is None else [own]
        logs = logs or self._open_set(rotation, partial(self._select, place))
        at = _index(logs, place)
        if at is None:
            logs, at = self._search_inner(logs, place)
        if at is None and (renamed := _find_inode(self.path, place)) is not None:
            logs.insert(len(logs) - 1, renamed)
            at = len(logs) - 2
        before = self._before
        if at is None:
            rest = list(otherwise) or _after(logs, before)
        elif at < 0 or (finished and at + 1 < len(logs)):
            rest = self._without_read(logs[at + 1 :])
        else:
            logs[at].skip_to(place.offset)
            rest = [logs[at], *self._without_read(logs[at + 1 :])]
        for log in logs:
            if log not in rest:
                log.close()
        self._go_on(rest)
        if at is None:
            self._before = before  # a missing file proves nothing about the files beside it
        return at is not None

    def _without_read(self, logs: Sequence[OpenLog]) -> list[OpenLog]:
        """Leave out the file before: some rotators give the newest file the highest number."""
        before = self._before
        if before is None:
            return list(logs)
        return [log for log in logs[:-1] if not log.is_whole_of(before)] + list(logs[-1:])

    def _go_on(self, logs: Iterable[OpenLog]) -> None:
        first, *self._next = logs
        self._switch(first)

    def _open_own(self, place: Place) -> OpenLog | None:
        """Open the path's own file if it is that of ``place``: the set need not be searched.

        20,000 logs in one folder would be listed by each of them at a start.
        """
        log = OpenLog(self.path)
        if place.head_bytes and log.is_inode_of(place) and log.is_copy_of(place):
            return log
        log.close()
        return None

    def _search_inner(self, logs: list[OpenLog], place: Place) -> tuple[list[OpenLog], int | None]:
        """Search ``place`` in files such as ``app-1.log``: only if one has it, are they the set."""
        inner = self._open_set(inner_rotation, partial(self._select, place))
        at = _index(inner[:-1], place)
        for log in inner if at is None else logs:
            log.close()
        return (logs, None) if at is None else (inner, at)

    def _open_set(self, split: Split, select: Select) -> list[OpenLog]:
        """Open the selected files of the rotated set, oldest first, and the path's own.

        Those are `_OPEN_MAX` at most. A rotation at the same time hides a file or shows it twice;
        then the set is opened again.
        """
        for left in reversed(range(_TRIES)):
            current, older, faults = OpenLog(self.path), list[OpenLog](), list[str]()
            try:
                listed = _older(self.path, split)
                for path in select(listed)[:_OPEN_MAX]:
                    try:
                        older.append(OpenLog(path))
                    except OSError as error:
                        if error.errno in EXHAUSTED:
                            raise
                        faults.append("unreadable")
                if not left or (current.is_at(self.path) and _older(self.path, split) == listed):
                    break
            except OSError:
                _close([*older, current])
                raise
            _close([*older, current])
        self._faults += tuple(faults)
        return [*older, current]

    def _select_new(
        self, is_new: Callable[[OpenLog], bool], listed: Mapping[Path, int]
    ) -> list[Path]:
        """Return the new files of a set, and keep the end of the one before them."""
        paths = list(listed)
        begin = len(paths)
        while begin and _is_selected(paths[begin - 1], is_new):
            begin -= 1
        self._before = _end_of_newest(paths[:begin])
        return paths[begin:]

    def _select(self, place: Place, listed: Mapping[Path, int]) -> list[Path]:
        """Return the files of a set from that of ``place`` on, or from the file before it on."""
        found = _list_from(listed, place)
        if found is None and self._before is not None:
            found = _list_from(listed, self._before) or list(listed)
        return found or []

    def _block(self, now: float) -> Chunk | None:
        self.place_number += 1
        log = self._reading
        if self._is_partial and log.is_being_packed(now):
            return None
        try:
            if self._is_partial:
                log.unpack_again()
            folder_at = None if log.has_bytes else _change_of_folder(self._path, now)
            chunk = log.read(now, self.block_bytes)
            self._folder_at = folder_at
            self._is_partial = chunk is None and log.offset == 0 and log.is_being_packed(now)
        except DamagedError:
            self._is_partial = log.is_being_packed(now)
            self._faults += () if self._is_partial else ("unreadable",)
            return None
        return chunk

    def _is_folder_unchanged(self) -> bool:
        """Return whether the folder has no new file since the path's own was empty.

        Without that check, each of 20,000 new logs would list their common folder.
        """
        known = self._folder_at
        return known is not None and known == _change_of_folder(self._path, math.inf)

    def _switch(self, log: OpenLog) -> None:
        self.place_number += 1
        if self._log is not None:
            if self._log.offset:
                self._before = self._log.place
                self._finished += (self._before,)
            self._log.close()
        self._log, self._seen, self._is_partial = log, (-1, -1), False


def _change_of_folder(path: str, now: float) -> int | None:
    """Return the last change of the path's folder (nanoseconds); None: it may still change."""
    with contextlib.suppress(OSError):
        changed_ns = Path(os.path.realpath(path)).parent.stat().st_mtime_ns
        if now - changed_ns / 1e9 >= _SETTLED_S:
            return changed_ns
    return None


def _older(path: Path, split: Split = rotation) -> dict[Path, int]:
    """Return the older files of the path's rotated set, oldest first, with their inodes.

    ``split`` knows the set's names.
    """
    path = Path(os.path.realpath(path))  # a container's log is a link into the folder of the set
    mine = rotation(path)
    found = dict[Order, Path]()
    try:
        with os.scandir(path.parent) as entries:
            inodes = {entry.name: entry.inode() for entry in entries}
    except PermissionError:  # a folder that may be passed but not listed
        return {}
    for name in inodes:
        if not name.startswith(mine.base.stem):  # one of 20,000 others
            continue
        other = path.with_name(name)
        place = split(other)
        if place is None or place.base != mine.base or place.order >= mine.order:
            continue
        if place.order not in found or other.suffix != ".gz":  # while it is packed, the plain one
            found[place.order] = other
    numbered = [found[order] for order in sorted(found) if order[0] == 0]
    dated = [found[order] for order in sorted(found) if order[0] != 0]
    oldest_first = [*(reversed(numbered) if _is_ascending(numbered) else numbered), *dated]
    return {each: inodes[each.name] for each in oldest_first}


def _is_ascending(numbered: Sequence[Path]) -> bool:
    """Return whether the last of these files, the one with the lowest number, is the oldest.

    A compressed file may have the time of its compression. So it is compared with other compressed
    files, and with the others only if it is older than they are.
    """
    ages: list[tuple[bool, int]] = []
    for path in numbered:
        with contextlib.suppress(OSError):
            found = path.stat()
            if found.st_size > 0:
                ages.append((path.suffix == ".gz", found.st_mtime_ns))
    for kind in (False, True):
        times = [at for is_packed, at in ages if is_packed is kind]
        if times and times[0] != times[-1]:
            return times[0] > times[-1]
    return bool(ages) and ages[-1][0] and ages[0][1] > ages[-1][1]


def _is_selected(path: Path, is_right: Callable[[OpenLog], bool]) -> bool:
    """Return whether a file can be opened and is the right one."""
    try:
        log = OpenLog(path)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        return False
    found = is_right(log)
    log.close()
    return found


def _end_of_newest(older: Sequence[Path]) -> Place | None:
    """Return the end of the newest file that has bytes; None if it cannot be read."""
    newest = next((path for path in reversed(older) if _is_selected(path, _has_bytes)), None)
    if newest is None:
        return NOTHING
    try:
        log = OpenLog(newest)
    except OSError:
        return None
    try:
        return log.end()
    except OSError:
        return None
    finally:
        log.close()


def _has_bytes(log: OpenLog) -> bool:
    return log.has_bytes


def _after(logs: list[OpenLog], before: Place | None) -> list[OpenLog]:
    """Return the files of a set that follow ``before``, at least the path's own.

    A set loses its oldest files first: if ``before`` is gone, the older ones are gone, too.
    """
    if before is None:
        return logs[-1:]
    at = _index(logs[:-1], before)
    return logs if at is None else logs[at + 1 :]


def _find_inode(path: Path, place: Place) -> OpenLog | None:
    """Open the file of ``place`` under a name that is not known as a rotation's."""
    with contextlib.suppress(OSError), os.scandir(os.path.realpath(path.parent)) as entries:
        for entry in entries:
            if entry.inode() == place.inode and entry.is_file(follow_symlinks=False):
                log = OpenLog(Path(entry.path))
                if log.is_inode_of(place) and log.is_copy_of(place):
                    return log
                log.close()
    return None


def _list_from(listed: Mapping[Path, int], place: Place) -> list[Path] | None:
    """Return the files from that of ``place`` on, oldest first; None: it is not among them.

    The newest are opened first, one at a time: nearly always it is one of these.
    """
    paths = list(listed)
    if place == NOTHING:
        return paths
    same = [at for at, path in enumerate(paths) if listed[path] == place.inode]
    for at in (*reversed(same), *reversed(range(len(paths)))):
        if _is_selected(paths[at], lambda log: log.is_copy_of(place)):
            return paths[at:]
    return None


def _close(logs: Iterable[OpenLog]) -> None:
    for log in logs:
        log.close()


def _index(logs: list[OpenLog], place: Place) -> int | None:
    """Return the index of the file of ``place``; the same inode precedes a copy.

    `NOTHING` stands before the first one: -1.
    """
    if place == NOTHING:
        return -1
    holding = [i for i, log in enumerate(logs) if log.is_copy_of(place)]
    same = [i for i in holding if logs[i].is_inode_of(place)]
    return max(same or holding, default=None)
