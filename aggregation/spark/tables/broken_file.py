"""What to do about a Parquet file of a table, or of rollups, that cannot be read. Without Spark.

A file of a table can leave: its day then counts as one of which a part is gone, and keeps its
rollups. A file of rollups must not leave alone, because its batch would count as complete without
its rows. So the batch's mark leaves, and the batch is computed again.
"""

import re
from pathlib import Path

from aggregation.spark.errors import SparkJobError

_ROLLUPS = re.compile(r"(.*)/(?:rollups|rebalances|incidents|_carry/\w+)/batch=([^/]+)/")
_MONTHS = re.compile(r"(.*/_months/batch=[^/]+)/")


def unread_text(path: str, *, is_gone: bool) -> str:
    """Return the text of an error: the file, and the remedy."""
    if is_gone:
        return f"{path} went while it was being read; run it again"
    broken = f"{path} is broken or no Parquet file"
    mark = _mark_of(path)
    if mark is not None:
        return (
            f"{broken}; remove {mark} and run again: report computes it again, as long as the "
            "tables have its records"
        )
    return (
        f"{broken}; move it away and run again (removing "
        "_checkpoints beside its table, too, lets ingest read again what spools still hold)"
    )


def unread_file(path: Path, error: Exception) -> SparkJobError:
    """Return the error for a file that PyArrow cannot read."""
    return SparkJobError(unread_text(str(path), is_gone=isinstance(error, FileNotFoundError)))


def _mark_of(path: str) -> str | None:
    """Return the mark of the rollups that a file is a part of; None: it is a table's."""
    month, day = _MONTHS.match(path), _ROLLUPS.match(path)
    if month is not None:
        return f"{month[1]}/_made.json"
    return None if day is None else f"{day[1]}/rollups/batch={day[2]}/_made.json"
