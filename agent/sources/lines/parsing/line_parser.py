"""Parser of one log stream: bytes in any pieces to signals. No file, no clock.

Theory of operation. Most lines of an application's log are not Kafka's. So a block is searched for
the marks of the dialects (line_finder.py) before it is split into lines. Only a line with a mark is
unwrapped (CRI, Docker, JSON), dated and read. A file that merges several streams
(collector_prefix.py, json_entry.py) has an interpreter and a clock for each of them, by the name of
the origin.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from agent.sources.lines.dialects.dialect import Action, LogEvent, Rule
from agent.sources.lines.dialects.dialect_matcher import DialectMatcher, Dialects
from agent.sources.lines.dialects.indented_fields import (
    ABOVE_BYTES,
    INDENT,
    FieldPlace,
    FieldRecords,
    find_open_record,
    is_field,
    is_head_of_object,
)
from agent.sources.lines.dialects.line_finder import create_finder
from agent.sources.lines.dialects.repeated_lines import (
    Matchers,
    Read,
    RepeatedLines,
    share_lines,
)
from agent.sources.lines.envelopes.clock_shift import ClockShifts, Shift
from agent.sources.lines.envelopes.envelope import LogEntry, Unwrapper, date_line
from agent.sources.lines.fields.byte_lists import has_byte_lists, write_texts
from agent.sources.lines.fields.json_escapes import has_escapes, write_characters
from agent.sources.lines.fields.record_fields import find_head, read_message
from agent.sources.lines.fields.structured_text import structure
from agent.sources.lines.parsing.origin_streams import (
    CreateInterpreter,
    OriginStream,
    OriginStreams,
)
from agent.sources.lines.parsing.stream_parser import LineInterpreter
from agent.sources.lines.times.timestamps import TimestampReader
from metrics.model.signals import Signal

KEPT_LONG_BYTES = 1 << 18
"""The same, behind the begin of something long: each line of a list of settings in an entry of a
store takes 1 to 2 KiB."""

LINE_LIMIT = 1 << 20
"""Longest incomplete line; a longer one is skipped and counted."""

KEPT_BYTES = 1 << 16
"""Bytes before the current line in `bytes_before`; a list of settings takes 4 to 6 KiB."""

_TIME_PAIR = re.compile(
    r"[\s,{]['\"]?@?(?:time|ts|timestamp)['\"]?\s?[:=]\s?['\"]?(\d[^'\"\n]{9,40})"
)
"""Time of a line that does not begin with it, in logfmt or in an object behind the message."""
_TIME_BEHIND = re.compile(
    r"(?:[|@\t]|\s[-\u2013]|\s[\[(<])\s?((?:[A-Z][a-z]{2} )?\d[^|@\t\[\]<>()\n]{6,40})"
    r"[\])>]?\s{0,8}\Z"
)
"""Time after the message, behind a separator: a time that ends a sentence does not count."""
_FIELD_BEGINS = frozenset((b'"', b"<", b"m", b"f", b"B"))
"""First bytes of a line that may be the message of a record over several lines."""
_AHEAD_BYTES = 1 << 20
"""Looked at once, before the first line with a process id is read."""
_NEXT_LINES = 8
"""The continuation of a line is searched in this many lines: others may write in between."""

_LINE_END = re.compile(r"\n|\\n|#012")
"""End of a line within one, as it is, in JSON, and by rsyslog."""
_WITHIN_MAX, _WITHIN_DEPTH, _FIRST_LINES = 64, 3, 2
"""Texts of an entry that are tried behind its message, objects around them, and lines of each."""

_NAMING = frozenset((Action.IDENTIFY, Action.MANUAL))
"""Effects of lines that show no member of a group."""

_MAX_PIECES = 16
"""Pieces of the last bytes; together they have at most twice `KEPT_BYTES`."""

_HEAD_BYTES = 1_024
"""Bytes of a line above, searched only for a timestamp."""

_TIME_BYTES = 256
"""The same, in a checkpoint: 20,000 logs have one each."""

_ABOVE_BYTES = 1 << 15
"""Searched for the lines above."""

_LINES_AT_ONCE = 256
"""Lines that are read before their events are interpreted: two loops that fit the caches of a CPU
take a fifth less time than one. Merged streams do so line by line, as one may evict another."""

_CLOCK_AHEAD_S = 86_400.0
"""A timestamp further ahead of its arrival than any zone explains is not this line's."""


