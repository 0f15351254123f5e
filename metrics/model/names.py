"""Bounded names: client ids, member ids, groups and hosts as peers send them.

Kafka's protocol allows names of 32 KiB. A clipped name keeps its beginning for the reader and a
digest of the whole text, so that two long names stay two, in every source.
"""

import hashlib
import re

NAME_MAX_CHARS = 255
_DIGEST_CHARS = 16
"""64 bits: a billion names collide with a chance of 3 %."""
_MARK = "~"
_ESCAPED = re.compile(r"\\(?:[tnr\\]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
"""What Python's escapes of invisible characters look like."""
_INVISIBLE = re.compile(r"[^\n -~]")
"""What may be invisible; JSON escapes all below a blank, but for the end of a line."""


def clip_name(text: str) -> str:
    """Return a name of at most 255 characters; a shorter one is returned as it is."""
    if len(text) <= NAME_MAX_CHARS:
        return text
    # a name may hold lone surrogates: UTF-8 has no bytes for them
    whole = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return text[: NAME_MAX_CHARS - _DIGEST_CHARS - len(_MARK)] + _MARK + whole


def printable(text: str) -> str:
    """Escape characters that are invisible or change the direction of text.

    Other programs display the labels, and UTF-8 cannot encode a lone surrogate.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def label_text(text: str) -> str:
    """Return a text as a label's value: printable, and texts that differ stay different.

    A backslash is doubled where it could be taken for one that `printable` adds.
    """
    if text.isprintable() and not ("\\" in text and _ESCAPED.search(text)):
        return text
    return printable(text.replace("\\", r"\\"))


def escape_invisible(document: bytes) -> bytes:
    """Return JSON with characters that are invisible, or that change a terminal, as numbers.

    Some terminals take U+009B as the begin of a command, and U+202E turns the text behind it. The
    document stays the same.
    """
    if document.isascii() and b"\x7f" not in document:
        return document
    return _INVISIBLE.sub(_escape, document.decode()).encode()


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
