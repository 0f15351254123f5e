"""The id of a spool: its sequence numbers count within it.

A receiver remembers the last number by this id. If the numbering begins again, the spool needs a
new id, or the receiver would take new records for old ones. A damaged id is replaced, too: records
that a receiver then gets again keep their own ids.
"""

import logging
import re
from pathlib import Path
from uuid import uuid4

from agent.errors import OutputError, reason_of
from agent.files import is_other_than_file, replace_file
from agent.small_files import read_bytes

_FILE = ".id"
_MAX_BYTES = 256
_ID = re.compile(rb"[!-~]{1,128}")

_log = logging.getLogger(__name__)


def spool_id(folder: Path) -> str:
    """Return the spool's id; it is created if there is none, or if it is damaged.

    Raises:
        OutputError: it cannot be read or written.

    """
    path = folder / _FILE
    try:
        found = None if is_other_than_file(path) else _read(path)
        if found is None or _ID.fullmatch(found) is None:
            if found is not None or path.is_symlink() or path.exists():
                _log.warning(
                    "spool_id_damaged: the spool gets a new one", extra={"path": str(path)}
                )
            found = uuid4().hex.encode()
            replace_file(path, [found])
        return found.decode()
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


def _read(path: Path) -> bytes | None:
    """Return the file's text; None without a file, nothing of a longer one."""
    if not path.exists():
        return None
    return b"" if path.stat().st_size > _MAX_BYTES else read_bytes(path, _MAX_BYTES).strip()
