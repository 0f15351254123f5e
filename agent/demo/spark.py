"""Spark beside the play, so that it is warm when the play ends.

As a process: ``python -P -m agent.demo.spark SPOOL TABLES REPORT``. It takes in the first samples
as soon as there are some, for a first time costs most. Then it reads ``ingest``, ``report`` and
``close`` on its stdin, one a line, does each as the command of that name would, in the same Spark
session, and answers ``done COMMAND``. It ends at the end of its stdin.
"""

import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import click

from agent.cli.ingest import ingest
from agent.cli.report import report
from agent.cli.spark_exit import spark_exit
from agent.lab.process import Driver

_JOB_TIMEOUT_S = 600.0
_STEP_S = 0.5


class Spark(Driver):
    """Starts at once; a context manager that leaves no JVM behind."""

    def __init__(self, spool: Path, tables: Path, output: Path, scratch: Path) -> None:
        """Start it; ``scratch`` is a folder for what Spark would leave in ``/tmp``."""
        scratch.mkdir(parents=True)
        # of short jobs: the optimizing compiler would take 27 s of CPU more than it saves
        short = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={scratch}"
        super().__init__(
            "spark",
            [sys.executable, "-P", "-m", __name__, spool, tables, output],
            scratch.with_name("spark.log"),
            environment={"JDK_JAVA_OPTIONS": short} | os.environ | {"TMPDIR": str(scratch)},
        )

    def write_report(self, say: Callable[[str], None]) -> None:
        """Ingest the spool and write the report.

        Raises:
            LabError: Spark failed; with its last words.
        """
        say("ingest: samples into tables (Spark)")
        self.do("ingest", _JOB_TIMEOUT_S)
        say("report: tables into a page (Spark)")
        self.do("report", _JOB_TIMEOUT_S)
        self.close()


def main() -> None:
    """Do as told on stdin."""
    told = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the commands print is no event
    try:
        _serve(told, *sys.argv[1:])
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


def _serve(told: TextIO, spool: str, tables: str, output: str) -> None:
    from aggregation.spark.session import spark_session  # noqa: PLC0415 - not for who imports us

    with spark_exit(), spark_session("rebalance-agent demo", click.echo):
        _wait_for_samples(Path(spool))
        _call(ingest, "--from", spool, "--tables", tables, "--once")
        for line in sys.stdin:
            command = line.strip()
            match command:
                case "ingest":
                    _call(ingest, "--from", spool, "--tables", tables, "--once")
                case "report":
                    _call(report, "--tables", tables, "--output", output)
            print("done", command, file=told)
            if command == "close":
                return


def _wait_for_samples(spool: Path) -> None:
    """Return once there are some, or once something is told."""
    while not any(spool.glob("*.jsonl")):
        if select.select([sys.stdin], [], [], _STEP_S)[0]:
            return


def _call(command: click.Command, *arguments: str) -> None:
    command.main(arguments, standalone_mode=False)


if __name__ == "__main__":
    main()
