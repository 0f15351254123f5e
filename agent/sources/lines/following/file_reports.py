"""Reports on the files of a source: counts per file, and warnings on files without results.

Theory of operation. A glob without a file, and a file with lines of a client but without a member,
look like a healthy source, because nothing fails. Therefore these are warned of:

- a glob without a file: repeatedly, as long as it lasts;
- a file with client lines and no member: once;
- a file with causes and no end of a rebalance: once.

If a framework mutes its client's logger, the client prints no line that a rule can read. So the
head of a file without a member is searched once for the names of such clients. Counts are kept per
file, so that a good file does not hide a bad one. If the application assigns the partitions itself,
the consumer has no group; a file with nothing else has no member, and that is no fault.
"""

import glob
import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from metrics.model.signals import Signal, SignalKind

_AGAIN_S = 600.0
"""Between two warnings of a glob that still matches no file."""
_BLIND_LINES = 20
"""Lines of a client without a member that make a file suspicious: a new client prints fewer."""
CAUSES_ALONE = 3
"""Causes without anything else that make a file suspicious: an excerpt may begin with one."""
_MUTED_AFTER_S = 60.0
"""A client that prints its members at all has printed one within this."""
_HEAD_BYTES = 1 << 16
_LOGGED_FILES = 100
"""First lines are logged for this many files; 20,000 would fill the agent's log at a start."""
_MAX_MEMBERS = 1_000
"""Members that are counted per file."""
_PACKED = (".gz", ".zip", ".xz", ".zst", ".bz2")

_REPLAY = "rebalance-agent replay --source logs PATH names the reason"

_log = logging.getLogger(__name__)


def describe_unfollowed(path: str) -> str | None:
    """Return why a path that a glob matches is not followed, with the remedy; None: it is."""
    if path.endswith(_PACKED):
        return "a packed file, to which nothing is added: unpack it, and read it with replay"
    if os.path.isdir(path):  # noqa: PTH112 - Path's raises
        return "a folder: name its files, as FOLDER/*.log"
    return None


_Name = tuple[str, str, str | None]
"""Group, client id and instance id of a member."""


@dataclass(slots=True)
class FileCounts:
    """Counts of one file since the agent's start."""

    read_bytes: int = 0
    client_lines: int = 0
    """Lines that may be a client's."""
    signals: int = 0
    members: int = 0
    causes: int | None = 0
    """Signals, while all of them are causes: a client at WARN prints no end of a rebalance."""
    is_warned: bool = False
    is_muted: bool = False
    """Whether its head names a client that prints no member."""
    is_manual: bool = False
    """Whether it has a consumer with partitions that the application assigns."""
    _first: _Name | None = None
    _others: set[_Name] | None = None
    """Of the members after the first: most of 20,000 files have one, and a set takes 216 bytes."""

    def add_member(self, name: _Name) -> bool:
        """Count a member; return whether it is the file's first one."""
        if self.members >= _MAX_MEMBERS or name == self._first:
            return False
        if self._first is None:
            self._first, self.members = name, 1
            return True
        self._others = self._others or set()
        self._others.add(name)
        self.members = 1 + len(self._others)
        return False

    def add_signal(self, kind: SignalKind) -> None:
        """Count a cause, until a signal is anything else."""
        is_cause = kind is SignalKind.RAISE and self.causes is not None
        self.causes = (self.causes or 0) + 1 if is_cause else None

    @property
    def needs_member(self) -> bool:
        """Whether it has enough lines of a client to show a member, or the head of a muted one."""
        return self.is_muted or (self.client_lines >= _BLIND_LINES and not self.is_manual)

    @property
    def has_no_group(self) -> bool:
        """Whether it has only consumers without a group, so that a missing member is no fault."""
        return self.is_manual and not self.members and not self.is_muted