Pieces = tuple[bytes, ...]
"""The last bytes that were read, in the order of the file."""

Place = tuple[bytes, int, int, Pieces, int]
"""A block, its begin, the start of a line in it, the last bytes before it, and its number."""

_NOWHERE: Place = (b"", 0, 0, (), 0)


class ParsedLine(msgspec.Struct, frozen=True, gc=False):
    """One line with an anchor, for `--explain-line` and the interpreter."""

    text: str
    at: float
    event: LogEvent | None
    place: Place = _NOWHERE
    origin: str = ""
    shift_s: float = 0.0
    """Seconds that its stamp is ahead of ``at``, as another zone's."""
    is_again: bool = False
    """It was delivered before, and has no event."""


@dataclass(slots=True, kw_only=True)
class ParserCounts:
    """Counts of a stream so far."""

    lines: int = 0
    """Lines with an anchor."""
    unread: int = 0
    """Of these, lines that no rule matches; most lines of a client are not about rebalances."""
    events: int = 0
    """Lines that a rule matches."""
    manual: int = 0
    """Among these, lines of consumers with partitions that the application assigns: no group."""
    repeated: int = 0
    """Lines that were delivered again."""
    undated: int = 0
    untimed: int = 0
    """Lines without a time, before any line with one: the file's last change dates them."""
    ran_back: int = 0
    ran_back_s: float = 0.0
    """Longest step back within a stream, if every line has a time of its own."""
    ahead: int = 0
    long: int = 0


