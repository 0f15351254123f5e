"""Pieces of a document, each of whole entries, in bounded memory.

Theory of operation. A document of up to `WHOLE_MAX_BYTES` is one piece. A longer one is cut behind
its last whole entry, and the rest follows with what comes. A form without a known end of an entry,
or an entry that is longer, is read by lines from there on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from agent.sources.lines.fields.record_dumps import Split
from agent.sources.lines.whole_files.documents import (
    TABLE,
    FindEnd,
    find_cut,
    find_growing,
    find_json_end,
    find_list,
    find_none,
    find_table_names,
    iterate_lines,
    split_json,
)

Block = tuple[bytes, float]
Note = Callable[[str], None]

WHOLE_MAX_BYTES = 12 << 20
"""Of a document or an entry that is held; to read one takes five times its length, and thirty times
that of an object of empty lists."""
_MORE_BYTES = 2 << 20
_GROWTH = 1.5
"""Of a piece without a whole entry, before the next look."""
READ_BY_LINES = (
    f"an entry, or a form without a known end, of more than {WHOLE_MAX_BYTES >> 20} MiB: the rest "
    "is read by lines; export it in parts"
)


@dataclass(frozen=True, slots=True)
class DocumentPiece:
    """Whole entries of a document; ``split`` is None for lines of text."""

    split: Split | None
    data: bytes
    arrival_at: float

    def lines(self) -> Iterator[bytes]:
        """Yield the entries, one a line, with line ends."""
        if self.split is None:
            return iter(self.data.splitlines(keepends=True))
        return iterate_lines(self.split, self.data)


def cut_document(split: Split, blocks: Iterator[Block], note: Note) -> Iterator[DocumentPiece]:
    """Yield the pieces of a document of which the head shows the splitter."""
    held, arrival_at = bytearray(), 0.0
    find_end: FindEnd | None = None
    limit = WHOLE_MAX_BYTES
    for data, arrival_at in blocks:
        held += data
        if len(held) <= limit:
            continue
        text = bytes(held)
        if find_end is None:
            split, find_end, text = _find_cut(split, text)
        end = find_end(text)
        if end == 0 and len(text) > WHOLE_MAX_BYTES:
            note(READ_BY_LINES)
            yield DocumentPiece(None, text, arrival_at)
            yield from (DocumentPiece(None, more, at) for more, at in blocks)
            return
        limit = int(len(text) * _GROWTH) if end == 0 else len(text) - end + _MORE_BYTES
        limit = min(limit, WHOLE_MAX_BYTES)
        held = bytearray(text[end:])
        if end:
            yield DocumentPiece(split, text[:end], arrival_at)
    if held:
        yield DocumentPiece(split, bytes(held), arrival_at)


def _find_cut(split: Split, text: bytes) -> tuple[Split, FindEnd, bytes]:
    """Return how a long document is cut, and its text without a table's row of names."""
    if isinstance(split, partial):
        table = find_table_names(text.lstrip())
        if table is None:
            return split, find_none, text
        return (*find_growing(TABLE, table[0]), table[1])
    if split is split_json and text.lstrip()[:1] == b"{" and find_json_end(text) == 0:
        return find_list(text)
    return split, find_cut(split) or find_none, text
