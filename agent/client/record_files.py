"""Recorded samples of one group, from a spool, a file of JSON lines, tables, or an agent."""

import gzip
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from agent.errors import RecordsError, reason_of
from agent.extras import require_extra
from metrics.model.names import clip_name
from metrics.model.record_bounds import clip_record
from metrics.model.sample import (
    RECORD_MAX_BYTES,
    Sample,
    SampleKind,
    Scope,
    decode,
    format_time,
    parse_time,
)

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

STDIN = "-"
_AHEAD_S = 86_400.0
_LOOKS = 100
"""At a spool that is written meanwhile; files come and go once a second at most."""
RECORDS_MAX = 400_000
"""Records of one group that are held, some 1.6 KiB each; a packed file may have millions."""


@dataclass(slots=True)
class Found:
    """The records of one group, the names of the groups in the files, and the faults."""

    records: list[Sample]
    groups: set[str]
    malformed: int = 0
    """Lines that are no record."""
    first_malformed: str = ""
    """Where the first one is, and why it is none."""
    future: list[Sample] = field(default_factory=list)
    """Records of the group that a wrong clock has written; they are left out."""
    faults: list[str] = field(default_factory=list)
    """Faults of files. Records before a fault are among `records`."""
    older: int = 0
    """Records of the group that are left out, as there are `RECORDS_MAX` newer ones."""

    def add(self, record: Sample) -> None:
        """Add a record; of twice as many as may be, the older half is left out."""
        self.records.append(record)
        if len(self.records) >= 2 * RECORDS_MAX:
            self.records.sort(key=lambda each: each.ts)
            del self.records[:-RECORDS_MAX]
            self.older += RECORDS_MAX


def read_records(place: str, group: str) -> Found:
    """Read all records of a group from a folder of a spool or of tables, a file, or ``-``.

    One of more than a day ahead is left out, as by hub and ingest: it would be an incident under
    way until then. If all are ahead, this machine's own clock is behind, and none is.

    Raises:
        RecordsError: nothing is there.
        ConfigError: these are tables, and the extra `spark` is not installed.

    """
    found = _read(place, group)
    latest = time.time() + _AHEAD_S
    ahead = [each for each in found.records if parse_time(each.ts) > latest]
    if len(ahead) < len(found.records):
        found.future = ahead
        found.records = [each for each in found.records if parse_time(each.ts) <= latest]
    return found


def _read(place: str, group: str) -> Found:
    if place == STDIN:
        found = Found([], set())
        _take(_lines(sys.stdin.buffer), group, found, "stdin")
        return found
    path = Path(place)
    if path.is_file() or path.is_fifo():
        with suppress(FileNotFoundError):  # gone just now
            return _from_files([path], group)
    if (path / "transitions").is_dir():
        return _from_tables(path, group)
    if not path.is_dir():
        raise RecordsError(f"{place}: found no such file or folder")
    return _from_spool(path, group)


def _from_spool(path: Path, group: str) -> Found:
    """Read all files; once more if a file was published or deleted during the first reading."""
    for again in range(_LOOKS - 1, -1, -1):
        # in this order: a file that is published in between is then in both lists, never in none
        names = (".*.jsonl.part", "*.jsonl", "*.jsonl.gz")
        files = sorted([file for name in names for file in path.glob(name) if file.is_file()])
        if not files:
            break
        try:
            return _from_files(files, group)
        except FileNotFoundError as error:
            if not again:
                raise RecordsError(f"{path}: {reason_of(error)}") from error
    raise RecordsError(f"{path}: found no *.jsonl of a spool and no tables in it")


def _from_files(paths: Iterable[Path], group: str) -> Found:
    found = Found([], set())
    for path in paths:
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                _take(_lines(file), group, found, str(path))
        except FileNotFoundError:
            raise
        except (OSError, EOFError, zlib.error) as error:
            found.faults.append(f"{path}: {reason_of(error)}")
    return found


def _lines(file: BufferedIOBase | BinaryIO) -> Iterator[bytes]:
    """Yield the lines; of a longer one than a record may be, the begin."""
    while line := file.readline(RECORD_MAX_BYTES + 1):
        yield line
        while line and not line.endswith(b"\n"):
            line = file.readline(RECORD_MAX_BYTES + 1)


