"""``rebalance-agent ingest``: samples from spools and topics into tables, with Spark."""

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent.cli.spark_exit import spark_exit
from agent.cli.spark_jars import find_jars, jar_options
from agent.errors import reason_of
from agent.processes.ending import EndInTime
from agent.small_files import read_text

if TYPE_CHECKING:
    from aggregation.spark.ingest.job import IngestSource

_TOPIC = "kafka://"
_STOPPED = "stopped before the end; the next run goes on from here"


@click.command(
    name="ingest",
    epilog="Examples: `ingest --from /var/lib/rebalance-agent/spool --tables /data/rebalances "
    "--once`; `ingest --from kafka://broker-1:9092,broker-2:9092/rebalance-samples "
    "--tables /data/rebalances --table-format delta`",
)
@click.option(
    "--from",
    "places",
    required=True,
    multiple=True,
    metavar="SPOOL|kafka://HOST:PORT/TOPIC",
    help="The spool folder of an agent, or a folder or pattern of several ('/spools/*'): *.jsonl "
    "and *.jsonl.gz in it and below; also a URL such as s3a://..., or the topic that agents write "
    "to. Repeat it for several.",
)
@click.option(
    "--tables",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the tables are: transitions, samples, quarantine.",
)
@click.option(
    "--stored-in",
    metavar="URL|CATALOG.NAMESPACE",
    help="Keep the tables' rows there: s3a://BUCKET/PATH, or a namespace of an Iceberg catalog of "
    "spark-defaults.conf; DIR remembers it [default: in DIR]",
)
@click.option(
    "--table-format",
    type=click.Choice(["parquet", "delta", "iceberg"]),
    help="Delta and Iceberg fetch their jars once [default: the one there is, or parquet]",
)
@click.option(
    "--kafka-properties",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Properties of Kafka's client (security.protocol=..., sasl.jaas.config=...).",
)
@click.option(
    "--keep-days",
    metavar="DAYS",
    type=click.IntRange(min=1),
    help="Remove days that are older from the tables [default: keep all]",
)
@click.option("--metrics-listen", metavar="[HOST]:PORT", help="Serve the job's metrics there.")
@click.option(
    "--metrics-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the job's metrics there after each batch (node_exporter's textfile collector).",
)
@jar_options
@click.option("--once", is_flag=True, help="Take what is there and end; else go on until Ctrl-C.")
def ingest(  # noqa: PLR0913 - one argument an option
    places: tuple[str, ...],
    tables: Path,
    stored_in: str | None,
    table_format: str | None,
    kafka_properties: Path | None,
    keep_days: int | None,
    metrics_listen: str | None,
    metrics_file: Path | None,
    jars: Path | None,
    *,
    offline: bool,
    once: bool,
) -> None:
    """Put each sample into the tables once, however often it comes.

    Events (transition, lost, signal, episode) go to DIR/transitions, periodic samples to
    DIR/samples, lines that are no record to DIR/quarantine with the reason, file and offset. Killed
    at any moment, the next run goes on from there. Ctrl-C and SIGTERM end it within 10 s. With
    --once the exit code is 1 where a source has no file at all.
    """
    notify, stopping = partial(click.echo, err=True), threading.Event()

    def stop() -> None:
        stopping.set()
        notify("ends after this batch, or within 10 s")

    with EndInTime(lambda: notify(f"Error: {_STOPPED}")) as ending, spark_exit():
        ending.watch(stop)
        from aggregation.spark.ingest.job import IngestConfig, ingest_session  # noqa: PLC0415
        from aggregation.spark.session.jars import Need  # noqa: PLC0415
        from aggregation.spark.tables.table_place import TableFormat  # noqa: PLC0415
        from aggregation.spark.tables.tables import open_tables  # noqa: PLC0415

        sources = _sources(places, kafka_properties)
        needs = {Need.KAFKA} if any(place.startswith(_TOPIC) for place in places) else set()
        given = None if table_format is None else TableFormat(table_format)
        chosen = open_tables(tables, given, stored_in).format
        if chosen is not TableFormat.PARQUET:
            needs.add(Need(chosen))
        config = IngestConfig(
            sources=sources,
            tables=tables,
            format=given,
            stored_in=stored_in,
            once=once,
            keep_days=keep_days,
            metrics_listen=metrics_listen,
            metrics_file=metrics_file,
            jars=find_jars(needs, jars, notify, offline=offline),
        )
        with ingest_session(config, notify) as job:
            queries = job.start()
            if not once:
                notify(f"reading {', '.join(places)}; Ctrl-C ends")
            job.wait(queries, stopping.is_set)
            notify(str(job.done))
    if once and stopping.is_set():
        raise click.ClickException(_STOPPED)


def _sources(places: Sequence[str], properties: Path | None) -> list["IngestSource"]:
    from aggregation.spark.ingest.spool_source import SpoolSource  # noqa: PLC0415
    from aggregation.spark.ingest.topic_source import TopicSource  # noqa: PLC0415

    client = {} if properties is None else _properties(properties)
    return [
        TopicSource.parse(place, client) if place.startswith(_TOPIC) else SpoolSource(place)
        for place in dict.fromkeys(places)
    ]


def _properties(path: Path) -> dict[str, str]:
    """Read a Java properties file: NAME=VALUE, ``#`` begins a comment."""
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: cannot be read: {reason_of(error)}") from error
    pairs = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals:
            raise click.UsageError(f"{path}:{number}: found {name!r}, wanted NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs
