"""Shifts of live logs: differences between timestamps of another time zone and the wall clock.

Theory of operation. A line that was just written has a timestamp near the wall clock. If all
timestamps at both ends of a new block differ from it by the same number of quarters of an hour, the
stream uses another time zone. Only lines that are appended while the agent reads show a shift into
the past, because a backlog is old. A shift into the future shows in a backlog, too: its last line
cannot be later than now.

The application's timestamps and those of the collector are compared separately: a container
runtime's clock may be right while the application's time zone is wrong.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from agent.sources.lines.envelopes.envelope import Unwrapper
from agent.sources.lines.times.timestamps import TimestampReader

LIVE_GAP_S = 10.0
"""A new line counts as just written if the file was last read at most this long ago."""

_QUARTER_S = 900.0
_MAX_SHIFT_S = 26 * 3_600.0
"""Between the zones of -12 and +14 hours."""
_TOLERANCE_S = 1.0
"""Stamps in whole seconds, and the clocks of file systems."""
_LINES = 4
"""Lines at each end of a block that are dated: the ones between are no older."""
_AGAIN_S = 5.0
"""Time between two looks at a stream that runs by the wall clock."""
_MAX_SHIFTS = 1_000


class Shift(NamedTuple):
    """A correction that begins, changes or ends. ``before`` and ``after`` are seconds ahead."""

    origin: str
    before: float
    after: float


class _Clock(NamedTuple):
    """A clock within a file: its origin, and whether the application's own text holds the stamp."""

    origin: str
    is_own: bool


class ClockShifts:
    """Lead of the timestamps over the wall clock, in seconds, for each stream of one file."""

    def __init__(self, timezone: str | None) -> None:
        """``timezone`` is the IANA name for stamps without a zone; None is the machine's."""
        self._timezone = timezone
        self._reader = TimestampReader(timezone)
        self._shifts: dict[_Clock, float] = {}
        self.is_any = False
        """Whether a stream is shifted; each line asks."""
        self._again_at = 0.0

    def find(self, origin: str, *, is_own: bool) -> float:
        """Return how many seconds a stream's stamps are ahead; 0 for the right zone."""
        return self._shifts.get(_Clock(origin, is_own), 0.0) if self.is_any else 0.0

    def observe(self, data: bytes, arrival_at: float, gap_s: float | None) -> list[Shift]:
        """Compare a block's stamps with its arrival; return the shifts that changed.

        ``gap_s`` are the seconds since the file was last read to its end. None: the block is a
        backlog; then only its last line counts, and only if it is in the future.
        """
        if gap_s is not None and gap_s > LIVE_GAP_S:
            gap_s = None
        if gap_s is not None and arrival_at < self._again_at:
            return []
        found: dict[_Clock, list[float]] = {}
        for clock, at in self._date(data, arrival_at):
            found.setdefault(clock, []).append(at - arrival_at)
        changed, is_merged = [], len(found) > 1
        for clock, ahead in found.items():
            after = _judge(ahead, gap_s)
            if after is None:
                continue
            if not is_merged and not clock.origin and gap_s is not None:
                self._again_at = arrival_at + _AGAIN_S
            before = self._shifts.get(clock, 0.0)
            if after != before and (after or gap_s is not None):
                changed.append(Shift(clock.origin, before, after))
                self._set(clock, after)
        return changed

    def state(self) -> list[list[Any]]:
        """Return the shifts for a checkpoint, in types that JSON can carry."""
        return [[*clock, shift_s] for clock, shift_s in self._shifts.items()]

    def restore(self, state: list[list[Any]]) -> None:
        """Restore a `state`."""
        for origin, is_own, shift_s in state:
            self._set(_Clock(origin, is_own), shift_s)

    def _set(self, clock: _Clock, shift_s: float) -> None:
        self._shifts.pop(clock, None)
        if shift_s:
            self._shifts[clock] = shift_s
        if len(self._shifts) > _MAX_SHIFTS:
            del self._shifts[next(iter(self._shifts))]
        self.is_any = bool(self._shifts)

    def _date(self, data: bytes, arrival_at: float) -> Iterator[tuple[_Clock, float]]:
        """Yield the stamps of the lines at both ends of a block."""
        unwrapper = Unwrapper(self._timezone)  # the pieces of a line are another one's
        for raw in _ends_of(data):
            for entry in unwrapper.unwrap(raw, arrival_at):
                own = self._reader.find(entry.text, arrival_at)
                at = entry.at if own is None else own
                if at is not None:
                    yield _Clock(entry.origin, own is not None), at


def _ends_of(data: bytes) -> list[bytes]:
    """Return the first and the last whole lines."""
    end = data.rfind(b"\n") + 1
    first = data[:end].split(b"\n", _LINES)
    if len(first) <= _LINES:
        return first
    return first[:_LINES] + [line for line in first[_LINES].rsplit(b"\n", _LINES + 1)[1:] if line]


def _judge(ahead: list[float], gap_s: float | None) -> float | None:
    """Return the shift that all timestamps show, in seconds; None if they do not agree on one."""
    if gap_s is None:
        ahead = ahead[-1:]
    shifts = {_QUARTER_S * round(each / _QUARTER_S) for each in ahead}
    if len(shifts) != 1:
        return None
    (shift_s,) = shifts
    age_s = _TOLERANCE_S if gap_s is None else gap_s + _TOLERANCE_S
    is_near = all(-age_s <= each - shift_s <= _TOLERANCE_S for each in ahead)
    if not is_near or abs(shift_s) > _MAX_SHIFT_S:
        return None
    return None if gap_s is None and shift_s <= 0 else shift_s
