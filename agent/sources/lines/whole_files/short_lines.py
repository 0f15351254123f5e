"""Blocks of whole lines, each of a bounded length."""

from collections.abc import Iterator

from agent.sources.lines.parsing.line_parser import LINE_LIMIT

Blocks = Iterator[tuple[bytes, float]]


def shorten_lines(blocks: Blocks) -> Blocks:
    """Yield blocks that end with a line; only the last one may lack its line end.

    Of a longer line, one byte more than `LINE_LIMIT` is left: the parser passes it over.
    """
    carry, arrival_at = b"", 0.0
    for data, arrival_at in blocks:
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            yield _shorten(carry, whole) + newline, arrival_at
            carry = b""
        carry = _shorten(carry, rest)
    if carry:
        yield carry, arrival_at


def _shorten(carry: bytes, more: bytes) -> bytes:
    """Return a half line and what follows it, the first line clipped."""
    if len(carry) <= LINE_LIMIT:
        return carry + more
    _, newline, others = more.partition(b"\n")
    return carry[: LINE_LIMIT + 1] + newline + others
