"""Margins of copied logs: quotation marks, indentation, line numbers, fences, and text above.

Theory of operation. A log that is pasted into an issue, a chat or a mail has the same mark before
each of its lines, and may be in a code fence below some text. The reader of a line accepts one mark
(collector_prefix.py). But a mark hides the type of a *document* (an array, a table), and a line may
have two marks. Therefore a mark before every line of the head is removed, then the next one, until
there is none. The name of a stream identifies a member; it is removed only if the lines after it
are one document.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise

Change = Callable[[bytes], bytes]
IsDocument = Callable[[bytes], bool]

_HEAD_LINES = 40
_MOST = 2
"""Of the lines of a quotation, one in so many at least: an answer may stand between them."""
_MARGINS = 4
"""Margins within each other."""
_QUOTE = re.compile(rb"^(?:> ?){1,4}", re.MULTILINE)
_LIST = re.compile(rb"^(?:[-*+]|\xe2\x80\xa2) ", re.MULTILINE)
_NUMBER = re.compile(rb"^[ \t]{0,8}(\d{1,7})(?:\t|:[ \t]?| ?\| ?| {1,2})", re.MULTILINE)
"""Of an editor, of ``cat -n`` and ``less -N``."""
_NAME = re.compile(
    rb"^(?:[\w.@-]{1,253}[ ]{0,64} \| ?|\[pod/[^\]\s]{1,512}\] )(?=[\[\]{}(\"\s\w|}-])",
    re.MULTILINE,
)
_INDENT = re.compile(rb"[ \t]*")
_OF_MARKDOWN = (b"    ", b"\t")
"""Before each line of code, which words may stand above."""
_TIME, _TIME_BYTES = re.compile(rb"\d\d:\d\d"), 160
_FENCE = re.compile(
    rb"^[ \t]*(?:`{3,}[\w+-]{0,32}|~{3,}[\w+-]{0,32}|\{(?:noformat|code)(?::[^}\n]{0,64})?\})"
    rb"[ \t]*\r?$\n?",
    re.MULTILINE,
)
_PROMPT = re.compile(rb"[^\n]{0,200}[$#%] [^\n]{1,4096}\n")
"""The command above its output."""
_COLOURS = re.compile(rb"\x1b\[[\d;]{0,32}m")


def find_margins(head: bytes, is_document: IsDocument) -> list[Change]:
    """Return the functions that remove the margins of a log, the outermost first.

    ``head`` are its first bytes; ``is_document`` is true of a text beyond a line an entry.
    """
    changes = list[Change]()
    while len(changes) < _MARGINS:
        change = _find_margin(head, is_document)
        if change is None:
            break
        changes.append(change)
        head = change(head)
    return changes


def find_words_above(head: bytes, is_document: IsDocument) -> int:
    """Return the bytes of the words above a document: of a person, or a command."""
    fence, prompt = _FENCE.search(head), _PROMPT.match(head)
    ends = [found.end() for found in (fence, prompt) if found is not None]
    return next((end for end in ends if not is_document(head) and is_document(head[end:])), 0)


def remove_fences(data: bytes) -> bytes:
    """Return whole lines without those that begin or end a fence."""
    return _FENCE.sub(b"", data)


def has_fences(head: bytes) -> bool:
    """Return whether a fence begins or ends in the first bytes."""
    return _FENCE.search(head) is not None


def _find_margin(head: bytes, is_document: IsDocument) -> Change | None:
    lines = [line for line in _FENCE.sub(b"", head).split(b"\n") if line.strip()][:_HEAD_LINES]
    for mark in _find_marks(lines):
        is_sure = len(lines) > 1 and mark not in {_COLOURS, _NAME} and not is_document(head)
        if mark is _QUOTE or is_sure or is_document(mark.sub(b"", head)):
            return partial(mark.sub, b"")
    return None


def _find_marks(lines: Sequence[bytes]) -> Iterator[re.Pattern[bytes]]:
    """Yield the margins that every line may have."""
    if lines and sum(line.startswith(b">") for line in lines) * _MOST >= len(lines):
        yield _QUOTE
    if lines and lines[0].startswith(b"\x1b"):
        yield _COLOURS
    indent = _find_indent(lines)
    if indent:
        yield re.compile(rb"^" + re.escape(indent), re.MULTILINE)
    if _are_numbered(lines):
        yield _NUMBER
    yield from (mark for mark in (_LIST, _NAME) if lines and all(map(mark.match, lines)))


def _are_numbered(lines: Sequence[bytes]) -> bool:
    found = [_NUMBER.match(line) for line in lines]
    numbers = [int(each[1]) for each in found if each is not None]
    if not lines or len(numbers) < len(lines):
        return False
    is_counted = all(after > before for before, after in pairwise(numbers))
    return is_counted and numbers[-1] - numbers[0] < 2 * len(lines)


def _find_indent(lines: Sequence[bytes]) -> bytes:
    """Return the blanks before every line from the first to the last one with a time, or of all."""
    dated = [n for n, line in enumerate(lines) if _TIME.search(line, 0, _TIME_BYTES) is not None]
    log = lines[dated[0] : dated[-1] + 1] if dated else lines
    if len(dated) > 1 and all(line.startswith(_OF_MARKDOWN) for line in log):
        lines = log  # the others are a person's words
    indents = [_INDENT.match(line) for line in lines]
    texts = [found[0] for found in indents if found is not None]
    shortest = min(texts, key=len, default=b"")
    return shortest if all(text.startswith(shortest) for text in texts) else b""
