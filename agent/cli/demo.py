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

from agent.cli.explain import as_text, wrap
from agent.demo.outcome import explain_worst
from agent.demo.show import DemoFolders, perform
from agent.demo.spark import Spark
from agent.demo.stages import STAGES, require_stage
from agent.errors import ConfigError
from aggregation.incidents.incidents import Analysis

_WANTED_CODES = 6
"""Codes that a demo must show; fewer is an error."""

_EPILOG = """\b
Examples:
  rebalance-agent demo
  rebalance-agent demo --keep-running
  rebalance-agent demo --report --output demo
  rebalance-agent demo --broker kafka
"""

_NEXT = """\
Next, for your own cluster (quick-start in the documentation has more):
  rebalance-agent replay --source logs --signals app.log | rebalance-agent explain GROUP --from -
  rebalance-agent groups list --bootstrap-server HOST:9092
  rebalance-agent run --config.file agent.yaml
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
@click.option("--keep-running", is_flag=True, help="Keep all running after the play, until Ctrl-C.")
@click.option(
    "--report/--no-report",
    default=False,
    show_default=True,
    help="Put samples into tables and write the report, with Spark (a minute more).",
)
def demo(  # noqa: PLR0913 - one argument an option
    broker: str, seconds: float, output: Path | None, keep: bool, keep_running: bool, report: bool
) -> None:
    """Run real consumers that rebalance, and an agent that shows why, on its page and here.

    At the end it explains the worst incident. Uses loopback only. Ctrl-C ends every process that it
    started.
    """
    require_stage(broker, with_report=report)
    places = DemoFolders(output=_folder(output))
    progress = partial(click.echo, err=True)
    progress(f"starting the {broker} cluster and an agent")
    try:
        with _end_on_signals(), _spark(places) if report else nullcontext() as spark:
            performance = perform(
                STAGES[broker], places, seconds, sys.stdout, keep_running=keep_running
            )
            outcome = performance.outcome
            click.echo(f"\n{outcome.rebalances} rebalances of {outcome.members} members, by cause:")
            click.echo("\n".join(outcome.table()) + "\n")
            _echo_worst(performance.analysis)
            if spark is not None:
                spark.write_report(progress)
    except KeyboardInterrupt:
        if output is None and not keep:  # the user does not know the folder's name
            shutil.rmtree(places.output, ignore_errors=True)
        raise
    finally:
        if not keep:
            for folder in places.scratch:
                shutil.rmtree(folder, ignore_errors=True)
    for name, path in _results(places):
        click.echo(f"{name + ':':<8} {path}")
    click.echo(f"\n{_NEXT}", nl=False)
    if len(outcome.codes) < _WANTED_CODES:
        raise click.ClickException(f"found {len(outcome.codes)} causes, wanted {_WANTED_CODES}")


def _echo_worst(analysis: Analysis) -> None:
    worst = explain_worst(analysis)
    if worst is not None:
        click.echo(f"The worst of {len(analysis.incidents)} incidents:\n")
        click.echo(wrap(as_text(worst)) + "\n")


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