class LineParser:
    """Parser of one stream. Fed whole or byte by byte, it returns the same signals."""

    def __init__(
        self,
        dialects: Dialects,
        interpreter: LineInterpreter,
        timezone: str | None = None,
        create: CreateInterpreter | None = None,
    ) -> None:
        """``timezone`` is the IANA name for timestamps without a zone; None is the machine's.

        ``create`` creates the interpreters of merged streams; without it, there is one for all.
        """
        self.interpreter = interpreter
        self.streams = OriginStreams(interpreter, create)
        self.stamper, self.unwrapper = TimestampReader(timezone), Unwrapper(timezone)
        self.shifts = ClockShifts(timezone)
        self.counts = ParserCounts()
        self.family: str | None = None
        self._blocks = 0
        self.enabled: set[str] = set()  # the `anchor_after` texts that a client's name has shown
        self._finder = create_finder(dialects)
        matchers = dialects.matchers
        self._unshown = {m.anchor_after for m in matchers if m.anchor_after is not None}
        self._hosts = [(m.guests, m.family) for m in matchers if m.guests is not None]
        self._carry, self._skipping, self._arrival_at = b"", False, 0.0
        self._named = ""  # the client of the line before
        self._repeated = RepeatedLines(share_lines(matchers), self.stamper)
        self._reader: DialectMatcher | None = None  # the one that has read the last line
        self._news = False  # a line has changed the dialects to search for
        self._reads_next = 0  # lines behind one that continues, as far as another's lie between
        self.begins_long: Callable[[bytes, int, int], bool] | None = None
        """Whether something begins between two places of a block that later lines refer to."""
        self.condense: Callable[[bytes], bytes] | None = None
        """Returns what later lines may refer to in the last bytes, in short, for a checkpoint."""
        self._keeps_long = 0  # bytes for which `KEPT_LONG_BYTES` are kept
        self._has_found_long = False
        self._is_dated_above = False  # the line above a message has its time, as far as it is known
        self._before: Pieces = ()  # the last bytes before the block that is searched
        self._timezone, self._has_looked = timezone, False
        self._place = _NOWHERE  # of the line that is read
        self._records = FieldRecords()
        self._is_escaped = False
        self._choose()

    @property
    def pending(self) -> int:
        """Bytes of an incomplete line; a checkpoint starts before them."""
        return len(self._carry)

    @property
    def half(self) -> bytes:
        """Return the begin of an incomplete line."""
        return self._carry

    @property
    def eviction_count(self) -> int:
        """Number of members evicted because of the limit."""
        return sum(stream.interpreter.eviction_count for stream in self.streams)

    @property
    def last_at(self) -> float | None:
        """Return the time of the last line (Unix seconds), of the latest stream."""
        times = [stream.last_at for stream in self.streams if stream.last_at is not None]
        return max(times, default=None)

    @property
    def block_number(self) -> int:
        """Return the number of the current line's block; its bytes are valid only during it."""
        return self._place[4]

    @property
    def origins(self) -> Sequence[str]:
        """Return the names of the streams that the file merges."""
        return (*self.streams.names, *self.streams.part_names)

    @property
    def interpreters(self) -> Sequence[LineInterpreter]:
        """Return the interpreters of all streams of the file."""
        return [stream.interpreter for stream in self.streams]

    def is_quiet(self, sample: bytes) -> bool:
        """See `StreamParser`."""
        return not (self._is_escaped or self._finder.shows(sample))

    def feed(self, data: bytes, arrival_at: float) -> list[Signal]:
        """Read the next bytes; they arrived at Unix seconds ``arrival_at``."""
        out: list[Signal] = []
        lines, take = self.lines(data, arrival_at), self.streams.main.interpreter.take
        while some := list(islice(lines, 1 if self.streams.names else _LINES_AT_ONCE)):
            for line in some:
                if line.event is None:
                    continue
                self._place = line.place
                if line.origin or line.shift_s:
                    out += self._take(line, line.event)
                else:
                    out += take(line.event, line.at)
        self._place = _NOWHERE
        return out + self.streams.take_pending()

    def _take(self, line: ParsedLine, event: LogEvent) -> list[Signal]:
        stream = self.streams.find(line.origin) if line.origin else self.streams.main
        signals = stream.interpreter.take(event, line.at)
        if line.shift_s:
            signals = [replace(each, shift_s=line.shift_s) for each in signals]
        return signals

    def observe_clock(self, data: bytes, arrival_at: float, gap_s: float | None) -> Sequence[Shift]:
        """Compare the stamps of the next bytes with their arrival, before `feed`.

        ``gap_s`` are the seconds since the file was last read to its end; None for a backlog.
        Returns the shifts that changed.
        """
        changes = self.shifts.observe(data, arrival_at, gap_s)
        for change in changes:
            self.streams.move_back(change.origin, change.after - change.before)
        return changes

    def lines(self, data: bytes, arrival_at: float) -> Iterator[ParsedLine]:
        """Yield each line with an anchor, with its event."""
        self._arrival_at, start = arrival_at, 0
        if self._carry or self._skipping:  # finish the line that the last piece has begun
            start = data.find(b"\n") + 1
            if not start:
                self._keep(data)
                return
            if not self._skipping:
                joined = self._carry + data[:start]
                yield from self._read_whole(joined, 0, len(joined), arrival_at)
            self._carry, self._skipping = b"", False
        end = data.rfind(b"\n") + 1
        yield from self._read_whole(data, start, end, arrival_at)
        self._keep(data[end:])
        self._release_block()

    def _read_whole(
        self, block: bytes, start: int, end: int, arrival_at: float
    ) -> Iterator[ParsedLine]:
        """Read whole lines."""
        if has_byte_lists(block, start, end):
            block = write_texts(block[start:end])
            start, end = 0, len(block)
        if self._is_escaped or has_escapes(block, start, end):
            self._is_escaped = True
            block = write_characters(block[start:end])
            start, end = 0, len(block)
        yield from self._search(block, start, end, arrival_at)
        self._before = _add_tail(
            self._before, block, start, end, self._choose_kept(block, start, end)
        )

    def release_long(self) -> None:
        """Keep no more than `KEPT_BYTES`: what a line refers to was found."""
        self._keeps_long, self._has_found_long = 0, True

    def _choose_kept(self, block: bytes, start: int, end: int) -> int:
        """Return the bytes to keep before the next block.

        A large block is not searched: its own bytes are enough for most lines.
        """
        size, is_known = end - start, self._has_found_long
        self._has_found_long = False
        if is_known:
            return KEPT_BYTES
        is_small = 0 < size < KEPT_LONG_BYTES
        if is_small and self.begins_long is not None and self.begins_long(block, start, end):
            self._keeps_long = KEPT_LONG_BYTES
        else:
            self._keeps_long = max(0, self._keeps_long - size)
        return KEPT_LONG_BYTES if self._keeps_long else KEPT_BYTES

    def flush(self) -> list[Signal]:
        """Return all pending signals; a last line without its newline counts."""
        last = self.feed(b"\n", self._arrival_at) if self._carry else []
        for stream in self.streams:
            last += stream.interpreter.flush()
        return last

    def release_overdue(self, until: float) -> list[Signal]:
        """Return the pending signals up to a time (Unix seconds)."""
        return [
            signal
            for stream in self.streams
            for signal in stream.interpreter.release_overdue(until)
        ]

    def horizon(self) -> float | None:
        """Return the watermark: no later signal is older. None before any line."""
        held = self.oldest_pending_at()
        return self.last_at if held is None else held

    def oldest_pending_at(self) -> float | None:
        """Return the time (Unix seconds) of the oldest pending signal, if any."""
        times = (stream.interpreter.horizon() for stream in self.streams)
        return min((at for at in times if at is not None), default=None)

    def state(self) -> dict[str, Any]:
        """Return the state after the last complete line, for a checkpoint."""
        above = self._last_line() if self._is_dated_above or not self.counts.events else ""
        before = b"".join(self._before)
        record = find_open_record(before[-ABOVE_BYTES:])
        kept = b"" if self.condense is None else self.condense(before)
        prefixes = self.unwrapper.known.state()
        return {
            **({"kept": kept.decode("latin-1")} if kept else {}),
            **({"above": above} if above else {}),
            "family": self.family,
            "enabled": sorted(self.enabled),
            "skipping": self._skipping,
            "reads_next": self._reads_next,
            "manual": self.counts.manual,
            **({"record": record} if record else {}),
            "pieces": self.unwrapper.state(),
            **({"prefixes": prefixes} if prefixes else {}),
            "shifts": self.shifts.state(),
            **self.streams.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        self.family = state["family"]
        self.enabled, self._skipping = set(state["enabled"]), state["skipping"]
        self._reads_next = state.get("reads_next", 0)
        self.counts.manual = state.get("manual", 0)
        kept, above, record = state.get("kept", ""), state.get("above", ""), state.get("record", [])
        last = record or ([above] if above or kept else [])
        texts = (kept.encode("latin-1"), "".join(f"{line}\n" for line in last).encode())
        self._before = tuple(filter(None, texts))
        self._keeps_long = KEPT_LONG_BYTES if kept else 0
        self._is_dated_above = bool(above)
        self._records.restore(record)
        self.unwrapper.restore(state.get("pieces", {}))
        self.unwrapper.known.restore(state.get("prefixes", []))
        self.shifts.restore(state.get("shifts", []))
        self._unshown -= self.enabled
        self._choose()
        self.streams.restore(state)

    def date(self, line: bytes, arrival_at: float) -> float | None:
        """Return the time of any line, also of no client (Unix seconds); None: it has no time."""
        return date_line(line, self.stamper, Unwrapper(self._timezone), arrival_at)

    def bytes_before(self, reach: int = KEPT_BYTES) -> Iterator[tuple[bytes, int, int]]:
        """Yield (bytes, begin, end) before the current line, the nearest part first.

        At most ``reach`` each, and of former blocks what is kept; the second part is copied on
        demand.
        """
        block, begin, end, before, _ = self._place
        yield block, max(begin, end - reach), end
        if end - begin < reach:
            kept = (b"".join(before) + block[begin:end])[-reach:]
            yield kept, 0, len(kept)

    def _release_block(self) -> None:
        """Drop the block that was read: thousands of streams would keep 1 MiB each."""
        self._place = _NOWHERE
        self._finder.begin(b"", 0)

    def _keep(self, data: bytes) -> None:
        if self._skipping:
            return
        self._carry += data
        if len(self._carry) > LINE_LIMIT:
            self._carry, self._skipping = b"", True
            self.counts.long += 1

    def _lines_before(self) -> list[bytes]:
        """Return the lines above; the last one may be the head of this line.

        java.util.logging and Payara write the message in a line below the time.
        """
        block, begin, start, before, _ = self._place
        last = before[-1] if before else b""
        near, end = (block, start - 1) if start > begin else (last, len(last) - 1)
        lines = near[max(0, end - _ABOVE_BYTES) : max(end, 0)].split(b"\n")[-_NEXT_LINES:]
        return [line for line in lines if line and not line.isspace()] or [b""]

    def _last_line(self) -> str:
        """Return the head of the last complete line: it may hold the time of the next one."""
        last = self._before[-1] if self._before else b""
        begin = last.rfind(b"\n", 0, max(len(last) - 1, 0)) + 1
        return last[begin : begin + _TIME_BYTES].decode(errors="replace").rstrip("\n")

    def _search(  # noqa: C901, PLR0912 - one loop, which each line passes
        self, block: bytes, start: int, end: int, arrival_at: float
    ) -> Iterator[ParsedLine]:
        """Read the lines of a block that are found, and those that continue one."""
        begin, pieces, finder = start, self.unwrapper.pieces, self._finder
        records = self._records
        self._blocks += 1
        self.stamper.forget_late(arrival_at)
        repeated = None if self.shifts.is_any else self._repeated
        finder.begin(block, end, repeated)
        while start < end:
            if records.is_open:  # does it go on?
                records.is_open = block.startswith(records.indent, start)
            if not pieces and not self._reads_next and not records.is_open:
                found = finder.find_next(start)
                if found is None:
                    return
                start, line_end, matchers, known = found
            else:
                line_end, matchers, known = block.find(b"\n", start), finder.matchers, None
                self._reads_next = max(0, self._reads_next - 1)
            self._place = (block, begin, start, self._before, self._blocks)
            if line_end - start > LINE_LIMIT:
                self.counts.long += 1
            elif known is not None:
                _, at, read = known
                if read is not None:
                    line = self._read_again(block[start:line_end], at, read, arrival_at)
                    yield line
                    if self._reads_next:
                        yield from self._read_within(LogEntry(line.text, None), line, read[1].rule)
            else:
                raw = block[start:line_end]
                entries = self.unwrapper.unwrap(raw, arrival_at)
                if len(entries) > 1:  # the text above an entry may be in the same line
                    self._place = (block, begin, line_end, self._before, self._blocks)
                for each in entries:
                    entry = each
                    if self._news or self._reads_next:  # by an entry before it in the same line
                        self._choose()
                        matchers = finder.matchers
                    is_record = records.is_open or block.startswith(INDENT, line_end + 1, end)
                    if is_record or is_field(each.text) or is_head_of_object(each.text):
                        entry = self._join_fields(each, end, arrival_at)
                    # a record is no line of its own, which others may repeat
                    choice = matchers if entry is each else finder.matchers
                    line = self._read_entry(entry, raw, arrival_at, choice)
                    if entry is not each and records.is_repeated(line.event):
                        continue
                    yield line
                    if line.event is not None and line.event.rule.reads_next:
                        yield from self._read_within(entry, line, line.event.rule)
            start = line_end + 1
            if self._news:
                self._choose()

    def _join_fields(self, entry: LogEntry, end: int, arrival_at: float) -> LogEntry:
        """See `FieldRecords`; the block is read up to ``end``."""
        block, begin, start, before, number = self._place
        above = block[max(begin, start - ABOVE_BYTES) : start]
        if len(above) < ABOVE_BYTES:
            above = b"".join(before) + above
        place = FieldPlace(number, block, start, end, above[-ABOVE_BYTES:])
        unwrapper = Unwrapper(self._timezone)
        return self._records.join(entry, place, lambda raw: unwrapper.unwrap(raw, arrival_at))

    def _choose(self) -> None:
        """Limit the search to the client families that the stream has shown so far."""
        self._finder.choose(self.family, self.enabled, is_merged=bool(self.streams.names))
        self._repeated.choose(self._finder.matchers)
        self._news = False

    def _read_again(self, raw: bytes, at: float, read: Read, arrival_at: float) -> ParsedLine:
        """Read a line that repeats another one."""
        reader, event = read
        self.counts.lines += 1
        self.counts.events += 1
        main, text = self.streams.main, raw.decode("ascii")
        if main.is_again(event, at):
            return self._pass_over(text, main, at)
        self._bind(reader, event)
        return ParsedLine(text, self._date(main, at, arrival_at), event, self._place)

    def _pass_over(self, text: str, stream: OriginStream, at: float) -> ParsedLine:
        """Return a line that is delivered again: it has no effect, also not on the clock."""
        self.counts.repeated += 1
        return ParsedLine(text, stream.last_at or at, None, self._place, is_again=True)

    def _read_entry(
        self, entry: LogEntry, raw: bytes, arrival_at: float, matchers: Matchers
    ) -> ParsedLine:
        counts, text = self.counts, entry.text
        counts.lines += 1
        event = (
            self._match(text, matchers)
            or self._match_structured(entry, matchers)
            or self._match_escaped(text, matchers)
        )
        if event is None:
            counts.unread += 1
            return ParsedLine(text, self.last_at or arrival_at, None, self._place)
        counts.events += 1
        is_manual = event.rule.action is Action.MANUAL
        counts.manual += is_manual
        origin, stream = self._find_stream(entry, arrival_at)
        stamp = self.stamper.find(text, arrival_at)
        if stamp is not None:
            stamp = self.stamper.place_day(stamp, entry.at)
        is_alone = matchers is not self._finder.matchers  # it continues no other
        if stamp is not None and is_alone and self._reader is not None and not is_manual:
            self._repeated.keep(raw, stamp, (self._reader, event))
        shift_s = self.shifts.find(entry.origin, is_own=stamp is not None)
        if stamp is None:
            stamp = self._date_elsewhere(entry, arrival_at)
        if stamp is None:
            stamp = self._date_by_others(entry, raw, arrival_at)
        elif stream.is_again(event, stamp):
            return self._pass_over(text, stream, stamp)
        stamp = None if stamp is None else stamp - shift_s
        at = self._date(stream, stamp, arrival_at)
        return ParsedLine(text, at, event, self._place, origin, shift_s)

    def _find_stream(self, entry: LogEntry, arrival_at: float) -> tuple[str, OriginStream]:
        """Return the name of a line's stream within the file, and the stream."""
        if entry.pid and not self._has_looked:
            self._look_ahead(arrival_at)
        if not (entry.origin or entry.pid):
            return "", self.streams.main
        origin, known = self.streams.name_of(entry), len(self.streams.names)
        stream = self.streams.find(origin, entry.host)
        self._news = self._news or len(self.streams.names) != known
        return origin, stream

    def _read_within(self, entry: LogEntry, line: ParsedLine, rule: Rule) -> Iterator[ParsedLine]:
        """Read the lines after a message in the same entry: in its text, or in a field.

        Layouts of JSON write an exception into another field than its message.
        """
        texts = (*_LINE_END.split(entry.text)[1:], *_find_texts(entry.fields))
        for text in islice(texts, _WITHIN_MAX):
            event = self._match(text, self._finder.matchers)
            if event is not None and event.rule.after and event.rule is not rule:
                self.counts.events += 1
                yield replace(line, text=text, event=event)
                return

    def _date_elsewhere(self, entry: LogEntry, arrival_at: float) -> float | None:
        """Return the time of a line that does not begin with it."""
        if entry.at is not None:
            return entry.at
        ends = (find(entry.text) for find in (self._find_message, self._find_last_anchor))
        times = (self.stamper.find_before(entry.text, end, arrival_at) for end in ends)
        at = next((at for at in times if at is not None), None)
        if at is None and (pair := _TIME_PAIR.search(entry.text)) is not None:
            at = self.stamper.find(pair[1], arrival_at)
        if at is None and (behind := _TIME_BEHIND.search(entry.text)) is not None:
            at = self.stamper.find(behind[1], arrival_at)
        return at

    def _date_by_others(self, entry: LogEntry, raw: bytes, arrival_at: float) -> float | None:
        """Return the time of the lines above or below, which a line without one belongs to."""
        at = self._date_record(raw, arrival_at, is_prefixed=bool(entry.origin))
        if at is None:
            at = self._date_above(entry, arrival_at)
            self._is_dated_above = self._is_dated_above or at is not None
        return at

    def _date_above(self, entry: LogEntry, arrival_at: float) -> float | None:
        """Return the time of the line above, or of the one above in the stream of an entry."""
        *others, above = self._lines_before()
        at = self.stamper.find(above[:_HEAD_BYTES].decode("utf-8", "replace"), arrival_at)
        if at is not None or not (entry.origin or above.lstrip().startswith((b"{", b'"'))):
            return at
        unwrapper = Unwrapper(self._timezone)
        for raw in (above, *reversed(others)):
            for each in unwrapper.unwrap(raw, arrival_at):
                if (each.origin, each.pid) == (entry.origin, entry.pid):
                    return self.stamper.find(each.text, arrival_at)
        return None

    def _find_message(self, text: str) -> int:
        """Return the place of the first anchor in the text: the message begins there; else 0."""
        anchors = () if self._reader is None else self._reader.anchors
        return min((at for at in map(text.find, anchors) if at >= 0), default=0)

    def _find_last_anchor(self, text: str) -> int:
        """Return the place of the last anchor: a logger's name before the time may hold one."""
        anchors = () if self._reader is None else self._reader.anchors
        return max(map(text.rfind, anchors), default=0)

    def _date_record(self, raw: bytes, arrival_at: float, *, is_prefixed: bool) -> float | None:
        """Return the time of a record over several lines, if this line holds its message."""
        prefix = _find_prefix(raw) if is_prefixed else b""
        field = raw[len(prefix) :]
        if field.lstrip()[:1] not in _FIELD_BEGINS:
            return None
        text = field.decode("utf-8", "replace")
        if read_message(text) is None:
            return None
        parts = [part[begin:end] for part, begin, end in self.bytes_before()]
        before = b"".join(reversed(parts))
        if prefix:  # of other streams in between
            lines = before[-KEPT_BYTES:].splitlines(keepends=True)
            before = b"".join(line[len(prefix) :] for line in lines if line.startswith(prefix))
        head = find_head(before, text)
        return None if head is None else self.unwrapper.find_time(head, arrival_at)

    def _look_ahead(self, arrival_at: float) -> None:
        """Pass the next lines to the streams, so that they learn the processes of each origin."""
        self._has_looked = True
        block, _, start, *_ = self._place
        unwrapper = Unwrapper(self._timezone)
        ahead = block[start : start + _AHEAD_BYTES].splitlines()[:-1]
        self.streams.look_ahead(
            entry for line in ahead for entry in unwrapper.unwrap(line, arrival_at)
        )

    def _match_structured(self, entry: LogEntry, matchers: Matchers) -> LogEvent | None:
        if not _may_be_structured(entry, matchers):
            return None
        text = structure(entry.text, entry.level, entry.fields)
        return None if text is None else self._match(text, matchers)

    def _match_escaped(self, text: str, matchers: Matchers) -> LogEvent | None:
        """Match a piece of an object that was cut from it: its quotes are still escaped."""
        return self._match(text.replace('\\"', '"'), matchers) if '\\"' in text else None

    def _match(self, text: str, matchers: Matchers) -> LogEvent | None:
        for matcher in matchers:
            event = matcher.read(text)
            if event is not None:
                self._bind(matcher, event)
                return event
            if matcher is not matchers[-1] and matcher.is_named_in(text):
                return None
        return None

    def _bind(self, reading: DialectMatcher, event: LogEvent) -> None:
        """Learn the stream's family from an event, and the names of its clients."""
        self._reader = reading
        if event.rule.reads_next:
            self._reads_next = _NEXT_LINES
        elif not self.streams.names:  # else a line of another stream may still go on
            self._reads_next = 0
        client_id = event.captures.get("client_id", "")
        if client_id != self._named:
            self._named = client_id
            shown = {name for name in self._unshown if name in client_id}
            host = next((host for name, host in self._hosts if client_id.startswith(name)), None)
            self._news = bool(shown) or host not in {None, self.family}
            self.enabled, self.family = self.enabled | shown, host or self.family
        # A name alone shows no family: its consumer may be inside another client, as in Connect.
        if self.family is None and event.rule.action not in _NAMING:
            self.family, self._news = reading.family, True
        if self._news:
            self._unshown -= self.enabled

    def _date(self, stream: OriginStream, stamp: float | None, arrival_at: float) -> float:
        """Return the time of a line; it never runs back within a stream."""
        if stamp is not None and stamp > arrival_at + _CLOCK_AHEAD_S:
            self.counts.ahead += 1
            stamp = None
        if stamp is None:  # a continuation of a dated entry, or a log without times
            self.counts.undated += 1
            self.counts.untimed += stream.dated_at is None
            stamp = arrival_at if stream.dated_at is None else stream.dated_at
        else:
            stream.dated_at = stamp
        last_at = stream.last_at
        if last_at is not None and stamp < last_at:
            self.counts.ran_back += 1
            self.counts.ran_back_s = max(self.counts.ran_back_s, last_at - stamp)
        stream.last_at = stream.continue_from(stamp)
        return stream.last_at


def _add_tail(pieces: Pieces, block: bytes, begin: int, end: int, kept: int) -> Pieces:
    """Return the last ``kept`` bytes before ``end`` of a block that begins at ``begin``, or more.

    The pieces are joined only for a line that needs them; few lines do.
    """
    near = block[max(begin, end - kept) : end]
    if len(near) == kept or not pieces:
        return (near,) if near else pieces
    if not near:
        return pieces
    size, first = len(near), len(pieces)
    while first and size < kept:
        first -= 1
        size += len(pieces[first])
    found = (*pieces[first:], near)
    return found if len(found) <= _MAX_PIECES else (b"".join(found)[-kept:],)


def _find_texts(value: Any, depth: int = _WITHIN_DEPTH) -> Iterator[str]:
    """Yield the first lines of each text within an object's fields."""
    if isinstance(value, str):
        yield from value.split("\n", _FIRST_LINES)[:_FIRST_LINES]
    elif isinstance(value, dict) and depth:
        for each in value.values():
            yield from _find_texts(each, depth - 1)


def _find_prefix(raw: bytes) -> bytes:
    """Return a collector's prefix before a field in quotes, without the field's indentation."""
    head = raw[: raw.find(b'"')].rstrip(b" ")
    return head + b" " if head else b""


def _may_be_structured(entry: LogEntry, matchers: Matchers) -> bool:
    structured = [matcher for matcher in matchers if matcher.is_structured]
    if entry.fields is not None:
        return bool(structured)
    return any(text in entry.text for matcher in structured for text in matcher.found_by or ())
