"""Parser of a growing file that may hold a document, or begin with its newest entry.

Theory of operation. A file that a store's or journald's client writes has an entry over several
lines, so that its origin and its time stand in other lines than its message. The head of the file
shows that. Then whole entries are cut off as they arrive, and the parser of lines reads each as one
line. A text whose first lines run backwards is held until nothing was added for a while, and read
with its oldest entry first. Any other file is passed on unchanged, from its first line on. Bytes
that are held are read again after a restart.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import islice
from typing import Any
from weakref import WeakSet

from agent.sources.lines.envelopes.clock_shift import Shift
from agent.sources.lines.envelopes.line_order import HEAD_LINES, LineOrder, find_order
from agent.sources.lines.fields.decoding import decode
from agent.sources.lines.fields.json_entry import split_export
from agent.sources.lines.following.live_text import LiveText
from agent.sources.lines.parsing.line_parser import LINE_LIMIT, LineParser
from agent.sources.lines.parsing.stream_parser import LineCounts
from agent.sources.lines.whole_files.log_file import DELIMITER
from metrics.model.signals import Signal

HELD_MAX_BYTES = 16 << 20
"""Bytes of all documents that are held; one that does not fit is read by lines. To read one takes
five times its length."""
_HEAD_BYTES = 1 << 16
_HEAD_LINES = 100
_COPY_BYTES = 1 << 12
"""First bytes that show a copy of a log; to search them takes some 0.5 ms a file."""
_ENTRY_S, _HOLD_S = 2.0, 10.0
"""Without news, the last entry is whole after this, and a document after that: stores return long
results page by page."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAY_BE_DOCUMENT = re.compile(
    rb"\s*(?:\[\s*[{\"]|\{|---\n|__CURSOR=|<(?:\?xml|results|Event|log4j:event)\b"
    rb"|[A-Z][a-z]{2} \d{4}-\d\d-\d\d [\d:.]{8,15} \S{1,6} \[s=)"
    rb"|(?=[A-Za-z_@\"])(?=[^\n]{0,2048}[,;\t])[^\n]{0,2048}(?i:time|date)"
    rb"|(?=[^\n]{0,2048}[,;\t])(?=[^\n]{0,2048}\d:\d\d)(?:\"|[^\n]{0,2048}[,;\t]\")"
    rb"|\"[^\"\n]{1,64}\"[,;\t]|[A-Za-z_]\w{0,63}\t"
    rb"|(?=[A-Za-z_@])[\w @.-]{1,64}(?:[,;][\w @.-]{1,64}){1,64}\r?\n"
    rb"|(?:\w{1,64}:[ \t]{0,8}\r?\n)?- ['\"]?[\w@.-]{1,64}['\"]?: "
    rb"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}000\+00:00 \S"
    rb"|(?s:.*?)(?:ResourceLog #\d|\+00:00 (?:\S{1,512} )?\r?\n\{|Event\[\d+\]|TimeCreated )"
)
"""Cheap signs of a document, before its form is searched."""
_BEGUN = re.compile(rb"[\[{]\s*(?:\"[^\"\n]{0,256}(?:\"[ \t]{0,64}(?:=>?)?)?)?")
"""Begin of a document whose first name is not whole: it may be JSON or Ruby's. A program may write
the bracket at once, and its entries later."""
_OF_LISTS = re.compile(rb'\{\s?"\w{1,64}"\s?:\s?\[\s?"')
"""An object with a list of strings, as APIs of containers return a log."""
_IS_DATED = re.compile(rb"(?:\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^\n]*\n)+")
"""Lines that all begin with their time: no copy of a log, whose marks or widths would show."""
_PART_OF_TIME = re.compile(rb"\[?\d[\dT:/., -]{0,22}")
"""Begin of a line that ends within its time."""
_BETWEEN = b" \t\r\n,"
_WITHIN_JSON = frozenset((b"{", b"}", b"[", b"]", b'"', b","))
"""First characters of a file that goes on within the document of the file before."""
_JSON = "json"
_ENDED = frozenset((_JSON, "journal", "xml"))
"""Forms whose entries show their end; in others the next entry does."""
_TRIED_AGAIN = 1.5
"""Growth of a long text before the end of an entry is searched again."""

