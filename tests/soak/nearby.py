"""The context of a difference: the records of the process, and the lines of its DEBUG log.

A soak may run on a machine that keeps only the end of its output, and no folder.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.soak.debug_log import Line, read

_BEFORE_S, _BEHIND_S = 3.0, 1.0
_LINES = 40
_BODY = 160

Row = dict[str, Any]


def about(difference: Row, debug_log: Path, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the last `_LINES` records and log lines near a difference, in the order of time."""
    begin, end = difference["from"] - _BEFORE_S, difference["to"] + _BEHIND_S
    process = debug_log.name.removesuffix(".log.debug")
    got = [(seconds(row), _of_row(row, process)) for row in rows if _is_of(row, process)]
    got += [(line.at, _of_line(line, process)) for line in read(debug_log)]
    near = sorted(each for each in got if begin <= each[0] <= end)
    for at, text in near[-_LINES:]:
        yield f"{datetime.fromtimestamp(at, UTC):%H:%M:%S.%f} {text}"


def seconds(row: Row) -> float:
    """Return the time of a record (Unix seconds)."""
    return datetime.fromisoformat(row["ts"]).timestamp()


def _is_of(row: Row, process: str) -> bool:
    client_id = row["client_id"] or ""
    is_one = client_id == process or client_id.startswith(f"{process}-StreamThread-")
    return is_one and row["kind"] != "sample"


def _of_row(row: Row, process: str) -> str:
    who = f"{row['scope']} {_short(row['client_id'], process)}"
    return f"{row['kind']} of {who} {row['from']}>{row['to']} by {row['source']}: {row['reason']}"


def _of_line(line: Line, process: str) -> str:
    who = _short(line.client_id, process)
    return f"log of {who}: {line.what} {line.api} {line.number} {line.body[:_BODY]}"


def _short(client_id: str, process: str) -> str:
    return client_id.removeprefix(process) or process
