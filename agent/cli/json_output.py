"""JSON on standard output."""

import click

from metrics.model.names import escape_invisible


def echo_json(document: bytes, *, nl: bool = True) -> None:
    """Print a document; ``nl``: with the end of a line."""
    click.echo(escape_invisible(document), nl=nl)