_log = logging.getLogger(__name__)


class _FileForm(Enum):
    HEAD = auto()
    """The form is not known yet."""
    LINES = auto()
    BACKWARD = auto()
    """Text with its newest line first."""
    GROWING = auto()
    FINISHED = auto()
    """An export that has to be whole."""


class LiveDocuments:
    """Parser of one growing file. All of them share the memory for what they hold."""

    def __init__(self, parser: LineParser, stream: str, timezone: str | None = None) -> None:
        """Read the lines of ``stream`` by ``parser``.

        ``timezone`` is the IANA name for timestamps without a zone; None is the machine's.
        """
        _DOCUMENTS.add(self)
        self._parser, self._stream, self._timezone = parser, stream, timezone
        self._text = LiveText()
        self._arrival_at = 0.0
        self._form = ""
        """Name of the form of a growing document."""
        self._begin()

    def _begin(self) -> None:
        self._stage, self._held, self._names = _FileForm.HEAD, b"", b""
        self._seen = self._tried = 0
        """Bytes whose order was seen, and the size in which the end of an entry was searched."""
        self._is_within_line = False
        self._order: LineOrder | None = None
        """None: it is in order, or its order is not known yet."""
        self._is_settled = self._is_whole = False
        """Whether nothing was added since the last `settle`, and the file is read from its begin.
        """

    @property
    def counts(self) -> LineCounts:
        """Return the counts so far."""
        return self._parser.counts

    @property
    def eviction_count(self) -> int:
        """Number of members evicted because of the limit."""
        return self._parser.eviction_count

    @property
    def origins(self) -> Sequence[str]:
        """Return the names of the streams that the file merges."""
        return self._parser.origins

    @property
    def held(self) -> int:
        """Bytes of a document that are held."""
        return len(self._held)

    @property
    def pending(self) -> int:
        """Bytes that wait; a checkpoint starts before them."""
        return self.held + self._text.held + self._parser.pending

    @property
    def settles_after_s(self) -> float | None:
        """Seconds without news after which `settle` is due; None: nothing is held for it."""
        if not self._is_settled and self._text.holds_record:
            return _ENTRY_S
        if self._is_settled or not self._held or self._held.isspace():
            return None
        if self._stage is _FileForm.HEAD:
            is_document = self._held.lstrip()[:1] in _WITHIN_JSON or b"\n" in self._held
            return _HOLD_S if is_document else None
        is_doubtful = self._order is not None and self._order.is_doubtful
        is_cut = self._is_within_line and self._form not in _ENDED  # where a program's buffer ends
        is_soon = self._stage is _FileForm.GROWING and not is_doubtful and not is_cut
        return _ENTRY_S if is_soon else _HOLD_S

    def begin_file(self, head: bytes, arrival_at: float) -> list[Signal]:
        """End the file before: the next bytes, ``head``, are the first ones of a new one.

        A program's buffer may end within a line where the file is rotated: the new file goes on
        with its rest.
        """
        if self._continues(head.partition(b"\n")[0], arrival_at):
            return []
        signals = self._end()
        rest = self._text.end()
        if rest or self._parser.pending:
            signals += self._parser.feed(rest + b"\n", arrival_at)
        self._begin()
        self._is_whole = True
        return signals

    def _continues(self, rest: bytes, arrival_at: float) -> bool:
        """Return whether a line is the rest of one that has begun, by their times."""
        is_lines = self._stage is _FileForm.LINES and not self._text.holds_record
        half = self._text.half or self._parser.half if is_lines else self._held
        if not half or b"\n" in half:
            return False
        if half.startswith(b"{"):
            return is_lines and not rest.startswith(b"{")
        if _PART_OF_TIME.fullmatch(half) is not None:
            return self._parser.date(half + rest, arrival_at) is not None
        is_dated = self._parser.date(half, arrival_at) is not None
        return is_dated and self._parser.date(rest, arrival_at) is None

    def is_quiet(self, sample: bytes) -> bool:
        """Whether these are lines, and none of a client shows; two bytes a character show none."""
        return (
            self._stage is _FileForm.LINES and b"\0" not in sample and self._parser.is_quiet(sample)
        )

    def feed(self, data: bytes, arrival_at: float) -> list[Signal]:
        """Take the next bytes, which arrived at Unix seconds ``arrival_at``."""
        self._arrival_at, self._is_settled = arrival_at, False
        self._is_within_line = not data.endswith((b"\n", b"\r"))
        if self._stage is _FileForm.LINES:
            return self._parser.feed(self._text.feed(data), arrival_at)
        self._held += data
        if self._is_beyond_budget():
            hint = "longer than can be held in memory: read it with replay"
            _log.warning("log_document_long", extra={"path": self._stream, "hint": hint})
            return self._pass_on()
        if self._stage is _FileForm.HEAD and not self._choose(is_whole=False):
            return []
        return self._advance()

    def settle(self) -> list[Signal]:
        """Read what is held, as nothing was added for `settles_after_s`."""
        self._is_settled = True
        if self._stage is _FileForm.LINES:
            return self._parser.feed(self._text.settle(), self._arrival_at)
        if self._stage is _FileForm.HEAD and not self._choose(is_whole=True):
            return []
        return self._end()

    def flush(self) -> list[Signal]:
        """Return all pending signals, at the end of the stream."""
        signals = self._end()
        if rest := self._text.end():
            signals += self._parser.feed(rest, self._arrival_at)
        return signals + self._parser.flush()

    def release_overdue(self, until: float) -> list[Signal]:
        """Return the pending signals up to a time (Unix seconds)."""
        return self._parser.release_overdue(until)

    def horizon(self) -> float | None:
        """Return the watermark: no later signal is older. None before any line."""
        return self._parser.horizon()

    def oldest_pending_at(self) -> float | None:
        """Return the time (Unix seconds) of the oldest pending signal, if any."""
        return self._parser.oldest_pending_at()

    def observe_clock(self, data: bytes, arrival_at: float, gap_s: float | None) -> Sequence[Shift]:
        """See `LineParser.observe_clock`; a document's times have a zone.

        The rest of a line that the last block began is left out: it may hold any time.
        """
        is_begin = self._stage is _FileForm.HEAD and _MAY_BE_DOCUMENT.match(data) is None
        if self._stage is not _FileForm.LINES and not is_begin:
            return ()
        if self._is_within_line:
            data = data.partition(b"\n")[2]
        return self._parser.observe_clock(data, arrival_at, gap_s)

    def state(self) -> dict[str, Any]:
        """Return the state before the bytes that are held, for a checkpoint."""
        text = self._text.state()
        state = self._parser.state() | ({"text": text} if text else {})
        if self._stage is _FileForm.LINES:
            return state
        is_growing = self._stage is _FileForm.GROWING
        names = self._names.decode(errors="replace")  # as the reader of tables does
        document = [self._form, names, self._order is not None]
        return state | {"document": document if is_growing else []}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        self._parser.restore(state)
        self._text.restore(state.get("text", []))
        document = state.get("document")
        if document is None:  # an older release has none
            self._stage = _FileForm.LINES
        elif document:
            self._form, self._names = document[0], document[1].encode()
            if any(document[2:]):  # its order is not known yet; an older release has no such entry
                self._order = LineOrder(self._timezone)
            self._stage = _FileForm.GROWING

    def _choose(self, *, is_whole: bool) -> bool:
        """Choose how the file is read; return False while its head does not show it."""
        self._held = DELIMITER.sub(b"", self._held.removeprefix(_BYTE_ORDER_MARK), count=1)
        text = self._held.lstrip(_BETWEEN)  # the source may begin to read within a list
        if _BEGUN.fullmatch(text) is not None:
            return False
        is_open = text[:1] in _WITHIN_JSON
        line_end = text.find(b"\n") + 1
        if not line_end and not (is_whole and is_open):
            if len(text) > LINE_LIMIT and not is_open:
                self._stage = _FileForm.LINES
            return self._stage is not _FileForm.HEAD
        head = text[: max(line_end, _HEAD_BYTES)] if line_end else text
        is_lists = line_end and _OF_LISTS.match(text) is not None
        is_plain = not is_lists and _is_object(text[:line_end])
        is_plain = is_plain or _MAY_BE_DOCUMENT.match(head) is None
        if not is_plain and not self._choose_form(head, is_whole=is_whole):
            return False
        if self._stage is _FileForm.HEAD and is_open and self._form == _JSON:
            self._stage = _FileForm.GROWING  # within the document of the file before
        if self._stage is _FileForm.HEAD and line_end:
            self._seen = self._held.rfind(b"\n", 0, _HEAD_BYTES) + 1 or len(self._held)
            self._order = LineOrder(self._timezone)
            lines = self._held[: self._seen].split(b"\n", _HEAD_LINES)[:-1]
            is_backward = self._order.feed(b"\n".join((*lines, b"")), self._arrival_at)
            is_held = is_backward is not False and self._order.is_doubtful
            self._stage = _FileForm.BACKWARD if is_held else _FileForm.LINES
            if self._is_whole and not is_held:
                self._report_form(self._held[:_COPY_BYTES].rpartition(b"\n")[0] + b"\n")
        return self._stage is not _FileForm.HEAD

    def _report_form(self, head: bytes) -> None:
        """Warn of a form that only a whole file shows; it is read by lines."""
        self._is_whole = False
        if _IS_DATED.fullmatch(head) is not None:
            return
        from agent.sources.lines.whole_files import unfollowed_forms  # noqa: PLC0415 - for few files alone

        hint = unfollowed_forms.describe_unfollowed_form(head)
        if hint is not None:
            extra = {"path": self._stream, "hint": f"found {hint}"}
            _log.warning("log_form_unfollowed", extra=extra)

    def _report_order(self, note: str) -> None:
        _log.warning("log_order_unknown", extra={"path": self._stream, "hint": note})

    def _choose_form(self, head: bytes, *, is_whole: bool) -> bool:
        """Choose the form of a document; return False while it is only begun."""
        from agent.sources.lines.whole_files import documents  # noqa: PLC0415 - for few files alone

        name, table = documents.name_growing(head), None
        if name == documents.TABLE:
            table = documents.find_table_names(self._held.lstrip())
            if table is None:  # its rows do not go on as the first ones
                return True
            self._names, self._held = table
        if name is not None:
            self._form, self._stage = name, _FileForm.GROWING
            self._order = LineOrder(self._timezone)
        elif documents.find_finished(head) is not None:
            self._stage = _FileForm.FINISHED
        elif not is_whole and len(head) < _HEAD_BYTES:
            return not documents.is_begun(head)
        return True

    def _advance(self) -> list[Signal]:
        if self._stage is _FileForm.LINES:
            return self._pass_on()
        if self._stage is _FileForm.GROWING:
            return self._cut(is_whole=False)
        if self._stage is _FileForm.BACKWARD and self._order is not None:
            new, self._seen = self._held[self._seen :], len(self._held)
            if self._order.feed(new, self._arrival_at) is False:
                return self._pass_on()
        return []

    def _end(self) -> list[Signal]:
        """Read all that is held."""
        if self._stage is _FileForm.GROWING:
            return self._cut(is_whole=True)
        if self._stage is _FileForm.BACKWARD and self._order is not None:
            from agent.sources.lines.whole_files.exports import order_text  # noqa: PLC0415

            self._order.end(self._arrival_at)
            if self._order.is_backward:
                self._held = order_text(
                    self._held,
                    self._timezone,
                    self._arrival_at,
                    order=self._order,
                    note=self._report_order,
                )
        if self._stage is _FileForm.FINISHED:
            return self._read_finished()
        return self._pass_on()

    def _read_finished(self) -> list[Signal]:
        """Read a whole export."""
        from agent.sources.lines.whole_files.documents import find_finished, iterate_lines  # noqa: PLC0415

        data, self._held, self._stage = self._held, b"", _FileForm.LINES
        if (split := find_finished(data)) is None:
            return []
        order = find_order(iterate_lines(split, data), self._timezone, self._arrival_at)
        return self._feed_in_order(iterate_lines(split, data), order)

    def _is_beyond_budget(self) -> bool:
        """Return whether this file holds more than its head, and all files too much."""
        if len(self._held) <= _HEAD_BYTES:
            return False
        return sum(each.held for each in _DOCUMENTS) > HELD_MAX_BYTES

    def _pass_on(self) -> list[Signal]:
        """Read what is held, and all that follows, by lines."""
        self._stage, self._order = _FileForm.LINES, None
        data, self._held = self._held, b""
        return self._parser.feed(self._text.feed(data), self._arrival_at) if data else []

    def _cut(self, *, is_whole: bool) -> list[Signal]:
        """Read the whole entries of a growing document; ``is_whole``: nothing follows."""
        from agent.sources.lines.whole_files.documents import find_growing, iterate_lines  # noqa: PLC0415
        from agent.sources.lines.whole_files.ordered_pieces import join_lines  # noqa: PLC0415

        size = len(self._held)
        is_long = size > _HEAD_BYTES and self._held[-8:].rstrip()[-1:] not in {b"}", b"]"}
        if not is_whole and is_long and size < _TRIED_AGAIN * self._tried:
            return []
        split, find_end = find_growing(self._form, self._names)
        end = size
        if not is_whole or self._form in _ENDED:
            end = self._seen + find_end(self._held[self._seen :])
        order = self._order
        if order is not None:
            new = iterate_lines(split, self._held[self._seen : end])
            some = b"".join(islice(new, HEAD_LINES))
            verdict = order.feed(some, self._arrival_at)
            if verdict is not False and order.may_run_back and not is_whole:
                self._seen, self._tried = end, size
                return []
            self._order = None if verdict is False or (is_whole and some) else order
        lines = iterate_lines(split, self._held[:end])
        self._held, self._seen = self._held[end:], 0
        self._tried = len(self._held)
        if order is None or not is_whole:
            return self._feed_blocks(join_lines(lines))
        return self._feed_in_order(lines, order)

    def _feed_in_order(self, lines: Iterator[bytes], order: LineOrder) -> list[Signal]:
        """Read the lines of a whole document, the oldest first."""
        from agent.sources.lines.whole_files.exports import order_lines  # noqa: PLC0415

        order.end(self._arrival_at)
        at, note = self._arrival_at, self._report_order
        return self._feed_blocks(order_lines(lines, self._timezone, at, order=order, note=note))

    def _feed_blocks(self, blocks: Iterator[bytes]) -> list[Signal]:
        return [s for block in blocks for s in self._parser.feed(block, self._arrival_at)]


_DOCUMENTS: "WeakSet[LiveDocuments]" = WeakSet()


def _is_object(line: bytes) -> bool:
    """Return whether a line is one entry as an object, as applications log it."""
    found = decode(line.decode(errors="replace")) if line.startswith(b"{") else None
    return found is not None and split_export(found) == [found]
