"""The retention horizon of the tables: the first day that ``--keep-days`` has kept.

Theory of operation. Maintenance writes the horizon before it removes a day. It never moves back. So
an ingest without ``--keep-days`` knows it too. A late record of an earlier day does not enter
the tables, because its day would then look like a day with this one record.
"""

from datetime import date
from pathlib import Path

import msgspec

_FILE = "_retention.json"


class _Retention(msgspec.Struct, frozen=True):
    first: date


def retention_horizon(tables: Path) -> date | None:
    """Return the first day that is kept; None if no day was ever removed."""
    path = tables / _FILE
    return msgspec.json.decode(path.read_bytes(), type=_Retention).first if path.exists() else None


def raise_horizon(tables: Path, first: date) -> None:
    """Write the first day that is kept, atomically; an earlier one than before changes nothing."""
    known = retention_horizon(tables)
    if known is not None and first <= known:
        return
    partial = tables / f"{_FILE}.part"
    partial.write_bytes(msgspec.json.encode(_Retention(first)))
    partial.replace(tables / _FILE)
