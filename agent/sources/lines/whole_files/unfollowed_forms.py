"""Forms of a log that `replay` reads as they are, and a followed file is not read in.

Theory of operation. A copy of a log has marks before its lines, is wrapped at a width, or stands
below other text. Nobody goes on to write such a file, and to undo that, the whole of it must be
known. If a followed file begins like that, its lines are read as they are, so names and times may
be lost. The user must know that.
"""

from collections.abc import Sequence

from agent.sources.lines.whole_files.copied_margins import Change, find_margins, find_words_above
from agent.sources.lines.whole_files.copied_text import COPIES, has_log_in_string
from agent.sources.lines.whole_files.documents import find_form
from agent.sources.lines.whole_files.printed_tables import find_printed_table
from agent.sources.lines.whole_files.wrapped_lines import find_word_wrapping, find_wrapping

_LEAST_LINES = 4
"""Fewer lines may begin alike by chance."""
_WITH_REPLAY = "read it with replay, and follow the log itself"


def describe_unfollowed_form(head: bytes) -> str | None:
    """Return what a file that begins so is, and the remedy; None: it can be followed."""
    margins = find_margins(head, _is_document)
    if not _is_document(head) and (_is_document_within(head, margins) or _has_words_above(head)):
        return f"a document below or within other text: {_WITH_REPLAY}"
    if has_log_in_string(head):
        return f"a log as one string, with the ends of its lines escaped: {_WITH_REPLAY}"
    if sum(map(bool, map(bytes.strip, head.splitlines()))) < _LEAST_LINES:
        return None
    forms = (
        (find_printed_table(head), "a table that a tool printed"),
        (margins, "a copy of a log, with marks before its lines"),
        (find_wrapping(head) or find_word_wrapping(head), "a copy of a log, wrapped at a width"),
    )
    return next((f"{name}: {_WITH_REPLAY}" for found, name in forms if found), None)


def _is_document(text: bytes) -> bool:
    return find_form(text) is not None


def _has_words_above(head: bytes) -> bool:
    return bool(find_words_above(head, _is_document))


def _is_document_within(head: bytes, margins: Sequence[Change]) -> bool:
    """Return whether a text is a document without its marks."""
    text = head
    for change in (*margins, *(copy.change for copy in COPIES if copy.shows(head))):
        text = change(text)
    return text != head and _is_document(text)
