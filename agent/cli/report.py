"""``rebalance-agent report``: the trend report from tables, with Spark."""

import re
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent.cli.spark_exit import spark_exit
from agent.cli.spark_jars import jars_of_tables

if TYPE_CHECKING:
    from aggregation.spark.rollups.preaggregations import By

_DAY = click.DateTime(formats=["%Y-%m-%d"])
_FOLDER = click.Path(file_okay=False, path_type=Path)
_BEFORE = "before"
_PERIOD = re.compile(r"(\d{4}-\d\d-\d\d):(\d{4}-\d\d-\d\d)")


@click.command(
    name="report",
    epilog="Examples: `report --tables /data/rebalances --output report`; `report --tables "
    "/data/rebalances --output november --from 2026-11-01 --to 2026-11-30 --by app --compare "
    "before`",
)
@click.option(
    "--tables", required=True, metavar="DIR", type=_FOLDER, help="What `ingest` has written."
)
@click.option(
    "--output", required=True, metavar="DIR", type=_FOLDER, help="Where report.html and tables go."
)
@click.option("--from", "first", type=_DAY, help="First day, UTC [default: the first there is]")
@click.option("--to", "last", type=_DAY, help="Last day, included [default: the last there is]")
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
def report(  # noqa: PLR0913 - one argument an option
    tables: Path,
    output: Path,
    first: datetime | None,
    last: datetime | None,
    by: "By",
    compare: str | None,
) -> None:
    """Write the trend report: report.html, and each table as CSV and Parquet.

    Prints the page's path. What days add up to is kept beside the tables (DIR/rollups) and computed
    for new days only. Where the period holds no records nothing is written and the exit code is 1.
    """
    days = (_day(first), _day(last))
    if first is not None and last is not None and first > last:
        raise click.UsageError(f"--from {days[0]} is after --to {days[1]}")
    other = _parse_compare(compare)
    notify = partial(click.echo, err=True)
    with spark_exit():
        from aggregation.spark.report.context import ReportRequest, load_context  # noqa: PLC0415
        from aggregation.spark.report.render import check_output, write_report  # noqa: PLC0415
        from aggregation.spark.rollups.rollup_store import check_tables, is_up_to_date  # noqa: PLC0415
        from aggregation.spark.session.session import spark_session  # noqa: PLC0415
        from aggregation.spark.tables.period import Period  # noqa: PLC0415

        check_output(output)
        check_tables(tables)
        given = Period(*other) if isinstance(other, tuple) else other
        asked = ReportRequest(first=days[0], last=days[1], by=by, compared=given)
        jars, settings = jars_of_tables(tables, notify)
        with spark_session(
            "rebalance-agent report",
            notify,
            jars=jars,
            settings=settings,
            quick=is_up_to_date(tables),
        ) as spark:
            page = write_report(load_context(spark, tables, asked, notify), output, notify)
    click.echo(page)


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
