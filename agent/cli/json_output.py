"""JSON on standard output: names of peers must not reach a terminal as commands."""

import re

import click

_INVISIBLE = re.compile(r"[^\n -~]")
"""What may be invisible; JSON escapes all below a blank, but for the end of a line."""


def echo_json(document: bytes, *, nl: bool = True) -> None:
    """Print a document; ``nl``: with the end of a line."""
    click.echo(escape_invisible(document), nl=nl)


def escape_invisible(document: bytes) -> bytes:
    """Return JSON with characters that are invisible, or that change a terminal, as numbers.

    Some terminals take U+009B as the begin of a command, and U+202E turns the text behind it.
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
