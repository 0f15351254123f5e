"""Tables with columns of times and messages, as stores and spreadsheets export them.

Theory of operation. A first row with known names, as in exports of Kibana, Azure, Splunk and
Datadog, identifies a table. Any other table is identified by its cells: each row has the same
number, one column is a time in each row, the column with the longest text is the message, and
quotes are as in CSV. A table with tabs and a first row of names, or with a column of hosts, needs
no quotes.
"""

import contextlib
import csv
import io
import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from agent.sources.lines.fields.decoding import Json, decode
from agent.sources.lines.fields.entry_keys import MESSAGES, TIMES
from agent.sources.lines.fields.record_dumps import Split
from agent.sources.lines.times.timestamps import TimestampReader

_HEAD_BYTES = 1 << 16
_DELIMITERS = ",\t;"
_QUOTED = {each: re.compile(rf'(?:\A|[\n{each}])"'.encode()) for each in _DELIMITERS}
_ROWS = 50
"""Rows that show the columns of a table without known names."""
_ENOUGH_ROWS = 10
_STAMP_CHARS = 40
_CELL_MAX_CHARS = 1 << 30
"""More than any text that is held. A table ended at a cell of more than the default, 128 Ki."""
_STAMPS, _ANY_DAY = TimestampReader(None), 1.8e9
_EPOCH = re.compile(r"\d{10}(?:\d{3}){0,3}(?:\.\d{1,9})?", re.ASCII)
_TIME, _MESSAGE, _HOST = "time", "message", "pod"
_POD = re.compile(r"[a-z\d.-]{1,200}-[bcdf-hj-np-tv-xz2456789]{5}", re.ASCII)
"""Kubernetes ends such a name with letters that form no word."""
_MACHINE = re.compile(
    r"(?:\d{1,3}\.){3}\d{1,3}|ip(?:-\d{1,3}){4}(?:\.[\w.-]{1,200})?"
    r"|[\w.-]{1,200}\.(?:internal|local|localdomain|lan)",
    re.ASCII,
)
"""An address, or a name that clouds and private networks give: loggers' names have dots, too."""
_AROUND = re.compile(r"(?:_source|result|attributes|fields|jsonPayload|json|event|record)\.(?=\S)")
"""A store's object around an entry, before the name of a field: ``_source.message``."""
_HOSTS = frozenset(
    ("pod", "pod name", "instance", "instance id", "host", "host name", "hostname", "server",
     "machine", "container", "container name", "task", "replica", "dyno", "computer")
)  # fmt: skip


def find_table(text: bytes) -> Split | None:
    """Return the splitter of a table; None for any other text."""
    if (named := find_named_table(text)) is not None:
        return named
    found = _find_columns(text)
    if found is None:
        return None
    delimiter, names, has_head = found
    return partial(_split_table, delimiter=delimiter, names=names, has_head=has_head)


def find_names(text: bytes) -> tuple[bytes, bytes] | None:
    """Return a row of names for a table whose cells show them, and its rows; None without one."""
    found = _find_columns(text)
    if found is None:
        return None
    delimiter, names, has_head = found
    row = io.StringIO()
    csv.writer(row, delimiter=delimiter, lineterminator="\n").writerow(names)
    return row.getvalue().encode(), text.partition(b"\n")[2] if has_head else text


def _find_columns(text: bytes) -> tuple[str, list[str], bool] | None:
    """Return a table's delimiter, its columns by their cells, and whether it has a row of names."""
    for delimiter in _DELIMITERS:
        names, has_head = _name_columns(text[:_HEAD_BYTES], delimiter)
        is_tabbed = (
            has_head
            if delimiter == ";"
            else delimiter == "\t" and (has_head or _has_pod(text, names))
        )
        if names and (is_tabbed or _QUOTED[delimiter].search(text) is not None):
            return delimiter, names, has_head
    return None


def _has_pod(text: bytes, names: list[str]) -> bool:
    """Return whether a row without a head names a pod; a machine has many."""
    cells = text.partition(b"\n")[0].decode(errors="replace").split("\t")
    return _HOST in names and _POD.fullmatch(cells[names.index(_HOST)]) is not None


def find_named_table(text: bytes) -> Split | None:
    """Return the splitter of a table whose first row has known names; None for any other text."""
    head = text[:_HEAD_BYTES]
    for delimiter in _DELIMITERS:
        with contextlib.suppress(csv.Error):
            if _has_known_names(head, delimiter):
                return partial(_split_table, delimiter=delimiter, names=None)
    return None


