"""``rebalance-agent ingest``: samples from a spool folder into tables, with Spark."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from agent.cli.spark_exit import spark_exit


@click.command(name="ingest")
@click.option(
    "--from",
    "source",
    required=True,
    metavar="SPOOL",
    help="The spool folder of an agent (*.jsonl, *.jsonl.gz).",
)
@click.option(
    "--tables",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the tables are: transitions, samples, quarantine.",
)
@click.option(
    "--table-format",
    type=click.Choice(["parquet", "delta", "iceberg"]),
    default="parquet",
    show_default=True,
    help="Only parquet is built so far.",
)
@click.option("--once", is_flag=True, help="Take what is there and end; else go on until Ctrl-C.")
def ingest(source: str, tables: Path, table_format: str, once: bool) -> None:
    """Put each sample into the tables once, however often it comes.

    Events (transition, lost, signal, episode) go to DIR/transitions, periodic samples to
    DIR/samples, lines that are no record to DIR/quarantine with the reason. Killed at any moment,
    the next run goes on from there.
    """
    if table_format != "parquet":
        raise click.UsageError(f"--table-format {table_format} is not built yet; use parquet")
    if source.startswith("kafka://"):
        raise click.UsageError("reading from Kafka is not built yet; give a spool folder")
    say = partial(click.echo, err=True)
    with spark_exit():
        from aggregation.spark.ingest import IngestConfig, ingest_session  # noqa: PLC0415

        config = IngestConfig(spool=Path(source), tables=tables, once=once)
        with ingest_session(config, say) as job, _signals() as stopping:
            query = job.start()
            if not once:
                say(f"reading {source}; Ctrl-C ends")
            job.wait(query, stopping.is_set)
            say(str(job.done))
    if once and stopping.is_set():
        raise click.ClickException("stopped before the end; the next run goes on from here")


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Give an event that SIGINT and SIGTERM set, for a clean end between two batches."""
    stopping = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stopping.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
