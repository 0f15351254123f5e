"""``rebalance-agent report``: the trend report from tables, with Spark."""

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from agent.cli.spark_exit import spark_exit
from agent.cli.spark_jars import jars_of_tables
from agent.config.objectives import EXAMPLE, read_objectives
from metrics.model.names import printable

if TYPE_CHECKING:
    from aggregation.spark.report.rules import FailureRule, FigureValues
    from aggregation.spark.rollups.preaggregations import By

_DAY = click.DateTime(formats=["%Y-%m-%d"])
_FOLDER = click.Path(file_okay=False, path_type=Path)
_BEFORE = "before"
_MISSED = "slo_missed"
_NAMES_SHOWN = 5
_PERIOD = re.compile(r"(\d{4}-\d\d-\d\d):(\d{4}-\d\d-\d\d)")


@click.command(
    name="report",
    epilog="Examples: `report --tables /data/rebalances --output report`; `report --tables "
    "/data/rebalances --output november --from 2026-11-01 --to 2026-11-30 --by app --compare "
    "before`; `report --tables /data/rebalances --output reports --dated --slo slo.yaml --fail-if "
    "slo_missed`",
)
@click.option(
    "--tables", required=True, metavar="DIR", type=_FOLDER, help="What `ingest` has written."
)
@click.option(
    "--output", required=True, metavar="DIR", type=_FOLDER, help="Where page and tables go."
)
@click.option(
    "--from", "first", type=_DAY, help="First day, of --timezone [default: the first there is]"
)
@click.option("--to", "last", type=_DAY, help="Last day, included [default: the last there is]")
@click.option(
    "--days",
    "length",
    type=click.IntRange(min=1),
    help="That many days up to the last one, in place of --from.",
)
@click.option(
    "--by",
    type=click.Choice(["group", "app"]),
    default="group",
    show_default=True,
    help="Report on consumer groups or on applications.",
)
@click.option(
    "--compare",
    metavar="before|FROM:TO",
    help="Set another period beside this one: as many days right before it, or the days given.",
)
@click.option(
    "--timezone",
    "zone",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    help="Time zone of the days and hours of rebalances and incidents, such as Europe/Berlin.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["html", "markdown", "json"]),
    default="html",
    show_default=True,
    help="Format of the page; tables are CSV and Parquet beside it.",
)
@click.option(
    "--dated",
    is_flag=True,
    help="Write into a folder named by the period, and add it to an index of all reports.",
)
@click.option(
    "--slo",
    metavar="FILE",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help=f"YAML with objectives of groups, such as '{EXAMPLE}': per cent of the time without "
    "rebalances, unread time of partitions in 30 days.",
)
@click.option(
    "--fail-if",
    "rules",
    metavar="RULE",
    multiple=True,
    help="Exit with 1 if a figure is so, such as 'slo_missed', 'worse' or 'poll_timeout>3'; may be "
    "given several times.",
)
def report(  # noqa: PLR0913 - one argument an option
    tables: Path,
    output: Path,
    first: datetime | None,
    last: datetime | None,
    length: int | None,
    by: "By",
    compare: str | None,
    zone: str,
    kind: str,
    dated: bool,
    slo: Path | None,
    rules: tuple[str, ...],
) -> None:
    """Write the trend report: a page, a mail, and each table as CSV and Parquet.

    Prints the page's path. What days add up to is kept beside the tables (DIR/rollups) and computed
    for new days only. Where the period holds no records nothing is written and the exit code is 1.
    """
    days = (_day(first), _day(last))
    if first is not None and last is not None and first > last:
        raise click.UsageError(f"--from {days[0]} is after --to {days[1]}")
    if first is not None and length is not None:
        raise click.UsageError("--from and --days exclude each other")
    other = _parse_compare(compare)
    targets = [] if slo is None else read_objectives(slo)
    _check_zone(zone)
    notify = partial(click.echo, err=True)
    with spark_exit():
        from aggregation.spark.report.context import ReportRequest, load_context  # noqa: PLC0415
        from aggregation.spark.report.history import dated_folder, write_index  # noqa: PLC0415
        from aggregation.spark.report.objectives import Objective, find_undecided, find_unused  # noqa: PLC0415
        from aggregation.spark.report.proposals import propose_changes  # noqa: PLC0415
        from aggregation.spark.report.render import (  # noqa: PLC0415
            Format,
            check_output,
            write_report,
        )
        from aggregation.spark.report.report import build_report  # noqa: PLC0415
        from aggregation.spark.rollups.rollup_store import check_tables, is_up_to_date  # noqa: PLC0415
        from aggregation.spark.session.session import spark_session  # noqa: PLC0415
        from aggregation.spark.tables.period import Period  # noqa: PLC0415

        wanted = _parse_rules(rules)
        if slo is None and any(rule.figure == _MISSED for rule in wanted):
            raise click.UsageError(f"--fail-if {_MISSED} needs --slo")
        check_output(output)
        check_tables(tables)
        given = Period(*other) if isinstance(other, tuple) else other
        asked = ReportRequest(
            first=days[0], last=days[1], length=length, by=by, compared=given, zone=zone
        )
        objectives = [
            Objective(
                pattern=each.pattern,
                groups=each.groups,
                target=each.target,
                budget_s=each.budget_s,
            )
            for each in targets
        ]
        jars, settings = jars_of_tables(tables, notify)
        with spark_session(
            "rebalance-agent report",
            notify,
            jars=jars,
            settings=settings,
            quick=is_up_to_date(tables),
        ) as spark:
            context = load_context(spark, tables, asked, notify)
            found = build_report(context, notify, objectives, propose_changes)
            folder = dated_folder(output, found) if dated else output
            page = write_report(found, folder, Format(kind))
            if dated:
                write_index(output, found, page)
    for pattern in find_unused(objectives, found.tables, by):
        notify(f"{slo}: {pattern!r} is the objective of no {by} in this period")
    if undecided := find_undecided(found.tables["slo"], by):
        shown = ", ".join(map(printable, undecided[:_NAMES_SHOWN]))
        more = f" and {len(undecided) - _NAMES_SHOWN} more" if undecided[_NAMES_SHOWN:] else ""
        notify(f"not checked: the objective of {shown}{more}, of which a figure is not known")
    click.echo(page)
    _check_rules(wanted, found.figure_values(), notify)


