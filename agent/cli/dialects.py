"""Command `rebalance-agent dialects`: the codes that each log dialect and source can show."""

from collections.abc import Iterator

import click
import msgspec

from agent.sources.coverage import SourceCoverage
from agent.sources.lines.dialects.dialect import Dialect
from agent.sources.lines.dialects.dialect_loader import (
    list_codes,
    load_broker_dialects,
    load_client_dialects,
)
from agent.sources.registry import REGISTRY
from metrics.model.status import RebalanceStatus

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
    """Show the known log dialects, and the codes that each of them and each source can show.

    A code that a source cannot show is never guessed: such a join is counted. Another source of
    the same member may see it.
    """
    clients, brokers = load_client_dialects(), load_broker_dialects()
    known = (*clients, *brokers)
    if output == "json":
        rows = [_row("logs", dialect, list_codes(dialect, known)) for dialect in clients]
        rows += [_row("broker_log", dialect, list_codes(dialect, known)) for dialect in brokers]
        rows += (_other(*item) for item in REGISTRY.coverage())
        click.echo(msgspec.json.format(msgspec.json.encode(rows)))
        return
    shown = [(dialect.name, list_codes(dialect, known)) for dialect in known]
    for line in _table(shown + [(row.name, row.codes) for row, _ in REGISTRY.coverage()]):
        click.echo(line)


def _row(type_: str, dialect: Dialect, shown: frozenset[RebalanceStatus]) -> dict[str, object]:
    return {
        "dialect": dialect.name,
        "types": [type_],
        "client": dialect.client,
        "versions": dialect.versions,
        "group_type": dialect.group_type,
        "source": dialect.source,
        "codes": sorted(int(code) for code in shown),
    }


def _other(other: SourceCoverage, types: list[str]) -> dict[str, object]:
    return {
        "dialect": other.name,
        "types": types,
        "client": other.clients,
        "group_type": other.group_type,
        "codes": sorted(int(code) for code in other.codes),
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
    yield "x: the log, or the source, shows it."
    yield ".: it never does: the client has no such cause, or its join is counted and gets no code."
    yield ""
    yield "kafka-broker-...: brokers name members, never what an assignment demands: what Streams"
    yield "follows up at once (10, 12, 13) is a join of a known member without a code."
    yield ""
    yield "wire-...: sources capture and proxy; a leave without a reason is a 6 there, even where"
    yield "the poll interval expired (5). librdkafka-statistics: 1 of eager consumers only."
    yield "inspection: source groups, which compares states of brokers and sets no status."
