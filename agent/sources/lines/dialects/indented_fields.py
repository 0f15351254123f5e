"""Records over several lines: a message, and below it one indented line for each field.

Theory of operation. The client's names, such as its group, are in the lines of fields; the message
and the time are in the head. So a field's line is joined with the lines around it, up to the next
line without indentation. The result has the form that pino-pretty prints with ``singleLine``: the
message and one object after it. Errors stay below the line, as in that form. Node prints objects in
the same way (inspected_objects.py), after a message or alone. A record that arrives in pieces is
joined again with each piece.

Source: https://github.com/pinojs/pino-pretty/blob/v13.2.0/lib/pretty.js
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from agent.sources.lines.dialects.dialect import LogEvent, Rule
from agent.sources.lines.envelopes.envelope import LogEntry
from agent.sources.lines.fields.decoding import decode
from agent.sources.lines.fields.inspected_objects import is_compact, join_inspected, write_lines

INDENT = b"    "
"""Before each field, as pino-pretty writes it."""
ABOVE_BYTES, _LINES_ABOVE = 8_192, 16
"""Of a record, before the first field that a client's lines have."""
_LINES_BELOW, _RECORD_BYTES = 2_048, 1 << 16
"""Most of a record: an assignment has a line for each partition."""
_OPEN_CHARS = 2_048
"""Kept over a restart of a record that may go on."""
Read = Callable[[bytes], list[str]]
Unwrap = Callable[[bytes], Iterable[LogEntry]]
_FIELD = re.compile(r" {4}([A-Za-z_$][\w.$@-]{0,63}): (.*)", re.DOTALL)
_OF_NODE = "  "
"""Before each field of an object that Node prints."""
_FIELD_OF_NODE = re.compile(r" {2,4}['\"]?[\w.@-]{1,64}['\"]?: ")
_HEAD_OF_NODE = re.compile(r"(?:^|\s)\{\s*$")
_HEAD = re.compile(
    r"(?:^|[\s\]])(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL|USERLVL)"
    r"(?: \([^)\n]{1,255}\)| [\w.@/-]{1,64})?: "
)
_BETWEEN_FIELDS = "--"
"""bunyan's command line writes it."""
_WORD = re.compile(r"[\w.@:/-]{1,255}", re.ASCII)
_SENDER = re.compile(r"(?<=[A-Z]) \([^)\n]{1,255}\)(?=: )")
"""Name, process and host of the program."""


class FieldPlace(NamedTuple):
    """Place of a line: the block's number and bytes, begin of the line and end of the block."""

    number: int
    block: bytes
    start: int
    end: int
    above: bytes
    """The last bytes before the line."""


