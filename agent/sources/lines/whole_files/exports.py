"""Exports of log stores as lines in the order of time: documents, and newest-first text.

Theory of operation. An export may be one document over many lines (JSON's arrays and objects,
gcloud's YAML, tables with a head), or begin with its newest entry (gcloud, logcli, Kibana,
Datadog). The head of a file shows both. A document is cut into one line of JSON an entry; a file
that runs backwards is held until its end and reversed entry by entry. Any other file passes through
unchanged, block by block.
"""

import codecs
from collections.abc import Callable, Iterator
from itertools import chain

from agent.errors import SourceError
from agent.sources.lines.envelopes.envelope import Unwrapper, date_line
from agent.sources.lines.envelopes.line_order import LineOrder, find_order
from agent.sources.lines.envelopes.tied_order import (
    Entry,
    find_direction,
    has_ties,
    order_entries,
    split_entries,
)
from agent.sources.lines.fields.record_dumps import Split
from agent.sources.lines.times.timestamps import TimestampReader
from agent.sources.lines.whole_files.console_records import find_console
from agent.sources.lines.whole_files.copied_margins import (
    find_margins,
    find_words_above,
    has_fences,
    remove_fences,
)
from agent.sources.lines.whole_files.copied_text import (
    COPIES,
    has_tail_header,
    is_ended_by_returns,
    name_by_header,
)
from agent.sources.lines.whole_files.documents import find_form, to_lines
from agent.sources.lines.whole_files.log_file import DELIMITER, find_utf_16
from agent.sources.lines.whole_files.named_objects import has_named_objects, join_objects
from agent.sources.lines.whole_files.wrapped_lines import (
    find_word_wrapping,
    find_wrapping,
    join_words,
    join_wrapped,
)

Block = tuple[bytes, float]
Blocks = Iterator[Block]
Note = Callable[[str], None]
"""Takes a sentence for the user."""

UNKNOWN_ORDER = (
    "entries of one second in an order that they do not show: if the log was exported with its "
    "newest entry first, causes and ends may be inverted; export it with the oldest first, or with "
    "milliseconds"
)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HEAD_BYTES = 1 << 20
_COPY_BYTES = 1 << 16
_TIED_LINES = 2_000
"""Lines of the head that show the order of entries of one time."""
_REVERSED_MAX_BYTES = 512 << 20
"""Longest newest-first file; a longer one is read as it is."""


def _ignore(_note: str) -> None:
    pass


def normalise(blocks: Blocks, timezone: str | None, note: Note = _ignore) -> Blocks:
    """Yield the blocks of a recording as lines in the order of time, in UTF-8."""
    yield from _in_order(_as_plain_text(blocks), timezone, note)


def _as_plain_text(blocks: Blocks) -> Blocks:
    """Yield a text in UTF-16 as UTF-8, and a copied one without its additions."""
    head, blocks = _peek(_decoded(blocks))
    if has_named_objects(head):
        head, blocks = _peek(join_objects(blocks))
    for change in find_margins(head, _is_document):
        blocks, head = _by_lines(blocks, change), change(head)
    if above := find_words_above(head, _is_document):
        blocks, head = _below(blocks, above), head[above:]
    if has_fences(head):
        blocks, head = _by_lines(blocks, remove_fences), remove_fences(head)
    for copy in COPIES:
        if copy.shows(head):
            blocks = _by_lines(blocks, copy.change)
    blocks = _with_whole_records(head, blocks)
    if has_tail_header(head):
        blocks = _named_by_header(blocks)
    yield from blocks


def _with_whole_records(head: bytes, blocks: Blocks) -> Blocks:
    """Return the blocks with each record on one line."""
    words, console = find_word_wrapping(head), find_console(head)
    if words is not None:
        blocks = join_words(blocks, words)
    elif (wrapping := find_wrapping(head)) is not None:
        blocks = join_wrapped(blocks, wrapping)
    return blocks if console is None else console(blocks)


def _decoded(blocks: Blocks) -> Blocks:
    """Yield a text as UTF-8 without a byte-order mark and with line feeds as line ends."""
    head, blocks = _peek(blocks)
    if (encoding := find_utf_16(head)) is not None:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        head, blocks = _peek((decoder.decode(piece).encode(), at) for piece, at in blocks)
    if head.startswith(_BYTE_ORDER_MARK):
        head, blocks = head[len(_BYTE_ORDER_MARK) :], _below(blocks, len(_BYTE_ORDER_MARK))
    if (delimiter := DELIMITER.match(head)) is not None:
        blocks = _below(blocks, delimiter.end())
    if is_ended_by_returns(head):
        blocks = ((piece.replace(b"\r", b"\n"), at) for piece, at in blocks)
    yield from blocks


def _peek(blocks: Blocks) -> tuple[bytes, Blocks]:
    """Return the first bytes, and all blocks."""
    first = next(blocks, None)
    return (b"", iter(())) if first is None else (first[0][:_COPY_BYTES], chain([first], blocks))


def _is_document(text: bytes) -> bool:
    return find_form(text) is not None


def _below(blocks: Blocks, above: int) -> Blocks:
    """Yield the bytes below the first ones; the first block holds these."""
    data, arrival_at = next(blocks)
    yield data[above:], arrival_at
    yield from blocks