def _has_known_names(head: bytes, delimiter: str) -> bool:
    """Return whether a head names columns of times and messages, and a row has as many."""
    rows = _read_rows(head, delimiter)
    first, row = next(rows, []), next(rows, [])
    names = {_read_name(name) for name in first}
    if "Date and Time" in names:  # Windows' Event Viewer, whose message has no column's name
        return True
    is_known = not names.isdisjoint(TIMES) and not names.isdisjoint(MESSAGES)
    return is_known and len(row) == len(first)


def _name_columns(head: bytes, delimiter: str) -> tuple[list[str], bool]:
    """Return column names by the cells, and whether the first row has names.

    The list is empty if the text is no table.
    """
    rows = _read_first_rows(head, delimiter)
    if not rows:
        return [], False
    columns = list(zip(*rows[1:], strict=True))
    is_dated = [all(map(_is_stamp, cells)) for cells in columns]
    texts = [number for number, each in enumerate(is_dated) if not each]
    if not texts or not any(is_dated):
        return [], False
    dated = is_dated.index(True)
    has_head = not _is_stamp(rows[0][dated])
    heads = rows[0] if has_head else [""] * len(columns)
    names = [_name(_read_name(name)) or str(number) for number, name in enumerate(heads)]
    known = [number for number in texts if names[number] in MESSAGES]
    hosts = (
        number
        for name in (_POD, _MACHINE)
        for number in texts
        if all(map(name.fullmatch, columns[number]))
    )
    if not has_head and (host := next(hosts, None)) is not None:
        names[host] = _HOST
    names[dated] = _TIME
    names[max(known or texts, key=lambda number: sum(map(len, columns[number])))] = _MESSAGE
    return names, has_head


def _read_name(head: str) -> str:
    """Return a column's name without its zone, and without the store's object around its field."""
    return _AROUND.sub("", head.partition(" [UTC]")[0].strip())


def _name(head: str) -> str:
    """Return a column's name; that of a host as the stores write it."""
    return _HOST if head.lower().replace("_", " ") in _HOSTS else head


def _read_first_rows(head: bytes, delimiter: str) -> list[list[str]]:
    """Return the first rows of a table; none of any other text."""
    rows: list[list[str]] = []
    if delimiter != "\t" and head[:1] in {b"{", b"[", b"<"}:
        return rows
    try:
        rows.extend(islice(filter(None, _read_rows(head, delimiter, strict=True)), _ROWS))
    except csv.Error:
        if len(rows) < _ENOUGH_ROWS:  # else it is the last one, which is cut
            return []
    sizes = {len(row) for row in rows}
    return rows if len(rows) > 1 and len(sizes) == 1 and sizes != {1} else []


def _is_stamp(cell: str) -> bool:
    is_epoch = _EPOCH.fullmatch(cell) is not None
    return is_epoch or (len(cell) <= _STAMP_CHARS and _STAMPS.find(cell, _ANY_DAY) is not None)


def _read_rows(text: bytes, delimiter: str, *, strict: bool = False) -> Iterator[list[str]]:
    csv.field_size_limit(_CELL_MAX_CHARS)
    file = io.StringIO(text.decode(errors="replace"), newline="")
    return csv.reader(file, delimiter=delimiter, strict=strict)


def _split_table(
    data: bytes, delimiter: str, names: list[str] | None, *, has_head: bool = False
) -> Iterator[Any]:
    """Yield the rows as objects; without ``names`` the first row has the names.

    With ``has_head`` the first row has other names, and is left out.
    """
    csv.field_size_limit(_CELL_MAX_CHARS)
    file = io.StringIO(data.decode(errors="replace"), newline="")
    rows = csv.DictReader(file, names, delimiter=delimiter)
    try:
        for row in islice(rows, int(has_head), None):
            cells = dict(
                _read_cell(name, value)
                for name, value in row.items()
                if isinstance(name, str) and isinstance(value, str)
            )
            if isinstance(rest := row.get(None), list) and rest:
                cells[_MESSAGE] = rest[0]
            if "host" not in cells and "source" in cells:  # Graylog's
                cells["host"] = cells["source"]
            yield cells
    except csv.Error:
        return


def _read_cell(name: str, value: str) -> tuple[str, str | Json]:
    """Return a cell as the store's JSON has it: Azure's zone, Grafana's labels."""
    _, zone, _ = name.partition(" [UTC]")
    name = _read_name(name)
    if zone:
        return name, f"{value} UTC"
    labels = decode(value) if name not in MESSAGES and value.startswith("{") else None
    return name, value if labels is None else labels
