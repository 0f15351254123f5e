"""``rebalance-agent ingest`` that dies while it writes a batch, before the checkpoint knows of it.

As a process: ``python -P -m tests.system.killed_ingest table|batch ARGUMENTS``. It kills itself as
soon as a batch has brought rows into one of the tables, or into all that get any: Spark writes a
batch down when it is told of its end.
"""

import os
import signal
import sys
from typing import Any

from agent.cli.ingest import ingest
from aggregation.spark.ingest.job import TableIngest
from aggregation.spark.tables.tables import Tables

_append, _take = Tables.append, TableIngest._write_batch


def append_and_die(tables: Tables, *rows: Any) -> int:
    """Append rows to a table, and die of it."""
    if _append(tables, *rows):
        _die()
    return 0


def take_and_die(job: TableIngest, *batch: Any) -> None:
    """Take a batch, and die of it."""
    _take(job, *batch)
    if any(job.done.appended.values()):
        _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "table":
        Tables.append = append_and_die  # type: ignore[method-assign, assignment]
    else:
        TableIngest._write_batch = take_and_die  # type: ignore[method-assign, assignment]
    ingest.main(sys.argv[2:])
