"""The retention horizon of the tables: the first day that ``--keep-days`` has kept.

Theory of operation. Maintenance writes the horizon before it removes a day. It never moves back. So
an ingest without ``--keep-days`` knows it too. A late record of an earlier day does not enter
the tables, because its day would then look like a day with this one record.

A record that arrived in time may be removed with its day before a report has counted it. So the
number of records is kept of each day that was removed: two short numbers a day, for ever.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import msgspec

from aggregation.spark.tables.state_file import read_state, write_state

_FILE = "_retention.json"


class _Retention(msgspec.Struct, frozen=True):
    first: date
    removed: Mapping[str, Mapping[date, int]] = {}
    """Records of removed days, by table."""


_decoder = msgspec.json.Decoder(_Retention)
_REMEDY = (
    'restore it, or write {"first":"YYYY-MM-DD"} into it, the first day that --keep-days has kept: '
    "without it, late records of removed days would count"
)


def _read(tables: Path) -> _Retention | None:
    return read_state(tables / _FILE, _decoder, _REMEDY)


def _write(tables: Path, retention: _Retention) -> None:
    write_state(tables / _FILE, retention)


def retention_horizon(tables: Path) -> date | None:
    """Return the first day that is kept; None if no day was ever removed."""
    known = _read(tables)
    return None if known is None else known.first


def raise_horizon(tables: Path, first: date) -> None:
    """Write the first day that is kept, atomically; an earlier one than before changes nothing."""
    known = _read(tables) or _Retention(date.min)
    if first > known.first:
        _write(tables, msgspec.structs.replace(known, first=first))


def keep_removed(tables: Path, table: str, counts: Mapping[date, int]) -> None:
    """Write how many records of some days a table has, before these days are removed from it.

    A removal that a kill has interrupted counts the same records again, once. The horizon is
    written before.
    """
    known = _read(tables) or _Retention(date.min)
    of_table = {**known.removed.get(table, {}), **counts}
    _write(tables, msgspec.structs.replace(known, removed={**known.removed, table: of_table}))


def removed_records(tables: Path) -> Mapping[date, int]:
    """Return the number of records that removed days had in all tables."""
    known, found = _read(tables), Counter[date]()
    for counts in known.removed.values() if known else ():
        found.update(counts)
    return found
