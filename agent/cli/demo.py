"""``rebalance-agent demo``: everything at work, with nothing installed beside it."""

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import click

from agent.demo.show import DemoFolders, perform
from agent.demo.spark import Spark
from agent.demo.stages import STAGES, require_stage
from agent.errors import ConfigError

_WANTED_CODES = 6
"""Codes that a demo must show; fewer is an error."""

_EPILOG = """\b
Examples:
  rebalance-agent demo
  rebalance-agent demo --no-report --seconds 30
  rebalance-agent demo --broker kafka --output demo
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--broker",
    type=click.Choice(list(STAGES)),
    default="mock",
    show_default=True,
    help="mock: librdkafka's cluster and consumers. kafka: a real broker, Java consumers and "
    "Streams applications (needs a checkout and Java 17; fetches 320 MB once).",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="mock: repeat the scenes until this time has passed; they run once at least.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="A new or empty folder for report, tables and spool. Default: a temporary one.",
)
@click.option("--keep", is_flag=True, help="Keep the clients' logs and the broker's data too.")
@click.option("--no-report", is_flag=True, help="Leave Spark out: no tables, no report.")
def demo(broker: str, seconds: float, output: Path | None, keep: bool, no_report: bool) -> None:
    """Run real consumers that rebalance, an agent that shows why, Spark and the report.

    Uses loopback only. Ctrl-C ends every process that it started.
    """
    require_stage(broker)
    places = DemoFolders(output=_folder(output))
    say = partial(click.echo, err=True)
    say(f"starting the {broker} cluster and an agent")
    try:
        with _end_on_signals(), nullcontext() if no_report else _spark(places) as spark:
            outcome, url = perform(STAGES[broker], places, seconds, sys.stdout)
            click.echo(f"\n{outcome.rebalances} rebalances of {outcome.members} members, by cause:")
            click.echo("\n".join(outcome.table()) + "\n")
            if spark is not None:
                spark.write_report(say)
    except KeyboardInterrupt:
        if output is None and not keep:  # the user does not know the folder's name
            shutil.rmtree(places.output, ignore_errors=True)
        raise
    finally:
        if not keep:
            for folder in places.scratch:
                shutil.rmtree(folder, ignore_errors=True)
    click.echo(f"metrics: were at {url}")
    for name, path in _results(places):
        click.echo(f"{name + ':':<8} {path}")
    if len(outcome.codes) < _WANTED_CODES:
        raise click.ClickException(f"found {len(outcome.codes)} causes, wanted {_WANTED_CODES}")


def _spark(places: DemoFolders) -> Spark:
    return Spark(places.spool, places.tables, places.report.parent, places.output / "spark")


def _results(places: DemoFolders) -> list[tuple[str, Path]]:
    found = {
        "report": places.report,
        "tables": places.tables,
        "spool": places.spool,
        "logs": places.logs,
    }
    return [(name, path) for name, path in found.items() if path.exists()]


def _folder(output: Path | None) -> Path:
    if output is None:
        return Path(tempfile.mkdtemp(prefix="rebalance-demo-"))
    if output.exists() and any(output.iterdir()):
        raise ConfigError(f"--output: {str(output)!r} is not empty; wanted a new folder")
    output.mkdir(parents=True, exist_ok=True)
    return output.resolve()


@contextmanager
def _end_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does, children first."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
