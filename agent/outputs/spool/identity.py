"""The id of a spool: its sequence numbers count within it.

A receiver remembers the last number by this id. If the numbering begins again, the spool needs a
new id, or the receiver would take new records for old ones.
"""

from pathlib import Path
from uuid import uuid4

from agent.errors import OutputError, reason_of

_FILE = ".id"


def spool_id(folder: Path) -> str:
    """Return the spool's id; it is created if there is none.

    Raises:
        OutputError: it cannot be read or written.

    """
    try:
        if not (folder / _FILE).exists():
            _create(folder)
        return (folder / _FILE).read_text(encoding="ascii").strip()
    except OSError as error:
        raise OutputError(f"spool {str(folder)!r}: {reason_of(error)}") from error


def discard_spool_id(folder: Path) -> None:
    """Remove the spool's id, so that it gets a new one.

    Raises:
        OutputError: it cannot be removed.

    """
    try:
        (folder / _FILE).unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"spool {str(folder)!r}: {reason_of(error)}") from error


def _create(folder: Path) -> None:
    part = folder / f"{_FILE}.part"
    part.write_text(uuid4().hex, encoding="ascii")
    part.replace(folder / _FILE)