def _by_lines(blocks: Blocks, change: Callable[[bytes], bytes]) -> Blocks:
    """Yield blocks of whole lines, changed."""
    carry, arrival_at = b"", 0.0
    for data, arrival_at in blocks:
        whole, newline, carry = (carry + data).rpartition(b"\n")
        yield change(whole) + newline, arrival_at
    yield change(carry), arrival_at


def _named_by_header(blocks: Blocks) -> Blocks:
    """Yield the lines of `tail -f` over several files with their file's name before each."""
    carry, arrival_at, name = b"", 0.0, b""
    for data, arrival_at in blocks:
        *lines, carry = (carry + data).split(b"\n")
        named, name = name_by_header(lines, name)
        yield named, arrival_at
    if carry:
        yield name + carry, arrival_at


def _in_order(blocks: Blocks, timezone: str | None, note: Note) -> Blocks:
    order = LineOrder(timezone)
    head: list[Block] = []
    size, split = 0, None
    try:
        for data, arrival_at in blocks:
            head.append((data, arrival_at))
            size += len(data)
            split = find_form(head[0][0]) if len(head) == 1 else split
            if split is not None or size > _HEAD_BYTES:
                break
            if order.feed(data, arrival_at) is False:
                break
        else:
            order.end(head[-1][1] if head else 0.0)
    except SourceError:  # a file that breaks off
        yield from head
        raise
    if split is not None:
        yield from _lines_of_document(split, head, blocks, timezone, note)
        return
    is_tied_backward = _has_ties_backward(head, order, timezone, note)
    if order.is_backward or is_tied_backward:
        yield from _reorder(head, blocks, timezone, order)
        return
    yield from head
    yield from blocks


def _has_ties_backward(
    head: list[Block], order: LineOrder, timezone: str | None, note: Note
) -> bool:
    """Return whether the entries of one time run backwards in a log that else does not."""
    if not order.has_ties:
        return False
    lines = b"".join(data for data, _ in head).split(b"\n", _TIED_LINES)[:_TIED_LINES]
    entries = split_entries(lines, timezone, head[-1][1])
    _note_order(entries, order, note)
    return find_direction(entries) < 0


def _note_order(entries: list[Entry], order: LineOrder, note: Note) -> None:
    """Note that nothing shows the order of entries of one time, where it is in doubt.

    That is a log of one time, and one with its newest entry first: a store that sorts by time may
    return entries of one time in either order.
    """
    is_in_doubt = order.is_backward or order.is_moment
    if is_in_doubt and has_ties(entries) and not find_direction(entries):
        note(UNKNOWN_ORDER)


def find_first_time(head: bytes, arrival_at: float) -> float | None:
    """Return the time of the first line that has one; in Unix seconds, None without any."""
    reader, unwrapper = TimestampReader(None), Unwrapper(None)
    dates = (date_line(line, reader, unwrapper, arrival_at) for line in head.split(b"\n"))
    return next((at for at in dates if at is not None), None)


def _reorder(head: list[Block], blocks: Blocks, timezone: str | None, order: LineOrder) -> Blocks:
    """Yield a file as one block, oldest entry first."""
    pieces, size, arrival_at = [data for data, _ in head], sum(len(d) for d, _ in head), head[-1][1]
    for data, arrival_at in blocks:
        pieces.append(data)
        size += len(data)
        if size > _REVERSED_MAX_BYTES:
            yield b"".join(pieces), arrival_at
            yield from blocks
            return
    text = b"".join(pieces)
    yield order_text(text, timezone, arrival_at, order=order), arrival_at


def order_text(
    text: bytes,
    timezone: str | None,
    arrival_at: float,
    *,
    order: LineOrder,
    note: Note = _ignore,
) -> bytes:
    """Return a text with its oldest entry first; an entry begins with a time."""
    entries = split_entries(text.splitlines(), timezone, arrival_at)
    if order.has_ties:
        _note_order(entries, order, note)
    ordered = order_entries(entries, is_backward=order.is_backward)
    return b"".join(b"\n".join(lines) + b"\n" for _, lines in ordered)


def order_lines(
    lines: list[bytes],
    timezone: str | None,
    arrival_at: float,
    *,
    order: LineOrder,
    note: Note = _ignore,
) -> list[bytes]:
    """Return the entries of a document, one a line, with the oldest first."""
    if not (order.is_backward or order.has_ties):
        return lines
    entries = split_entries(lines, timezone, arrival_at, is_each=True)
    if order.has_ties:
        _note_order(entries, order, note)
    ordered = order_entries(entries, is_backward=order.is_backward)
    return [line for _, entry in ordered for line in entry]


def _lines_of_document(
    split: Split, head: list[Block], blocks: Blocks, timezone: str | None, note: Note
) -> Blocks:
    """Yield the entries of a document, one a line, in the order of time."""
    pieces, arrival_at = [data for data, _ in head], head[-1][1]
    size = sum(map(len, pieces))
    for data, arrival_at in blocks:
        pieces.append(data)
        size += len(data)
        if size > _REVERSED_MAX_BYTES:
            yield b"".join(pieces), arrival_at
            yield from blocks
            return
    lines = to_lines(split, b"".join(pieces))
    order = find_order(lines, timezone, arrival_at)
    ordered = order_lines(lines, timezone, arrival_at, order=order, note=note)
    yield b"".join(ordered), arrival_at
