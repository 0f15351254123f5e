"""One stream of a source of files: its follower, and its parser, awake or asleep.

A stream that is not read for a while costs some kilobytes: its file is closed, and its parser is
kept as the text that a checkpoint holds of it. The next block wakes it.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import msgspec

from agent.sources.lines.following.rotation import Follower
from agent.sources.lines.parsing.stream_parser import HELD_MAX_S, StreamParser, SupportsDocuments
from agent.sources.lines.whole_files.log_file import NOTHING, Place
from metrics.model.signals import Signal

RETRY_S = 5.0
"""Between two tries of an unreadable file."""

CreateParser = Callable[[str], StreamParser]
"""Creates the parser of a stream, by its name."""
Position = dict[str, Any] | msgspec.Raw
"""A stream's place and its parser's state; a sleeping stream has them as JSON."""


@dataclass(frozen=True, slots=True)
class _Sleep:
    """State of a parser that sleeps."""

    position: msgspec.Raw
    last_at: float | None
    held_at: float | None


class _Asleep(msgspec.Struct):
    """Parts of a text; the parser's is not read."""

    place: Place
    parser: msgspec.Raw
    before: Place | None = None


@dataclass(slots=True)
class StreamTail:
    """One stream."""

    stream: str
    follower: Follower
    create: CreateParser
    is_behind: bool = True
    is_within_line: bool = False
    """Whether the last block is a part of a line, and shorter than any line that is read."""
    is_waiting: bool = False
    """Whether it was not looked at, as too many others are read."""
    fault: str | None = None
    gone_at: float | None = None
    failed_at: float | None = None
    idle_at: float | None = None
    """Time of the last read that reached the end of the file."""
    read_at: float = 0.0
    """Time of the last read that found news."""
    _parser: StreamParser | None = None
    _sleep: _Sleep | None = None
    _saved: Position | None = field(default=None, repr=False)
    """The last `position`, of the follower's place number ``_saved_at``."""
    _saved_at: int = -1
    _waits_for: float | None = None
    """Time of the oldest held signal, since ``_waits_since`` (Unix seconds of the wall clock)."""
    _waits_since: float = 0.0

    @classmethod
    def resume(
        cls,
        stream: str,
        follower: Callable[..., Follower],
        position: Any,
        create: CreateParser,
    ) -> Self:
        """Continue from a `position`.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is unusable.

        """
        if isinstance(position, msgspec.Raw):
            position = msgspec.json.decode(position)
        place = msgspec.convert(position["place"], Place)
        before = msgspec.convert(position.get("before"), Place | None)
        check = position.get("check")  # older releases have none
        if check is not None and check != _checksum(place, before):
            raise ValueError("the checksum of the place is another one")
        parser = create(stream)
        parser.restore(position["parser"])
        if before == NOTHING:  # one value for all streams
            before = NOTHING
        return cls(stream, follower(place, before=before), create, _parser=parser)

    @property
    def parser(self) -> StreamParser:
        """Return the parser, awake."""
        if self._parser is None:
            self._parser = self.create(self.stream)
            if self._sleep is not None:
                self._parser.restore(msgspec.json.decode(self._sleep.position)["parser"])
            self._sleep = self._saved = None
        return self._parser

    @property
    def half_bytes(self) -> int:
        """Bytes in memory of a line that is not whole."""
        return 0 if self._parser is None else self._parser.pending

    def is_due(self, now: float) -> bool:
        """Return whether it may be read: after a fault not at once, even if the clock steps."""
        return self.failed_at is None or abs(now - self.failed_at) >= RETRY_S

    def watermark(self, now: float) -> float:
        """Return the event time before which no signal is unread or held back (Unix seconds)."""
        if self.is_behind or self.is_waiting:
            return self._horizon() or 0.0
        held_at = self._held_at()
        return now if held_at is None or now > held_at + HELD_MAX_S else held_at

    def release_overdue(self, now: float) -> list[Signal]:
        """Return signals that have been held for `HELD_MAX_S` (of the wall clock)."""
        held_at = self._held_at()
        if held_at is None or held_at != self._waits_for or self.is_behind:
            self._waits_for, self._waits_since = held_at, now
            return []
        if now - self._waits_since <= HELD_MAX_S:
            return []
        self._saved = None
        return self.parser.release_overdue(held_at)

    def settle(self, now: float) -> list[Signal]:
        """Return the signals of what its parser holds, if nothing was added for a while."""
        after_s = self._settles_after_s
        if after_s is None or self.is_behind or abs(now - self.read_at) < after_s:
            return []
        self._saved = None
        return self.parser.settle() if isinstance(self.parser, SupportsDocuments) else []

    @property
    def _settles_after_s(self) -> float | None:
        parser = self._parser
        return parser.settles_after_s if isinstance(parser, SupportsDocuments) else None

    def lag_s(self, now: float) -> float:
        """Return the delay of reading against the clock (seconds)."""
        horizon = self._horizon() if self.is_behind or self.is_waiting else None
        return 0.0 if horizon is None else max(0.0, now - horizon)

    def is_at_rest(self) -> bool:
        """Return whether nothing of it is unread, and no signal is held."""
        is_idle = not self.is_behind and not self.is_waiting and self._held_at() is None
        return is_idle and self._settles_after_s is None

    def park(self) -> bool:
        """Close an idle file until it changes; return False if it is busy."""
        return self.follower.park()

    def sleep(self) -> bool:
        """Close an idle file, and keep its parser as text; return False if it is busy.

        The rest of a half line is read again, as after a restart.
        """
        parser = self._parser
        if self._settles_after_s is not None:
            return False
        if not self.follower.park(0 if parser is None else parser.pending):
            return False
        if parser is not None:
            self._keep_as_text(parser, 0)
        return True

    def rest_parser(self) -> None:
        """Keep the parser of a stream that was not opened yet as text."""
        if self._parser is not None:
            self._keep_as_text(self._parser, self._parser.pending)

    def keep_position(self) -> Position | None:
        """Return the position; of a stream that was not read since, the same one again."""
        if self._saved is None or self._saved_at != self.follower.place_number:
            self._saved, self._saved_at = self.position(), self.follower.place_number
        return self._saved

    def forget_parser(self) -> None:
        """Begin with a new parser behind what was read."""
        self._parser = self._sleep = self._saved = None

    def position(self) -> Position | None:
        """Return the place and the parser's state; None before the first file is open."""
        place = self.follower.place
        if place is None:
            return None
        if self._sleep is not None:
            return self._move_asleep(place, self._sleep)
        parser = self.parser
        rest = replace(place, offset=max(0, place.offset - parser.pending))
        before = self.follower.before
        position = {
            "place": msgspec.to_builtins(rest),
            "parser": parser.state(),
            "check": _checksum(rest, before),
        }
        return position if before is None else position | {"before": msgspec.to_builtins(before)}

    def _keep_as_text(self, parser: StreamParser, pending: int) -> None:
        place = self.follower.place
        if place is None:
            return
        rest = replace(place, offset=max(0, place.offset - pending))
        text = _encode(rest, parser.state(), self.follower.before)
        held_at = parser.oldest_pending_at()
        self._sleep = _Sleep(text, None if held_at is not None else parser.horizon(), held_at)
        self._saved, self._saved_at = text, self.follower.place_number
        self._parser = None

    def _move_asleep(self, place: Place, sleep: _Sleep) -> msgspec.Raw:
        """Return the text of a sleeping stream, written again only for another place.

        It is the only one: a second text of 20,000 streams took 30 MiB.
        """
        asleep = msgspec.json.decode(sleep.position, type=_Asleep)
        before = self.follower.before
        if asleep.place != place or asleep.before != before:
            text = _encode(place, asleep.parser, before)
            self._sleep = sleep = replace(sleep, position=text)
        return sleep.position

    def _held_at(self) -> float | None:
        if self._sleep is not None:
            return self._sleep.held_at
        return None if self._parser is None else self._parser.oldest_pending_at()

    def _horizon(self) -> float | None:
        """Return a lower bound of the next lines' times (Unix seconds); None before any line."""
        if self._parser is not None:
            return self._parser.horizon()
        if self._sleep is None:
            return None
        if self._sleep.held_at is not None:
            return self._sleep.held_at
        times = (at for at in (self._sleep.last_at, self.idle_at) if at is not None)
        return max(times, default=None)


def _encode(place: Place, state: Any, before: Place | None) -> msgspec.Raw:
    position = {"place": place, "parser": state, "check": _checksum(place, before)}
    known = {} if before is None else {"before": before}
    return msgspec.Raw(msgspec.json.encode(position | known))


def _checksum(place: Place, before: Place | None) -> int:
    """Return a checksum: a place with one wrong value would be that of another file."""
    values = [
        (each.device, each.inode, each.head_bytes, each.head, each.offset)
        for each in (place, before)
        if each is not None
    ]
    return zlib.crc32(repr(values).encode())
