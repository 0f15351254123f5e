"""Characters that JSON encoders write as numbers, as text.

Theory of operation. Encoders that guard against HTML write some of ASCII's characters as numbers,
behind a backslash and ``u00``: Gson, System.Text.Json. No mark of a client is found in such a text,
so these escapes become the characters before a block is searched. An object within the text of
another has two backslashes.
"""

import re

_ESCAPE = b"\\u00"
_SAMPLE_BYTES = 1 << 16
"""Such an encoder writes quotes, signs of equality and brackets of all programs so."""
_ESCAPED = re.compile(rb"(?<!\\)(\\{1,64})u00([2-7][\da-fA-F])(?<!5[cC])(?<!7[fF])")
"""A printable character but the backslash; a run of backslashes is tried once."""


def has_escapes(block: bytes, start: int, end: int) -> bool:
    """Return whether the first lines of a block have such escapes."""
    return block.find(_ESCAPE, start, min(end, start + _SAMPLE_BYTES)) >= 0


def write_characters(block: bytes) -> bytes:
    """Return lines with these characters as they are; a quote keeps its backslashes."""
    return _ESCAPED.sub(_write_character, block)


def _write_character(found: re.Match[bytes]) -> bytes:
    character = bytes((int(found[2], 16),))
    if character != b'"':
        return character
    return b"\\" * (2 * len(found[1]) - 1) + character