def _take(lines: Iterable[bytes], group: str, found: Found, place: str) -> None:
    for number, line in enumerate(lines, start=1):
        try:
            record = decode(line)
        except ValueError as error:
            found.malformed += 1
            found.first_malformed = found.first_malformed or f"{place}, line {number}: {error}"
            continue
        found.groups.add(clip_name(record.group))
        if record.group == group or record.kind is SampleKind.AGENT:
            found.add(clip_record(record)[0])


def _from_tables(path: Path, group: str) -> Found:
    with require_extra("spark", str(path)):
        from pyarrow import ArrowException, dataset  # noqa: PLC0415 - an extra
    try:
        table = _open_table(path / "transitions")
        rows = table.to_table(filter=dataset.field("group") == group).to_pylist()
        groups = set(table.to_table(columns=["group"])["group"].drop_null().unique().to_pylist())
        found = Found([], groups, faults=_find_broken(table, path / "transitions"))
        times = [row["ts"] for row in rows if row["ts"] is not None]
        if times and (path / "samples").is_dir():
            rows += _last_samples(path / "samples", group, max(times))
    except (ArrowException, OSError, OverflowError) as error:  # a time after the year 9999
        reason = str(error).partition("\n")[0]
        raise RecordsError(f"{path}: {reason}") from error
    for row in rows:
        try:
            found.records.append(clip_record(_from_row(row))[0])
        except ValueError:  # msgspec's ValidationError, too
            found.malformed += 1
    return found


def _find_broken(table: "Dataset", path: Path) -> list[str]:
    """Return a fault for each Parquet file that the table leaves out, as it cannot be read."""
    read = {Path(file) for file in table.files}
    names = path.glob("**/[!._]*.parquet")
    broken = sorted(name for name in names if name not in read and _is_plain(name, path))
    return [f"{name}: is broken or no Parquet file" for name in broken]


def _is_plain(file: Path, path: Path) -> bool:
    """Return whether no folder of a file is one that readers pass over, such as a log's."""
    return not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)


def _open_table(path: Path) -> "Dataset":
    """Open a table; Delta and Iceberg have the day in the files, too."""
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import dataset  # noqa: PLC0415

    by_day = dataset.partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
    return dataset.dataset(path, format="parquet", partitioning=by_day, exclude_invalid_files=True)


def _last_samples(path: Path, group: str, since: datetime) -> Iterable[dict[str, object]]:
    """Return the last periodic samples since an instant: of each agent, and of each member.

    They show the agents that were alive, and the members of the group with their status.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import dataset  # noqa: PLC0415

    table = _open_table(path)
    is_later = (dataset.field("ts") >= since) & (dataset.field("day") >= since.date())
    last = table.to_table(columns=["agent", "ts"], filter=is_later)
    for row in last.group_by("agent").aggregate([("ts", "max")]).to_pylist():
        yield _PRESENCE | {"agent": row["agent"], "ts": row["ts_max"]}
    # a quiet group may have weeks of them: of all but the last ones, names and times alone
    of_group = is_later & (dataset.field("group") == group)
    times = table.to_table(columns=[*_MEMBER, "ts"], filter=of_group)
    latest = times.group_by(_MEMBER).aggregate([("ts", "max")])["ts_max"].unique()
    own = table.to_table(filter=of_group & dataset.field("ts").isin(latest)).sort_by("ts")
    numbered = own.append_column("number", pa.array(range(len(own)), pa.int64()))
    ends = numbered.group_by(_MEMBER).aggregate([("number", "max")])
    yield from own.take(ends["number_max"]).to_pylist()


_MEMBER = ["agent", "scope", "client_id", "host"]
_PRESENCE: dict[str, object] = {
    "id": "presence",
    "kind": SampleKind.AGENT,
    "cluster": "",
    "app": "",
    "group": "",
    "scope": Scope.APP,
    "source": "",
}


_COLUMNS = {field.encode_name for field in msgspec.structs.fields(Sample)}


def _from_row(row: dict[str, object]) -> Sample:
    known = {key: value for key, value in row.items() if key in _COLUMNS and value is not None}
    if isinstance(at := known.get("ts"), datetime):  # one without is refused below
        known["ts"] = format_time(at.timestamp())
    return decode(msgspec.json.encode(known))  # with the checks of a line
