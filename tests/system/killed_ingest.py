"""``rebalance-agent ingest`` that dies between a table's commit and the checkpoint's.

As a process: ``python -P -m tests.system.killed_ingest ARGUMENTS``. It kills itself as soon as a
batch has brought rows into the tables: Spark writes a batch down when it is told of its end.
"""

import os
import signal
import sys
from typing import Any

from agent.cli.ingest import ingest
from aggregation.spark.ingest import TableIngest

_take = TableIngest._take


def take_and_die(job: TableIngest, *batch: Any) -> None:
    """Take a batch, and die of it."""
    _take(job, *batch)
    if any(job.done.appended.values()):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    TableIngest._take = take_and_die  # type: ignore[method-assign, assignment]
    ingest.main(sys.argv[1:])