class FileReports:
    """Counts and warnings of one source's files."""

    def __init__(self, source: str, patterns: Sequence[str]) -> None:
        """``patterns`` are the configured globs."""
        self.files: dict[str, FileCounts] = {}
        self._source = source
        self._globs = {pattern: str(Path(pattern).absolute()) for pattern in patterns}
        self._warned_at: dict[str, float] = {}
        self._waiting: dict[str, float | None] = {}
        """Files with a head to be searched, and the time of the first scan after it was read."""
        self.describe: Callable[[bytes], str | None] = lambda _: None
        """Returns the client that a head without members names, and the remedy."""

    def report_scan(self, paths: Collection[Path], now: float) -> None:
        """Warn of globs that match none of the files that were found."""
        found = [str(path) for path in paths]
        for pattern in self._unmatched(found):
            if now - self._warned_at.get(pattern, -_AGAIN_S) >= _AGAIN_S:
                self._warned_at[pattern] = now
                extra = {"source": self._source, "glob": pattern}
                matches = glob.iglob(pattern, recursive=True)  # noqa: PTH207 - takes absolute ones
                if found_instead := next(filter(None, map(describe_unfollowed, matches)), None):
                    extra["hint"] = f"found {found_instead}"
                _log.warning("log_glob_without_files", extra=extra)
        for pattern in self._warned_at.keys() - set(self._unmatched(found)):
            del self._warned_at[pattern]
        for stream, since in list(self._waiting.items()):
            self._waiting[stream] = now if since is None else since
            if since is not None and now - since >= _MUTED_AFTER_S:
                self._search_head(stream)

    def report_open(self, stream: str) -> None:
        """Begin the counts of a file."""
        if stream not in self.files:
            self.files[stream] = FileCounts()
            if len(self.files) <= _LOGGED_FILES:
                self._waiting[stream] = None
            if len(self.files) == _LOGGED_FILES + 1:
                extra = {"source": self._source, "logged": _LOGGED_FILES}
                _log.info("log_opened_many: further files are logged at level debug", extra=extra)
            _log.log(self._level, "log_opened", extra={"source": self._source, "path": stream})

    def report_read(
        self, stream: str, size: int, client_lines: int, signals: Sequence[Signal], *, behind: bool
    ) -> None:
        """Count the bytes and lines of a file; report its first member, or that there is none."""
        counts = self.files.setdefault(stream, FileCounts())
        counts.read_bytes += size
        counts.client_lines += client_lines
        counts.signals += len(signals)
        for signal in signals:
            counts.add_signal(signal.kind)
            member = signal.member
            if counts.add_member((member.group, member.client_id, member.group_instance_id)):
                names = {"group": member.group, "client_id": member.client_id}
                _log.log(self._level, "log_first_member", extra={"path": stream, **names})
        fault = "log_without_ends" if (counts.causes or 0) >= CAUSES_ALONE else None
        fault = "log_without_members" if counts.needs_member and not counts.members else fault
        if fault is not None and not behind and not counts.is_warned:
            counts.is_warned = True
            found = self._describe_head(stream) if fault == "log_without_members" else None
            hint = _REPLAY if found is None else f"found {found}"
            _log.warning(fault, extra={"path": stream, "lines": counts.client_lines, "hint": hint})

    def report_manual(self, stream: str) -> None:
        """Note a consumer with partitions that the application assigns: it has no group."""
        counts = self.files.setdefault(stream, FileCounts())
        if not counts.is_manual:
            counts.is_manual = True
            hint = "the application assigns partitions itself: no group, so nothing rebalances"
            _log.log(self._level, "log_without_group", extra={"path": stream, "hint": hint})

    def report_end(self, stream: str) -> None:
        """End the counts of a deleted file."""
        self.files.pop(stream, None)
        self._waiting.pop(stream, None)

    def _search_head(self, stream: str) -> None:
        """Warn of a file without a member that names a client; wait while it is empty."""
        counts = self.files.get(stream)
        if counts is not None and not counts.read_bytes:
            return
        del self._waiting[stream]
        if counts is None or counts.members or counts.is_warned:
            return
        found = self._describe_head(stream, counts.read_bytes)
        if found is not None:
            counts.is_muted = counts.is_warned = True
            _log.warning("log_without_members", extra={"path": stream, "hint": f"found {found}"})

    def _describe_head(self, stream: str, read_bytes: int | None = None) -> str | None:
        """Return the client that the head of a file without members names, and the remedy.

        With ``read_bytes`` only if the file was read whole: after a restart of the agent, the lines
        of its members may be before the first byte that was read.
        """
        try:
            with Path(stream).open("rb") as file:
                if read_bytes is not None and read_bytes < os.fstat(file.fileno()).st_size:
                    return None
                return self.describe(file.read(_HEAD_BYTES))
        except OSError:  # it is gone or cannot be read: the tail reports that
            return None

    @property
    def _level(self) -> int:
        return logging.INFO if len(self.files) <= _LOGGED_FILES else logging.DEBUG

    def _unmatched(self, found: Sequence[str]) -> Iterator[str]:
        for pattern, absolute in self._globs.items():
            plain = absolute.replace("/**/", "/*")
            if not any(fnmatch(path, absolute) or fnmatch(path, plain) for path in found):
                yield pattern
