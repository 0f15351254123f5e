"""`rebalance-agent dialects`: which client's log can show which code."""

from collections.abc import Iterator

import click
import msgspec

from agent.sources.dialect import built_in, codes, of_brokers
from agent.sources.rule import Dialect
from metrics.status import RebalanceStatus

_CODES = tuple(code for code in RebalanceStatus if code)
_EXAMPLES = """\b
Examples:
  rebalance-agent dialects
  rebalance-agent dialects --format json | jq '.[] | {dialect, codes}'
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="table: for people; json: one array.",
)
def dialects(output: str) -> None:
    """Show the log dialects that are known, and which codes each client's or broker's log can show.

    A code that a log cannot show is never guessed: such a join is counted. Other sources may see
    what a log does not say.
    """
    known = (*built_in(), *of_brokers())
    if output == "json":
        rows = [_row(dialect, codes(dialect, known)) for dialect in known]
        click.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
        return
    for line in _table([(dialect.name, codes(dialect, known)) for dialect in known]):
        click.echo(line)


def _row(dialect: Dialect, shown: frozenset[RebalanceStatus]) -> dict[str, object]:
    return {
        "dialect": dialect.name,
        "client": dialect.client,
        "versions": dialect.versions,
        "group_type": dialect.group_type,
        "source": dialect.source,
        "codes": sorted(int(code) for code in shown),
    }


def _table(rows: list[tuple[str, frozenset[RebalanceStatus]]]) -> Iterator[str]:
    width = max(len(name) for name, _ in rows)
    yield "dialect".ljust(width) + "".join(f"{code:>4}" for code in _CODES)
    for name, shown in rows:
        yield name.ljust(width) + "".join("   x" if code in shown else "   ." for code in _CODES)
    yield ""
    for code in _CODES:
        yield f"{code:>2} {code.label}: {code.help}"
    yield ""
    yield "x: the log shows it."
    yield ".: it never does: the client has no such cause, or its join is counted and gets no code."
    yield ""
    yield "kafka-broker-...: brokers name members, never what an assignment demands: what Streams"
    yield "follows up at once (10, 12, 13) is a join without a code, whose member is named."
