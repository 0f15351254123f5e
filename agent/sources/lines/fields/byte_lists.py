"""Messages that journald writes as lists of bytes, as text.

Theory of operation. `journalctl -o json` writes a message with control characters, such as colours,
or with invalid UTF-8 as a list of numbers. No mark of a client stands in it, so such lists become
text before a block is searched.
https://systemd.io/JOURNAL_EXPORT_FORMATS/#journal-json-format
"""

import json
import re
from typing import Any

_FIELD = b'"__REALTIME_TIMESTAMP"'
"""Each of journald's objects has it."""
_SAMPLE_BYTES = 1 << 14
_LIST = re.compile(rb'("MESSAGE"\s?:\s?)\[([\d,\s]{1,1048576})\]')


def has_byte_lists(block: bytes, start: int, end: int) -> bool:
    """Return whether lines are journald's, and one of them has such a message."""
    is_journal = block.find(_FIELD, start, min(end, start + _SAMPLE_BYTES)) >= 0
    return is_journal and _LIST.search(block, start, end) is not None


def write_texts(block: bytes) -> bytes:
    """Return lines with their lists of bytes as text."""
    return _LIST.sub(_write_text, block)


def read_text(numbers: list[Any]) -> str | None:
    """Return the text of a list of bytes; None for any other list."""
    try:
        return bytes(numbers).decode(errors="replace") if numbers else None
    except (TypeError, ValueError):
        return None


def _write_text(found: re.Match[bytes]) -> bytes:
    try:
        text = read_text([int(number) for number in found[2].split(b",")])
    except ValueError:  # no number between two commas, or one with thousands of digits
        return found[0]
    return found[0] if text is None else found[1] + json.dumps(text).encode()
