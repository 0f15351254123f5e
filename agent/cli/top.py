"""`rebalance-agent top`: groups, members and incidents, live in a terminal."""

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import click

from agent.cli.explain import as_text
from agent.client.api_client import DEFAULT_URL, ask
from agent.errors import ConfigError
from agent.terminal.answers import GroupFields, SourceFields
from agent.terminal.rows import SORTS, fit, group_rows, sort_rows, source_notes, texts
from aggregation.explain.explanation import Explanation, advise_incident
from aggregation.incidents.answers import IncidentAnswer
from aggregation.live.group_search import contains

_EXAMPLES = """\b
Examples:
  rebalance-agent top
  rebalance-agent top --from http://hub:12472 --filter payments
  rebalance-agent top --once

\b
Keys: Enter opens a group or an incident, Escape goes back, e explains, / filters,
s sorts by the next column, r reverses, ? shows all keys, q quits. A click chooses a row,
another one opens it; on a head a click sorts.
"""
_WIDE = 200
"""Columns of output to no terminal."""
_LAST = 200


@click.command(epilog=_EXAMPLES)
@click.option("--from", "url", default=DEFAULT_URL, show_default=True, metavar="URL")
@click.option(
    "--filter",
    "pattern",
    default="",
    help="Show groups with this in their name, in any case; * and ? are patterns.",
)
@click.option(
    "--interval", type=click.FloatRange(min=0.2), default=2.0, show_default=True, help="Seconds."
)
@click.option("--once", is_flag=True, help="Print once and end; so does output to no terminal.")
def top(url: str, pattern: str, interval: float, once: bool) -> None:
    """Show groups with status, ongoing or last incident, who is waited for, and cost.

    The live view needs the extra `top`: pip install 'kafka-rebalance-agent[top]'.
    """
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        _print_once(url, pattern)
    else:
        start_live_view(url, pattern, interval)


def start_live_view(url: str, pattern: str, interval: float) -> None:
    """Show the live view until the user quits.

    Raises:
        ConfigError: Textual is not installed.
        RecordsError: no response from the address.
    """
    if find_spec("textual") is None:
        raise ConfigError(
            "the live view needs Textual: pip install 'kafka-rebalance-agent[top]'; "
            "--once prints the table without it"
        )
    ask(
        url, "groups", list[GroupFields], limit=1
    )  # a wrong address is an error before the screen changes
    from agent.terminal.app import run  # noqa: PLC0415 - the extra is optional

    def request(what: str, answer_type: Any = Any, **query: object) -> Any:
        return ask(url, what, answer_type, **query)

    run(request, partial(explain_one, request), interval, pattern)


def explain_one(request: Callable[..., Any], cluster: str, group: str, incident: str = "") -> str:
    """Return the text of `explain` for a group, or for one incident if an id is given.

    For an incident, its own advice is shown if there is any.

    Raises:
        RecordsError: no response from the address, or the group is unknown.
    """
    answers: list[Explanation] = request("explain", list[Explanation], group=group, last=_LAST)
    mine = [each for each in answers if each.cluster in {cluster, ""}] or answers
    if incident:
        mine = [_only(each, incident) for each in mine]
    return "\n\n".join(as_text(each, all_advice=bool(incident)) for each in mine)


def _only(answer: Explanation, incident: str) -> Explanation:
    incidents = tuple(each for each in answer.incidents if each.id == incident)
    started = {rebalance.started_at for each in incidents for rebalance in each.rebalances}
    happened = tuple(each for each in answer.happened if each.ts in started)
    advice = tuple(text for each in incidents for text in advise_incident(each))
    return replace(
        answer,
        incidents=incidents,
        incidents_total=len(incidents),
        happened=happened,
        advice=advice or answer.advice,
    )


def _print_once(url: str, pattern: str) -> None:
    groups = ask(url, "groups", list[GroupFields])
    incidents = ask(url, "incidents", list[IncidentAnswer], last=_LAST)
    rows = group_rows(groups, incidents, time.time())
    rows = [row for row in rows if contains(pattern, row.group)]
    width = shutil.get_terminal_size((_WIDE, 0)).columns or _WIDE
    columns = fit(width if sys.stdout.isatty() else _WIDE, rows)
    for line in (
        [column.head for column in columns],
        *(texts(row, columns) for row in sort_rows(rows, SORTS[0], backwards=True)),
    ):
        cells = (_pad(text, column.width) for text, column in zip(line, columns, strict=True))
        click.echo("  ".join(cells).rstrip())
    for note in source_notes(ask(url, "sources", list[SourceFields])):
        click.echo(note)


def _pad(text: str, width: int) -> str:
    """Return a text of one width; a longer one is cut and marked."""
    return f"{text:<{width}}" if len(text) <= width else f"{text[: width - 1]}…"
