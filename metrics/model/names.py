"""Bounded names: client ids, member ids, groups and hosts as peers send them.

Kafka's protocol allows names of 32 KiB. A clipped name keeps its beginning for the reader and a
digest of the whole text, so that two long names stay two, in every source.
"""

import hashlib

NAME_MAX_CHARS = 255
_DIGEST_CHARS = 16
"""64 bits: a billion names collide with a chance of 3 %."""
_MARK = "~"


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
