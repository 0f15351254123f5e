"""Streams that one file merges: an interpreter and a clock for each origin.

Theory of operation. A collector's prefix or a store's fields name the origin of a line. Lines of
different origins are different streams: two replicas print the same client ids. A file without
origins is one stream, the main one. A new process of an origin is a restart, which continues the
stream of a former one, if no member of that is in its group. Else both may run, as two units of
systemd under one name do, and the new one has a stream of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.sources.lines.dialects.dialect import LogEvent
from agent.sources.lines.envelopes.envelope import LogEntry
from agent.sources.lines.parsing.delivered_lines import DeliveredLines
from agent.sources.lines.parsing.stream_parser import LineInterpreter
from metrics.model.signals import Signal

_MAX_ORIGINS = 1_000
"""Streams within one file; the longest silent is evicted first."""
_STEP_BACK_S = 5.0
"""Lines of several threads are less out of order; a clock that runs back by more was set."""
_TICK_S = 0.001
"""The first line behind a step is later by this: its time alone shows that it is another line."""
_MAX_PROCESSES = 64
"""Process ids of one origin; a restart begins a new one."""

CreateInterpreter = Callable[[str, str], LineInterpreter]
"""Creates the interpreter of an origin, from its name and its host."""


def name_stream(stream: str, origin: str) -> str:
    """Return the name of an origin's stream within a file's."""
    return f"{stream}#{origin}" if origin else stream


@dataclass(slots=True)
class OriginStream:
    """One stream of a file: its interpreter and its clock."""

    interpreter: LineInterpreter
    host: str = ""
    last_at: float | None = None
    dated_at: float | None = None
    behind_s: float = 0.0
    """Seconds that its clock has stepped back; its times run on from before."""
    delivered: DeliveredLines = field(default_factory=DeliveredLines)

    def continue_from(self, stamp: float) -> float:
        """Return the time of a line (Unix seconds), never before that of the last line.

        If the clock steps back, time continues from the last line, with the clock's own durations,
        until the clock has caught up. A line that is a little late, as from another thread, gets
        the time of the last line.
        """
        if self.last_at is None or stamp >= self.last_at:
            self.behind_s = 0.0
            return stamp
        if stamp + self.behind_s < self.last_at - _STEP_BACK_S:
            self.behind_s = self.last_at - stamp + _TICK_S
        return max(stamp + self.behind_s, self.last_at)

    def is_again(self, event: LogEvent, at: float) -> bool:
        """Return whether a line with its own stamp ``at`` (Unix seconds) was there before."""
        is_of_several = bool(self.interpreter.parts)
        return self.delivered.is_again(event, at, is_of_several=is_of_several)

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "host": self.host,
            "last_at": self.last_at,
            "dated_at": self.dated_at,
            "behind_s": self.behind_s,
            "interpreter": self.interpreter.state(),
            **({"delivered": self.delivered.state()} if self.delivered.size else {}),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        self.last_at, self.dated_at = state["last_at"], state["dated_at"]
        self.behind_s = state.get("behind_s", 0.0)  # an older release has none
        self.interpreter.restore(state["interpreter"])
        if "delivered" in state:  # an older release has none
            self.delivered.restore(state["delivered"])


def _continues(known: list[str], pid: str) -> bool:
    """Add a process id to those of an origin; return whether a former process continues."""
    if pid not in known:
        known.append(pid)
        del known[:-_MAX_PROCESSES]
        return False
    return pid != known[-1]


class OriginStreams:
    """The streams of one file."""

    def __init__(self, main: LineInterpreter, create: CreateInterpreter | None) -> None:
        """``create`` creates the interpreter of an origin; without it, all lines are main's."""
        self.main = OriginStream(main)
        self._create = create
        self._origins: dict[str, OriginStream] = {}
        self._processes: dict[str, dict[str, str]] = {}
        """By origin and process id, in the order of their begins: the names of their streams."""
        self._shared: set[str] = set()
        self._pending: list[Signal] = []

    def __iter__(self) -> Iterator[OriginStream]:
        """Iterate over all streams, the main one first."""
        yield self.main
        yield from self._origins.values()

    @property
    def names(self) -> Sequence[str]:
        """Return the names of all origins."""
        return tuple(self._origins)

    @property
    def part_names(self) -> Sequence[str]:
        """Return the names of further streams that an origin's turned out to merge."""
        return [
            name_stream(name, part).removeprefix("#")
            for name, stream in (("", self.main), *self._origins.items())
            for part in stream.interpreter.parts
        ]

    def name_of(self, entry: LogEntry) -> str:
        """Return the name of an entry's stream; empty for the main one.

        A restart changes the process id, so it is a part of the name only where a former process
        has members, or continues to write: then several processes share the origin.
        """
        name, pid = entry.origin, entry.pid
        if self._create is None or not pid:
            return "" if self._create is None else name
        if name in self._shared:
            return f"{name}[{pid}]"
        known = self._processes.setdefault(name, {})
        if len(self._processes) > _MAX_ORIGINS:
            forgotten = next(iter(self._processes))
            del self._processes[forgotten]
            self._shared.discard(forgotten)
        if pid not in known:
            known[pid] = self._begin(name, pid, known)
            if len(known) > _MAX_PROCESSES:
                del known[next(iter(known))]
        elif pid != next(each for each in reversed(known) if known[each] == known[pid]):
            known[pid] = f"{name}[{pid}]"  # it was taken for an ended one
        return known[pid]

    def _begin(self, name: str, pid: str, known: dict[str, str]) -> str:
        """Return the name of a new process's stream: that of an ended one, if there is any."""
        if not known:
            return name
        for former in dict.fromkeys(reversed(known.values())):
            stream = self._origins.get(former) if former else self.main
            if stream is None or not stream.interpreter.has_members:
                return former
        return f"{name}[{pid}]"

    def look_ahead(self, entries: Iterable[LogEntry]) -> None:
        """Find the origins that several processes share, from the first lines of a file.

        Without that, the first lines of the second process would count for the first one. The
        streams of origins that were read before, as before a restart of the agent, stay.
        """
        processes: dict[str, list[str]] = {}
        for entry in entries:
            is_new = entry.pid and entry.origin not in self._processes
            if is_new and _continues(processes.setdefault(entry.origin, []), entry.pid):
                self._shared.add(entry.origin)

    def find(self, name: str, host: str = "") -> OriginStream:
        """Find or create an origin's stream, and put it last."""
        if not name or self._create is None:
            return self.main
        stream = self._origins.pop(name, None)
        if stream is None:
            if len(self._origins) >= _MAX_ORIGINS:
                oldest = self._origins.pop(next(iter(self._origins)))
                self._pending += oldest.interpreter.flush()
            stream = OriginStream(self._create(name, host), host)
        self._origins[name] = stream
        return stream

    def move_back(self, origin: str, ahead_s: float) -> None:
        """Move an origin's clock back by ``ahead_s`` seconds, the former lead of its timestamps.

        A negative lead needs no correction: the clock moves forward with the next line.
        """
        if ahead_s <= 0:
            return
        streams = [
            stream
            for name, stream in self._origins.items()
            if name == origin or name.startswith(f"{origin}[")
        ]
        for stream in streams if origin else [self.main]:
            stream.last_at = None if stream.last_at is None else stream.last_at - ahead_s
            stream.dated_at = None if stream.dated_at is None else stream.dated_at - ahead_s

    def take_pending(self) -> list[Signal]:
        """Return the last signals of evicted streams."""
        pending, self._pending = self._pending, []
        return pending

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint, in types that JSON can carry."""
        return {
            **self.main.state(),
            "origins": {name: stream.state() for name, stream in self._origins.items()},
            "processes": {name: dict(ids) for name, ids in self._processes.items()},
            "shared": sorted(self._shared),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        self.main.restore(state)
        for name, origin in state.get("origins", {}).items():
            self.find(name, origin["host"]).restore(origin)
        self._processes = {
            name: dict(ids) if isinstance(ids, dict) else dict.fromkeys(ids, name)
            for name, ids in state.get("processes", {}).items()  # an older release has lists
        }
        self._shared = set(state.get("shared", ()))
