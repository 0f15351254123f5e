"""Spark beside the play, so that it is warm when the play ends.

As a process: ``agent.demo.spark SPOOL TABLES REPORT``. It ingests the first samples as soon as
there are some, because the first time costs most. Then it reads ``ingest``, ``report`` and
``close`` on its stdin, one a line, executes each like the command of that name, in the same Spark
session, and prints ``done COMMAND``. It ends at the end of its stdin.
"""

import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import click

from agent.processes.driver import Driver
from kafka_rebalance_agent.child import CHILD

_JOB_TIMEOUT_S = 600.0
_STEP_S = 0.5


class Spark(Driver):
    """Starts at once; a context manager that leaves no JVM behind."""

    def __init__(self, spool: Path, tables: Path, output: Path, scratch: Path) -> None:
        """Start the process; ``scratch`` is its folder for temporary files."""
        scratch.mkdir(parents=True)
        # of short jobs: the optimizing compiler would take 27 s of CPU more than it saves
        short = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={scratch}"
        super().__init__(
            "spark",
            [*CHILD, __name__, spool, tables, output],
            scratch.with_name("spark.log"),
            environment={"JDK_JAVA_OPTIONS": short} | os.environ | {"TMPDIR": str(scratch)},
        )

    def write_report(self, say: Callable[[str], None]) -> None:
        """Ingest the spool and write the report.

        Raises:
            ProcessError: Spark failed; with its last words.
        """
        say("ingest: samples into tables (Spark)")
        self.do("ingest", _JOB_TIMEOUT_S)
        say("report: tables into a page (Spark)")
        self.do("report", _JOB_TIMEOUT_S)
        self.close()


def main() -> None:
    """Execute the commands of stdin; exit with 2 if Spark cannot start, with 1 if a job fails."""
    from aggregation.spark.errors import SparkJobError, SparkSetupError  # noqa: PLC0415

    done = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of the jobs is no event
    spool, tables, output = map(Path, sys.argv[1:])
    try:
        _serve(done, spool, tables, output)
    except (SparkSetupError, SparkJobError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2 if isinstance(error, SparkSetupError) else 1)


def _serve(done: TextIO, spool: Path, tables: Path, output: Path) -> None:
    # not for a process that imports this module for `Spark`
    from aggregation.spark.session.session import require_spark, spark_session  # noqa: PLC0415

    require_spark()
    with spark_session("rebalance-agent demo", click.echo):
        _wait_for_samples(spool)
        _ingest(spool, tables)
        for line in sys.stdin:
            command = line.strip()
            match command:
                case "ingest":
                    _ingest(spool, tables)
                case "report":
                    _report(tables, output)
            print("done", command, file=done)
            if command == "close":
                return


def _ingest(spool: Path, tables: Path) -> None:
    from aggregation.spark.ingest.job import IngestConfig, ingest_session  # noqa: PLC0415
    from aggregation.spark.ingest.spool_source import SpoolSource  # noqa: PLC0415

    config = IngestConfig(sources=[SpoolSource(str(spool))], tables=tables, once=True)
    with ingest_session(config, click.echo) as job:
        job.wait(job.start(), lambda: False)
        click.echo(str(job.done))


def _report(tables: Path, output: Path) -> None:
    from aggregation.spark.report.context import ReportRequest, load_context  # noqa: PLC0415
    from aggregation.spark.report.proposals import propose_changes  # noqa: PLC0415
    from aggregation.spark.report.render import check_output, write_report  # noqa: PLC0415
    from aggregation.spark.report.report import build_report  # noqa: PLC0415
    from aggregation.spark.rollups.rollup_store import check_tables, is_up_to_date  # noqa: PLC0415
    from aggregation.spark.session.session import spark_session  # noqa: PLC0415

    check_output(output)
    check_tables(tables)
    quick = is_up_to_date(tables)
    with spark_session("rebalance-agent report", click.echo, quick=quick) as spark:
        context = load_context(spark, tables, ReportRequest(), click.echo)
        report = build_report(context, click.echo, propose=propose_changes)
        click.echo(write_report(report, output))


def _wait_for_samples(spool: Path) -> None:
    """Return once there are samples, or a command."""
    while not any(spool.glob("*.jsonl")):
        if select.select([sys.stdin], [], [], _STEP_S)[0]:
            return


if __name__ == "__main__":
    main()
