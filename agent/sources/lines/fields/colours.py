"""Colours and other sequences of terminals within a text."""

import re

_COLOUR = re.compile(r"\x1b(?:\[[\d;?]{0,32}[A-Za-z]|[_\]P^][^\x07\x1b]{0,256}(?:\x07|\x1b\\))")
"""A terminal's sequences: colours, cleared lines, links and the marks of build servers."""


def strip_colours(text: str) -> str:
    """Return a text without the sequences of a terminal."""
    return _COLOUR.sub("", text) if "\x1b" in text else text
