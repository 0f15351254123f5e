"""``rebalance-agent report``: the trend report from tables, with Spark."""

from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent.cli.spark_exit import spark_exit
from agent.cli.spark_jars import reading_session

if TYPE_CHECKING:
    from aggregation.spark.report.facts import By

_DAY = click.DateTime(formats=["%Y-%m-%d"])
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command(name="report")
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
def report(
    tables: Path, output: Path, first: datetime | None, last: datetime | None, by: "By"
) -> None:
    """Write the trend report: report.html, and each table as CSV and Parquet.

    Prints the page's path. Where the period holds no records nothing is written and the exit code
    is 1.
    """
    days = (_day(first), _day(last))
    if first is not None and last is not None and first > last:
        raise click.UsageError(f"--from {days[0]} is after --to {days[1]}")
    say = partial(click.echo, err=True)
    with spark_exit():
        from aggregation.spark.report.facts import load_facts  # noqa: PLC0415
        from aggregation.spark.report.render import write_report  # noqa: PLC0415

        with reading_session("rebalance-agent report", tables, None, say, offline=False) as spark:
            page = write_report(load_facts(spark, tables, *days, by), output, say)
    click.echo(page)


def _day(given: datetime | None) -> date | None:
    return None if given is None else given.date()
