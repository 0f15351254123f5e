"""Exports of log stores as lines in the order of time: documents, and newest-first text.

Theory of operation. An export may be one document over many lines (JSON's arrays and objects,
gcloud's YAML, tables with a head), or begin with its newest entry (gcloud, logcli, Kibana,
Datadog). The head of a file shows both. A document is cut into one line of JSON an entry; a file
that runs backwards is held until its end and reversed entry by entry. Any other file passes through
unchanged, block by block. Both are held in pieces, so memory does not grow with a file.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from agent.errors import SourceError
from agent.sources.lines.envelopes.envelope import Unwrapper, date_line
from agent.sources.lines.envelopes.line_order import LineOrder, find_order
from agent.sources.lines.envelopes.tied_order import (
    find_direction,
    iterate_entries,
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
from agent.sources.lines.whole_files.document_pieces import cut_document
from agent.sources.lines.whole_files.documents import find_form
from agent.sources.lines.whole_files.log_file import DELIMITER, find_utf_16
from agent.sources.lines.whole_files.named_objects import has_named_objects, join_objects
from agent.sources.lines.whole_files.ordered_pieces import (
    Note,
    join_lines,
    note_order,
    order_pieces,
)
from agent.sources.lines.whole_files.short_lines import shorten_lines
from agent.sources.lines.whole_files.wrapped_lines import (
    find_word_wrapping,
    find_wrapping,
    join_words,
    join_wrapped,
)

Block = tuple[bytes, float]
Blocks = Iterator[Block]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HEAD_BYTES = 1 << 20
_COPY_BYTES = 1 << 16
_TIED_LINES = 2_000
"""Lines of the head that show the order of entries of one time."""


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
    for data, arrival_at in shorten_lines(blocks):
        whole, newline, carry = data.rpartition(b"\n")
        yield change(whole or carry) + newline, arrival_at


def _named_by_header(blocks: Blocks) -> Blocks:
    """Yield the lines of `tail -f` over several files with their file's name before each."""
    name = b""
    for data, arrival_at in shorten_lines(blocks):
        named, name = name_by_header(data.removesuffix(b"\n").split(b"\n"), name)
        yield named, arrival_at


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
        yield from _reorder(head, blocks, timezone, order, note)
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
    note_order(entries, order, note)
    return find_direction(entries) < 0


def find_first_time(head: bytes, arrival_at: float) -> float | None:
    """Return the time of the first line that has one; in Unix seconds, None without any."""
    reader, unwrapper = TimestampReader(None), Unwrapper(None)
    dates = (date_line(line, reader, unwrapper, arrival_at) for line in head.split(b"\n"))
    return next((at for at in dates if at is not None), None)


def _reorder(
    head: list[Block], blocks: Blocks, timezone: str | None, order: LineOrder, note: Note
) -> Blocks:
    """Yield a file with its oldest entry first."""
    arrival_at = head[-1][1]
    lines = _iterate_lines(chain(head, blocks))
    entries = iterate_entries(lines, timezone, arrival_at)
    return ((data, arrival_at) for data in order_pieces(entries, order, note, is_noted=True))


def _iterate_lines(blocks: Blocks) -> Iterator[bytes]:
    """Yield lines without their ends."""
    for data, _ in shorten_lines(blocks):
        yield from data.splitlines()


def order_text(
    text: bytes,
    timezone: str | None,
    arrival_at: float,
    *,
    order: LineOrder,
    note: Note = _ignore,
) -> bytes:
    """Return a text with its oldest entry first; an entry begins with a time."""
    entries = iterate_entries(text.splitlines(), timezone, arrival_at)
    return b"".join(order_pieces(entries, order, note))


def order_lines(
    lines: Iterable[bytes],
    timezone: str | None,
    arrival_at: float,
    *,
    order: LineOrder,
    note: Note = _ignore,
) -> Iterator[bytes]:
    """Yield blocks of the entries of a document, one a line, with the oldest first."""
    if not (order.is_backward or order.has_ties):
        return join_lines(lines)
    entries = iterate_entries((line[:-1] for line in lines), timezone, arrival_at, is_each=True)
    return order_pieces(entries, order, note)


def _lines_of_document(
    split: Split, head: list[Block], blocks: Blocks, timezone: str | None, note: Note
) -> Blocks:
    """Yield the entries of a document, one a line, in the order of time."""
    pieces = cut_document(split, chain(head, blocks), note)
    first = next(pieces, None)
    if first is None:
        return
    order = find_order(first.lines(), timezone, first.arrival_at)
    lines = chain.from_iterable(piece.lines() for piece in chain((first,), pieces))
    for data in order_lines(lines, timezone, first.arrival_at, order=order, note=note):
        yield data, first.arrival_at
