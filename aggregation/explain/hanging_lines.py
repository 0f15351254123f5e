"""Lines wrapped at a width, with a hanging indent: continuations stand two cells to the right."""

import textwrap

_COLUMNS_MIN = 20


def hang(text: str, columns: int) -> str:
    """Return a text in lines of at most ``columns`` cells; unchanged below `_COLUMNS_MIN`."""
    if columns < _COLUMNS_MIN:
        return text
    wrapped = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        wrapped += textwrap.wrap(
            line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(wrapped)