class FieldRecords:
    """The records of one file, one after the other."""

    def __init__(self) -> None:
        """Begin a file."""
        self.is_open = False
        """The last block ended within a record; the next block may continue it."""
        self.indent = INDENT
        """Indentation of the record's fields."""
        self._rule: Rule | None = None
        self._head, self._lines = "", list[str]()
        self._origin = ("", "")
        self._headless_end = (0, 0)
        """Block and place behind lines that are below no head."""
        self._number, self._ends = 0, dict[tuple[str, str], int]()
        """Number of the block, and the place in it behind the last record of each stream."""

    def restore(self, lines: Sequence[str]) -> None:
        """Go on within a record, whose head and fields so far `find_open_record` returned."""
        if lines:
            self._head, *self._lines = lines
            is_node = is_head_of_object(self._head) or is_compact(self._head)
            self.indent, self.is_open = _OF_NODE.encode() if is_node else INDENT, True

    def join(self, entry: LogEntry, place: FieldPlace, unwrap: Unwrap) -> LogEntry:
        """Return the whole record of an entry that is its head or one of its fields.

        The record has the lines that have arrived. Other entries are returned unchanged, and so are
        those of a record that was returned for another of its lines.
        """
        origin = (entry.origin, entry.pid)
        if place.number != self._number:
            self._number = place.number
            self._ends.clear()
        is_below = entry.text.startswith(_OF_NODE)
        if is_below and place.start < self._ends.get(origin, 0):
            return entry

        def read(line: bytes) -> list[str]:
            """Return the texts of the entry's own stream."""
            return [each.text for each in unwrap(line) if (each.origin, each.pid) == origin]

        if self.is_open and is_below and origin == self._origin:
            self._lines.append(entry.text)
        elif not self._begin(entry.text, place, read):
            return entry
        self._origin = origin
        self._read_below(place, read)
        joined = self._join(entry, unwrap)
        if not self.is_open:
            self._lines.clear()
        return joined

    def _join(self, entry: LogEntry, unwrap: Unwrap) -> LogEntry:
        if self.indent == INDENT:
            record = join_record(self._head, self._lines)
            return entry if record is None else replace(entry, text=record)
        found = join_inspected(write_lines(self._head, self._lines).encode())
        if b"\n" in found:
            return entry
        inner = next(iter(unwrap(found)), entry)
        at = entry.at if inner.at is None else inner.at
        return replace(inner, at=at, origin=entry.origin, host=entry.host, pid=entry.pid)

    def is_repeated(self, event: LogEvent | None) -> bool:
        """Return whether the same rule has read less of the record before."""
        before, self._rule = self._rule, None if event is None else event.rule
        return event is not None and event.rule is before

    def _begin(self, text: str, place: FieldPlace, read: Read) -> bool:
        """Begin a record with the lines from its head to ``text``; return whether it has one."""
        line_end = place.block.find(b"\n", place.start, place.end) + 1
        is_headless = (place.number, place.start) == self._headless_end
        near = [] if is_headless else place.above.splitlines()[-_LINES_ABOVE:]
        lines = [text, *(each for line in reversed(near) for each in read(line))]
        forms = ((INDENT, _HEAD), (_OF_NODE.encode(), _HEAD_OF_NODE))
        for self.indent, is_head in reversed(forms) if is_head_of_object(text) else forms:
            above = list(takewhile(self._is_indented, lines))
            head = [*lines, ""][len(above)]
            is_node = self.indent != INDENT
            if is_head.search(head) is not None or (is_node and is_compact(head)):
                self._head, self._lines, self._rule = head, above[::-1], None
                return True
        self._headless_end = (place.number, line_end)
        return False

    def _read_below(self, place: FieldPlace, read: Read) -> None:
        """Add the lines behind a line of the record."""
        at = place.block.find(b"\n", place.start, place.end) + 1
        self.is_open = True
        size = sum(map(len, self._lines))
        for line in islice(_split_lines(place.block, at, place.end), _LINES_BELOW):
            texts = read(line)
            size += len(line)
            if size > _RECORD_BYTES or not all(map(self._is_indented, texts)):
                self.is_open = False
                break
            self._lines += texts
            at += len(line) + 1
        del self._lines[_LINES_BELOW:]
        self._ends[self._origin] = at

    def _is_indented(self, text: str) -> bool:
        """Return whether a line belongs to the record above it."""
        return text.startswith(self.indent.decode())


def find_open_record(above: bytes) -> list[str]:
    """Return the last lines of a text if they are the head of a record, and its fields so far."""
    lines = above.decode(errors="replace").splitlines()[-_LINES_ABOVE:]
    fields = list(takewhile(lambda line: line.startswith(_OF_NODE), reversed(lines)))
    record = lines[-len(fields) - 1 :]
    if len(fields) == len(lines) or sum(map(len, record)) > _OPEN_CHARS:
        return []
    is_head = is_head_of_object(record[0]) or is_compact(record[0]) or _HEAD.search(record[0])
    return record if is_head else []


def is_head_of_object(text: str) -> bool:
    """Return whether an object over several lines begins behind a message."""
    return text.endswith("{") and _HEAD_OF_NODE.search(text) is not None


def is_field(text: str) -> bool:
    """Return whether a line may be that of a field; an object's first line may hold its first."""
    if not text.startswith(_OF_NODE):
        return is_compact(text)
    return bool(_FIELD.match(text) or _FIELD_OF_NODE.match(text))


def _split_lines(block: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield the whole lines of a part of a block."""
    while (line_end := block.find(b"\n", start, end)) >= 0:
        yield block[start:line_end]
        start = line_end + 1


def join_record(head: str, lines: Iterable[str]) -> str | None:
    """Return a record as one line; None if it has no field with a value."""
    fields: dict[str, Any] = {}
    for name, values in _split_fields(lines):
        value = _read_value(values)
        if value is not None:
            fields[name] = value
    if not fields:
        return None
    message, _, tail = head.partition(' {"')
    inner = decode('{"' + tail) if tail else None
    if inner is not None:
        head, fields = message, {**inner, **fields}
    try:
        written = msgspec.json.encode(fields).decode()
    except RecursionError:  # read with the last level that the stack has
        return None
    return f"{_SENDER.sub('', head, count=1)} {written}"


def _split_fields(lines: Iterable[str]) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.strip() == _BETWEEN_FIELDS:
            continue
        field = _FIELD.match(line)
        if field is not None:
            found.append((field[1], [field[2]]))
        elif found:
            found[-1][1].append(line.strip())
    return found


def _read_value(lines: Sequence[str]) -> Any:
    """Return the value of a field: JSON or a word; None for others, as an error with its stack."""
    try:
        return msgspec.json.decode("".join(lines))
    except (msgspec.DecodeError, RecursionError):
        is_word = len(lines) == 1 and _WORD.fullmatch(lines[0]) is not None
        return lines[0] if is_word else None
