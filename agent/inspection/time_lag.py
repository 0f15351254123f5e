"""Time lag: the age of the oldest record of a partition that a group has not read.

Theory of operation. For a given time, a leader returns the offset and timestamp of the first record
at or after it (ListOffsets). So a search by time finds the timestamp of an offset. It reads no
records, and needs only the right Describe on the topic. The next time to try is between the last
two: in turn in proportion to their offsets, and in the middle of the ages, for uneven streams. The
result is exact, or too high by at most a twentieth of the age or a second. Timestamps are the
producers', or the broker's if the topic has LogAppendTime. If they are out of order, the search
finds one of them. Each round of requests is for all partitions of all groups, and rounds are few.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from agent.inspection.end_offsets import EndOffsets, TimedOffset

ROUNDS = 16
"""Requests to each leader, at most; a steady stream needs about four."""
_EXACT_MS = 1_000
_EXACT_SHARE = 0.05


class Unread(NamedTuple):
    """The unread records of a group in a partition: from an offset to the end."""

    group: str
    topic: str
    partition: int
    offset: int
    end: int


async def read_time_lags(
    leaders: EndOffsets, unread: Iterable[Unread], now_ms: int
) -> dict[Unread, float]:
    """Return the ages in seconds, without the partitions that have no usable timestamps."""
    searches = [_Search(each, now_ms) for each in unread]
    for _ in range(ROUNDS):
        active = [each for each in searches if not each.is_done]
        if not active:
            break
        for layer in _layers(active):
            wanted: dict[str, dict[int, int]] = {}
            for each in layer:
                wanted.setdefault(each.unread.topic, {})[each.unread.partition] = each.time
            found = await leaders.find(wanted)
            for each in layer:
                each.take(found[each.unread.topic].get(each.unread.partition))
    return {each.unread: each.age_s for each in searches if each.age_s is not None}


@dataclass(slots=True)
class _Search:
    """The search for one offset's timestamp, between two times in Unix milliseconds."""

    unread: Unread
    now_ms: int
    time: int = 0
    """The time to ask for next."""
    older: TimedOffset | None = None
    """The latest record that is known to be no later than the offset."""
    younger: TimedOffset | None = None
    """A time after the offset's, with the offset of the first record from then on."""
    is_done: bool = False
    turn: int = 0

    def take(self, found: TimedOffset | None) -> None:
        """Take a response, and choose the next time."""
        if found is None:  # its leader cannot be reached
            self.is_done, self.older = True, None
            return
        offset = self.unread.offset
        if found.offset == offset or (self.older is None and found.offset > offset):
            self.is_done, self.older = True, found  # older records are deleted
        elif found.offset < 0 and self.older is None:
            self.is_done = True  # no record has a timestamp
        elif 0 <= found.offset < offset:
            self.older = found
        else:
            end = found.offset if found.offset >= 0 else self.unread.end
            self.younger = TimedOffset(end, self.time)
        if not self.is_done:
            self._choose()

    @property
    def age_s(self) -> float | None:
        """The age of the record in seconds; None: not known."""
        if self.older is None:
            return None
        return max(0.0, (self.now_ms - self.older.timestamp) / 1000)

    def _choose(self) -> None:
        older = self.older or TimedOffset(0, 0)
        younger = self.younger or TimedOffset(self.unread.end, self.now_ms + 1)
        width, age = younger.timestamp - older.timestamp, self.now_ms - older.timestamp
        if width <= max(_EXACT_MS, _EXACT_SHARE * age):
            self.is_done = True
            return
        self.turn += 1
        if self.turn % 2:
            share = (self.unread.offset - older.offset) / max(1, younger.offset - older.offset)
            middle = older.timestamp + int(width * share)
        else:
            ages = max(1, self.now_ms - younger.timestamp), max(1, age)
            middle = self.now_ms - int(sqrt(ages[0] * ages[1]))
        self.time = min(max(middle, older.timestamp + 1), younger.timestamp - 1)


def _layers(searches: Iterable[_Search]) -> Iterator[list[_Search]]:
    """Yield searches with each partition once: a request must not have it twice."""
    counts: dict[tuple[str, int], int] = {}
    layers: list[list[_Search]] = []
    for each in searches:
        key = each.unread.topic, each.unread.partition
        layer = counts.get(key, 0)
        counts[key] = layer + 1
        if layer == len(layers):
            layers.append([])
        layers[layer].append(each)
    yield from layers
