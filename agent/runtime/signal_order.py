"""Signals in the order of their time, where several sources read files.

Theory of operation. Sources emit in read order, and the tracker merges several sources' reports
about one member. At a first start, or after an outage, a client's log may be read to its end before
a broker's log begins: each event would arrive twice, in the wrong order. So while a source reads a
backlog, signals wait until every source has read up to their time, and files that are far ahead are
paused. Waiting signals are part of the checkpoint, because the sources' positions are after them. A
source without progress delays the others by at most `STALL_S`.

Without a backlog, too, two sources look at their files at different moments, a part of a second
apart: a broker's answer may be read before the request. So with two sources of files each signal
waits for `LOOK_S`. Beside traffic nothing waits: the clock of a log's host may differ from that of
the agent's, and the rules of two sources (`metrics.tracking.verdicts`) allow for late lines.
"""

import asyncio
import heapq
import math
import time
from collections.abc import Callable, Sequence

from agent.sources.base import TICK_S, GroupInspector, Source, SupportsBacklog, Tick
from metrics.model.signals import Signal, SourceKind

HELD_MAX = 50_000
"""Signals that wait at most, some 30 MiB: beyond, the oldest half is applied at once."""
AHEAD_MAX = 10_000
"""With more of them waiting, files that are ahead of the others are not read on."""
LOOK_S = 0.5
"""Twice the time between two looks at a file: what was written before a signal is read by then."""
STALL_S = 60.0
"""If no source reads on for so long, waiting events are applied."""
CallLater = Callable[[float, Callable[[], None]], object]
"""(seconds, what to call)."""


def call_later(after_s: float, call: Callable[[], None]) -> object:
    """Call in the running event loop."""
    return asyncio.get_running_loop().call_later(after_s, call)


class SignalOrder:
    """Passes events on in the order of time where files are read late; else at once."""

    def __init__(
        self,
        apply: Callable[[Signal | Tick], None],
        advance: Callable[[float], None],
        monotonic: Callable[[], float] = time.monotonic,
        call_later: CallLater = call_later,
    ) -> None:
        """``apply`` takes the next event; ``advance`` advances the time up to it."""
        self._apply, self._advance, self._monotonic = apply, advance, monotonic
        self._call_later = call_later
        self._held: list[tuple[float, int, Signal | Tick, float]] = []
        """By their time; the last value is when they came, in monotonic seconds."""
        self._number = 0
        self._backlogs: list[SupportsBacklog] = []
        self._is_due = self._is_backlog = False
        """Whether a look at the waiting events is planned; whether a backlog made some wait."""
        self._backlog_at = -math.inf
        """When the last one of these came (monotonic seconds)."""
        self._advanced_to = self._read_to = 0.0
        self._moved_at = monotonic()

    def attach(self, sources: Sequence[Source]) -> None:
        """Use the sources of a configuration; a single one has no other to wait for."""
        members = [source for source in sources if not isinstance(source, GroupInspector)]
        found = [source for source in members if isinstance(source, SupportsBacklog)]
        self._backlogs = [*found] if len(members) > 1 else []
        self._moved_at = self._monotonic()

    @property
    def is_behind(self) -> bool:
        """Whether one of the sources reads a backlog."""
        return any(source.is_behind for source in self._backlogs)

    @property
    def is_holding(self) -> bool:
        """Whether anything waits because of a backlog."""
        return self._is_backlog

    @property
    def first_at(self) -> float:
        """Return the time of the first waiting event (Unix seconds); infinite without one."""
        return self._held[0][0] if self._held else math.inf

    @property
    def held(self) -> list[Signal | Tick]:
        """The waiting events, in order."""
        return [event for _, _, event, _ in sorted(self._held)]

    def restore(self, held: Sequence[Signal | Tick]) -> None:
        """Continue with the waiting events of an earlier run."""
        for event in held:
            self._push(event)
        self._is_backlog, self._backlog_at = bool(held), self._monotonic()

    def add(self, event: Signal | Tick) -> None:
        """Take the next event of a source."""
        if self.is_behind:
            self._is_backlog, self._backlog_at = True, self._monotonic()
        elif not self._are_many:
            self.release_all()
            self._apply(event)
            return
        self._push(event)
        if len(self._held) > HELD_MAX:
            self._release(sorted(self._held)[HELD_MAX // 2][0])
        self._plan_look(LOOK_S)

    def release(self, read_to: float) -> None:
        """Apply events up to a time that every source has read, or all once none is behind."""
        if read_to != self._read_to:
            self._read_to, self._moved_at = read_to, self._monotonic()
        is_stalled = self._monotonic() - self._moved_at > STALL_S
        if is_stalled or not (self.is_behind or self._are_many):
            self.release_all()
        elif self.is_behind:
            self._release(read_to)
        else:
            self._release_looked_up()
        limit = read_to if len(self._held) > AHEAD_MAX else None
        for source in self._backlogs:
            source.limit_reading(limit)

    def forget(self, is_departed: Callable[[SourceKind, str], bool]) -> None:
        """Drop the signals of origins that no source reads any more."""
        self._held = [
            each
            for each in self._held
            if isinstance(each[2], Tick) or not is_departed(each[2].source, each[2].member.origin)
        ]
        heapq.heapify(self._held)

    def release_all(self) -> None:
        """Apply all waiting events."""
        self._release(math.inf)

    @property
    def _are_many(self) -> bool:
        """Whether several sources read files, each at its own moments."""
        return len(self._backlogs) > 1

    def _plan_look(self, after_s: float) -> None:
        if not (self._is_due or self.is_behind):
            self._is_due = True
            self._call_later(after_s, self._look)

    def _look(self) -> None:
        self._is_due = False
        if not self.is_behind:
            self._release_looked_up()

    def _release_looked_up(self) -> None:
        """Apply what has waited for `LOOK_S`, and what was before it."""
        now = self._monotonic()
        looked_up = (at for at, _, _, came_at in self._held if came_at <= now - LOOK_S)
        self._release(max(looked_up, default=-math.inf))
        self._is_backlog = self._is_backlog and self._backlog_at > now - LOOK_S
        if self._held:
            first_at = min(came_at for _, _, _, came_at in self._held)
            self._plan_look(first_at + LOOK_S - now)

    def _push(self, event: Signal | Tick) -> None:
        self._number += 1
        heapq.heappush(self._held, (event.at, self._number, event, self._monotonic()))

    def _release(self, until: float) -> None:
        while self._held and self._held[0][0] <= until:
            at, _, event, _ = heapq.heappop(self._held)
            if at >= self._advanced_to + TICK_S:
                self._advanced_to = at
                self._advance(at)
            self._apply(event)
        self._is_backlog = self._is_backlog and bool(self._held)
