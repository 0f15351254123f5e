"""Streams with an open file: a bounded number, and a bounded number of bytes of half lines.

The streams that are idle longest are closed first. If streams are independent of each other, the
parsers of closed ones sleep: they keep only their state.
"""

from collections.abc import Callable

from agent.processes.descriptors import is_reserved
from agent.sources.lines.following.stream_tail import StreamTail

AWAKE_MAX = 256
"""Streams whose parsers are awake; each holds up to 64 KiB of the lines above."""
HALF_LINES_MAX = 16 << 20
"""Bytes of lines that are not whole, of all streams; one may have 1 MiB."""
_OPEN_MORE = 16
"""Files that are opened more after each scan, to find out whether descriptors are free again."""


class OpenTails:
    """The open streams of one source, the one that was read last at the end."""

    def __init__(self, run_short: Callable[[int], None], *, are_apart: bool) -> None:
        """``run_short`` takes the number of open files once descriptors are short.

        ``are_apart``: a stream's parser may sleep.
        """
        self._run_short = run_short
        self._are_apart = are_apart
        self.limit = AWAKE_MAX if are_apart else None
        """Streams whose parsers may be awake; None: no parser sleeps."""
        self._max = self.limit
        """Files that may be open; None: as many as there are."""
        self._tails: dict[str, StreamTail] = {}
        self._halves: dict[str, int] = {}
        """Bytes of half lines by stream, the first one first."""

    def __len__(self) -> int:
        """Return the number of open files."""
        return len(self._tails)

    def let_in(self, tail: StreamTail) -> bool:
        """Return whether a stream may be read now; idle ones are closed for it."""
        if tail.stream not in self._tails and not self._make_room():
            return False
        if self._has_room_for_halves():
            return True
        first = next((s for s in self._halves if self._tails[s].is_behind), tail.stream)
        return first == tail.stream

    def note(self, tail: StreamTail, *, is_read: bool) -> None:
        """Update a stream that was looked at; one in the reserve shows that there are too many."""
        descriptor = tail.follower.descriptor
        if descriptor is None:
            self.forget(tail)
            return
        is_known = tail.stream in self._tails
        if is_read or not is_known:
            self._tails.pop(tail.stream, None)
            self._tails[tail.stream] = tail
        if not is_known and is_reserved(descriptor):
            self.run_short()

    def note_half(self, tail: StreamTail) -> None:
        """Update the bytes of a stream's half line."""
        if tail.half_bytes:
            self._halves[tail.stream] = tail.half_bytes
        else:
            self._halves.pop(tail.stream, None)

    def forget(self, tail: StreamTail) -> None:
        """Remove a stream that has no open file."""
        self._tails.pop(tail.stream, None)
        self._halves.pop(tail.stream, None)

    def run_short(self) -> None:
        """Close idle files from now on: descriptors are short."""
        self._max = max(1, len(self._tails) - 1)
        self._run_short(len(self._tails))

    def try_more(self) -> None:
        """Allow some more files, up to the limit."""
        if self._max is not None:
            more = self._max + _OPEN_MORE
            self._max = more if self.limit is None else min(more, self.limit)

    def _make_room(self) -> bool:
        if self._max is None or len(self._tails) < self._max:
            return True
        for tail in list(self._tails.values()):
            if self._put_away(tail) and len(self._tails) < self._max:
                return True
        return False

    def _has_room_for_halves(self) -> bool:
        if not self._are_apart or sum(self._halves.values()) <= HALF_LINES_MAX:
            return True
        for stream in list(self._halves):
            if self._put_away(self._tails[stream]) and sum(self._halves.values()) <= HALF_LINES_MAX:
                return True
        return False

    def _put_away(self, tail: StreamTail) -> bool:
        if not (tail.sleep() if self._are_apart else tail.park()):
            return False
        self.forget(tail)
        return True