def _check_rules(
    rules: "Sequence[FailureRule]", values: "FigureValues", notify: Callable[[str], None]
) -> None:
    """Exit with 1 if a rule is broken, and name each that is, or that nothing decides."""
    from aggregation.spark.report.rules import format_figure  # noqa: PLC0415

    broken = [rule for rule in rules if rule.is_broken(values)]
    for rule in rules:
        value = values.get(rule.figure, 0)
        if value is None:
            notify(f"not checked: {rule}, since no source shows {rule.figure}")
        elif rule in broken:
            notify(f"failed: {rule}, since {rule.figure} is {format_figure(value)}")
    if broken:
        raise click.exceptions.Exit(1)


def _check_zone(zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise click.UsageError(f"--timezone {zone!r} is no zone such as Europe/Berlin") from None


def _parse_rules(given: Sequence[str]) -> "list[FailureRule]":
    from aggregation.incidents.model import IncidentKind  # noqa: PLC0415
    from aggregation.spark.report.rules import FIGURES, parse_rule  # noqa: PLC0415

    known = frozenset({*FIGURES, *(kind.value for kind in IncidentKind)})
    try:
        return [parse_rule(text, known) for text in given]
    except ValueError as error:
        raise click.UsageError(f"--fail-if: {error}") from None


def _parse_compare(asked: str | None) -> "tuple[date, date] | bool":
    """Parse ``--compare``: True means the days before, False no comparison."""
    if asked is None or asked == _BEFORE:
        return asked is not None
    found = _PERIOD.fullmatch(asked)
    try:
        first, last = map(date.fromisoformat, found.groups() if found else ())
    except ValueError:
        raise click.UsageError(
            f"--compare {asked!r}: wanted 'before' or two days, such as 2026-10-01:2026-10-31"
        ) from None
    if first > last:
        raise click.UsageError(f"--compare: {first} is after {last}")
    return first, last


def _day(given: datetime | None) -> date | None:
    return None if given is None else given.date()
