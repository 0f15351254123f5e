"""Order of entries with one time, as the words of clients show it.

Theory of operation. Stamps of whole seconds give one time to a whole rebalance. A store that sorts
by time returns such entries in any order: the newest first, or as they were written, whichever
order the seconds have. What a client prints shows the order: it joins before it synchronises, a
state begins where the last one ended, and generations rise. Entries of different members show
nothing.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from agent.sources.lines.envelopes.envelope import LogEntry, Unwrapper, date_line
from agent.sources.lines.times.timestamps import TimestampReader

_STEPS = (
    (
        r"\(Re-\)joining group|Request joining group|Revok(?:e|ing) previously|\bjoining group"
        r"|\bentering loop for consumer group|is rebalancing, re-joining|this member, re-joining"
    ),
    (
        r"(?:Successfully j|\bJ|\bj)oined group(?! at)|Finished assignment|\bjoined, balancing"
        r"|Consumer has joined the group"
    ),
    r"(?:Successfully s|\bs)ynced|\bsync group finished",
    (
        r"Joined group at|(?:Adding|Setting) newly assigned|Notifying assignor"
        r"|new group session begun|\bsubscribed to topics and partitions: map"
    ),
)
"""Texts of a round, in the order in which a member prints them."""
_STEP = re.compile("|".join(f"(?P<s{number}>{step})" for number, step in enumerate(_STEPS)))
_CHAIN = re.compile(r"(?:from |state:? )(\w[\w-]{0,32}) (?:to|->) (\w[\w-]{0,32})", re.ASCII)
"""Change of a state: Kafka Streams' and librdkafka's."""
_GENERATION = re.compile(r"[Gg]eneration\D{0,25}?(-?\d{1,10})\b", re.ASCII)
_CLIENT = re.compile(r"clientId=([^,\]]{1,256})|(?<!\S)(\S{1,256}#consumer-\d{1,6})", re.ASCII)
_OF_GROUP = re.compile(r"[Gg]roup|Consumer|#consumer-|\brebalanc")
"""Words of a client, whose order counts."""
_LEAST, _CLEAR = 2, 2
"""Signs that decide; more than twice as many as of the opposite."""
_LINES = 2_000
"""Entries of the begin of a log that are searched for signs."""

_ENTRY_BYTES = 1 << 20
_LINE_BYTES, _ENTRY_OBJECT_BYTES = 48, 160
"""Memory of an object in Python, beside its text."""

Entry = tuple[float | None, list[bytes]]
"""Time (Unix seconds) and lines."""


def split_entries(
    lines: list[bytes], timezone: str | None, arrival_at: float, *, is_each: bool = False
) -> list[Entry]:
    """Return the entries of a log; each begins with a time, or is one line (``is_each``)."""
    return list(iterate_entries(lines, timezone, arrival_at, is_each=is_each))


def iterate_entries(
    lines: Iterable[bytes], timezone: str | None, arrival_at: float, *, is_each: bool = False
) -> Iterator[Entry]:
    """Yield the entries of a log, each as soon as it is whole; see `split_entries`.

    An entry of more than `_ENTRY_BYTES` is yielded in parts.
    """
    reader, unwrapper = TimestampReader(timezone), Unwrapper(timezone)
    entry: Entry | None = None
    size = 0
    for line in lines:
        at = date_line(line, reader, unwrapper, arrival_at)
        if entry is None or at is not None or is_each or size > _ENTRY_BYTES:
            if entry is not None:
                yield entry
            entry, size = (at, []), 0
        entry[1].append(line)
        size += len(line) + _LINE_BYTES
    if entry is not None:
        yield entry


def cut_entries(entries: Iterable[Entry], max_bytes: int) -> Iterator[list[Entry]]:
    """Yield lists of entries of some ``max_bytes`` in memory; entries of one time stay together.

    More than twice as many bytes of one time are cut, too.
    """
    piece: list[Entry] = []
    size = 0
    for entry in entries:
        is_next = bool(piece) and entry[0] != piece[-1][0]
        if size >= 2 * max_bytes or (is_next and size >= max_bytes):
            yield piece
            piece, size = [], 0
        piece.append(entry)
        size += sum(map(len, entry[1])) + _LINE_BYTES * len(entry[1]) + _ENTRY_OBJECT_BYTES
    if piece:
        yield piece


def order_entries(
    entries: list[Entry], *, is_backward: bool, direction: int | None = None
) -> list[Entry]:
    """Return the entries with the oldest first, those of one time as their words show.

    ``direction`` is that of a whole log of which the entries are a part; see `find_direction`.
    """
    direction = find_direction(entries) if direction is None else direction
    if is_backward and direction <= 0:
        return entries[::-1]
    if not is_backward and direction >= 0:
        return entries
    runs = [list(run) for _, run in groupby(entries, key=lambda entry: entry[0])]
    if is_backward:
        return [entry for run in reversed(runs) for entry in run]
    return [entry for run in runs for entry in reversed(run)]


def find_direction(entries: list[Entry]) -> int:
    """Return 1 if entries of one time are in order, -1 if they run backwards, 0 if unknown."""
    unwrapper = Unwrapper(None)
    signs: dict[tuple[str, str], _Signs] = {}
    for at, lines in entries[:_LINES]:
        for line in lines if at is not None else ():
            for entry in unwrapper.unwrap(line, at or 0.0):
                signs.setdefault(_member_of(entry), _Signs()).take(at or 0.0, entry.text)
    ahead = sum(each.ahead for each in signs.values())
    back = sum(each.back for each in signs.values())
    if ahead >= _LEAST and ahead > _CLEAR * back:
        return 1
    return -1 if back >= _LEAST and back > _CLEAR * ahead else 0


def has_ties(entries: list[Entry]) -> bool:
    """Return whether two entries of a client that follow each other have one time."""
    unwrapper = Unwrapper(None)
    last_at: float | None = None
    for at, lines in entries[:_LINES]:
        for entry in unwrapper.unwrap(lines[0], at or 0.0) if at is not None else ():
            if _OF_GROUP.search(entry.text) is None:
                continue
            if at == last_at:
                return True
            last_at = at
    return False


def _member_of(entry: LogEntry) -> tuple[str, str]:
    client = _CLIENT.search(entry.text)
    return entry.origin, client[0] if client is not None else ""


class _Signs:
    """The last words of a member, and the signs of an order among entries of one time."""

    def __init__(self) -> None:
        self.ahead = self.back = 0
        self._at: float | None = None
        self._step: int | None = None
        self._state: tuple[str, str] | None = None
        self._generation: int | None = None

    def take(self, at: float, text: str) -> None:
        """Take the next text; at another time it is compared with nothing."""
        if at != self._at:
            self._at, self._step, self._state, self._generation = at, None, None, None
        for sign in (*self._compare_step(text), *self._compare_state(text)):
            self.ahead += sign > 0
            self.back += sign < 0
        generation = _GENERATION.search(text)
        if generation is not None and (number := int(generation[1])) >= 0:
            last, self._generation = self._generation, number
            self.ahead += last is not None and number > last
            self.back += last is not None and number < last

    def _compare_step(self, text: str) -> Iterator[int]:
        """Yield the sign of a step next to the last one; a new round may follow any step."""
        found = _STEP.search(text)
        if found is None or found.lastgroup is None:
            return
        step, last = int(found.lastgroup[1:]), self._step
        self._step = step
        if last is not None and (abs(step - last) == 1 or (step and last)):
            yield step - last

    def _compare_state(self, text: str) -> Iterator[int]:
        found = _CHAIN.search(text)
        if found is None:
            return
        last, self._state = self._state, (found[1], found[2])
        if last is not None:
            yield (last[1] == found[1]) - (last[0] == found[2])
