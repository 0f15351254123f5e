"""Small JSON files beside the tables, such as the retention horizon and the marks of rollups.

Theory of operation. They hold what the rows do not show, so a damaged one is an error that names
it: a default in its place would give wrong figures. A file is written beside its place, put on
disk, and renamed. So neither a kill nor a loss of power leaves half of one.
"""

import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from aggregation.spark.errors import SparkJobError

_T = TypeVar("_T")


def read_state(path: Path, decoder: msgspec.json.Decoder[_T], remedy: str) -> _T | None:
    """Return the content of a file; None: it, or its folder, does not exist.

    Raises:
        SparkJobError: it cannot be read; the text ends with the ``remedy``.

    """
    try:
        return decoder.decode(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SparkJobError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise SparkJobError(f"{str(path)!r} is damaged ({error}); {remedy}") from error


def write_state(path: Path, value: Any) -> None:
    """Write a file atomically, and its folder if there is none.

    Raises:
        SparkJobError: it cannot be written; the one before is still there.

    """
    partial = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(msgspec.json.encode(value))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise SparkJobError(f"cannot write {str(path)!r}: {error.strerror}") from error
