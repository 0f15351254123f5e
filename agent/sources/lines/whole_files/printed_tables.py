r"""Tables that shells and clients of databases print: with bars, in columns, or one field a line.

Theory of operation. psql, mysql, ClickHouse, gcloud, ES|QL and Markdown draw bars between columns,
and a ruler below the names. With ``\x``, ``\G`` or ``Format-List`` a row is a record of several
lines, ``name: value``; it ends where a name repeats. Both become the rows of a CSV, whose reader
finds the columns of the times, the messages and the hosts (tables.py). A message may contain a bar:
the columns before and behind it are split off.

Sources: https://www.postgresql.org/docs/17/app-psql.html (``\pset format aligned``, ``expanded``),
https://clickhouse.com/docs/interfaces/formats (Pretty, Vertical).
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from agent.sources.lines.fields.colours import strip_colours
from agent.sources.lines.fields.entry_keys import MESSAGES
from agent.sources.lines.fields.record_dumps import Split
from agent.sources.lines.whole_files.tables import find_table

_HEAD_CHARS = 1 << 16
_BARS = "|\u2502\u2503\u2551"
_RULE = "-=:\u2500\u2501\u2550"
_RULER = re.compile(
    rf"[^\w\s]?(?=.{{0,64}}[{_RULE}]{{2}})[{_RULE} +|\u2501-\u257f]{{3,8192}}", re.ASCII
)
_NAMED_RULER = re.compile(r"\u250c\u2500+[^\u2500\u2510][^\n\u2510]{0,8192}\u2510\s*")
"""ClickHouse writes the names into the first ruler."""
_JOINT = re.compile(r"\u2500*\u252c\u2500*")
_ROWS = re.compile(r"\s*\(\d{1,19} rows?\)\s*|\d{1,19} rows in set.{0,64}", re.ASCII)
_LEAST_COLUMNS = 2
_GAPPED_RULER = re.compile(r"\s{0,8}-{2,8192}(?: {1,64}-{2,8192}){1,64}")
"""Of Azure's command line, bq, sqlite3 and PowerShell."""
_CAPITALS = re.compile(r"[A-Z][A-Z_]{1,63}(?: {2,8192}[A-Z][A-Z_]{1,63}){1,64}")
"""Names of gcloud's columns."""
_NAME = r"([A-Za-z_@][\w.@/-]{0,63}(?: [\w.@/-]{1,32}){0,3})"


class _FieldALine(NamedTuple):
    """Records of one tool, a field a line."""

    head: re.Pattern[str]
    """Matches the begin of the text."""
    between: re.Pattern[str]
    """Matches a line that is no field."""
    field: re.Pattern[str]


_FIELD_A_LINE = (
    _FieldALine(
        re.compile(r"-\[ RECORD \d+ \]-*"),
        re.compile(r"-\[ RECORD \d{1,19} \].*"),
        re.compile(rf"{_NAME}\s*\| (.*)"),
    ),
    _FieldALine(
        re.compile(r"\*{5,} \d+\. row \*{5,}"),
        re.compile(r"\*{5,64} \d{1,19}\. row \*{5,64}"),
        re.compile(rf"\s{{0,64}}{_NAME}: (.*)"),
    ),
    _FieldALine(
        re.compile(r"Row \d+:\s*\n[-\u2500]+"),
        re.compile(r"Row \d{1,19}:|[-\u2500]{2,64}"),
        re.compile(rf"{_NAME}: +(.*)"),
    ),
    _FieldALine(
        re.compile(r"-{10,}\s*\n\|\s+\w+\s+\|\s*\n[+|]"),
        re.compile(r"[-+|]{4,8192}|\|{1,3}\s+\w{1,64}\s+\|{1,3}"),
        re.compile(rf"\|{{1,3}}\s{{1,64}}{_NAME}\s{{0,64}}\|\s{{0,64}}(.*)"),
    ),
    _FieldALine(
        re.compile(r"(?:[A-Za-z_]\w{0,63} {1,64}: .*\n(?: {2,64}\S.*\n){0,64}){2,64}\n"),
        re.compile(r"\s*"),
        re.compile(rf"{_NAME}\s{{0,64}} : (.*)"),
    ),
)
"""psql, mysql, ClickHouse, the command line of AWS, and PowerShell."""
_CONTINUED = re.compile(r"\s{2,64}(\S.*)")
"""Rest of a value that PowerShell wrapped."""


def find_printed_table(head: bytes) -> Split | None:
    """Return the splitter of a printed table that a text begins with; None for any other text."""
    text = _decode(head[:_HEAD_CHARS])
    if text[:1] in {"{", "["}:
        return None
    form = next((each for each in _FIELD_A_LINE if each.head.match(text) is not None), None)
    forms = (
        (partial(_write_records, form=form),)
        if form is not None
        else (_write_drawn, _write_columns)
    )
    write = next((each for each in forms if find_table(each(text)) is not None), None)
    if write is None:
        return None

    def split(data: bytes) -> Iterator[Any]:
        table = write(_decode(data))
        rows = find_table(table)
        yield from () if rows is None else rows(table)

    return split


def _decode(data: bytes) -> str:
    return strip_colours(data.decode(errors="replace")).lstrip("\r\n")


def _write_csv(rows: Iterable[list[str]]) -> bytes:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return file.getvalue().encode(errors="replace")


def _write_records(text: str, form: _FieldALine) -> bytes:
    records: list[dict[str, list[str]]] = [{}]
    name = ""
    for line in text.splitlines():
        if form.between.fullmatch(line.strip()) is not None:
            continue
        field = form.field.fullmatch(line)
        if field is not None:
            name = field[1]
            if name in records[-1]:
                records.append({})
            records[-1][name] = [field[2].rstrip(" |" if line.startswith("|") else " ")]
        elif name and (rest := _CONTINUED.fullmatch(line)) is not None:
            records[-1][name].append(rest[1])
    names = list(records[0])
    rows = (["".join(each.get(name, ())) for name in names] for each in records)
    return _write_csv([names, *rows])


def _write_drawn(text: str) -> bytes:
    """Return the rows of a table with bars; nothing of any other text."""
    lines = text.splitlines()
    head, names, place = _find_names(lines[:3])
    if len(names) < _LEAST_COLUMNS:
        return b""
    bar = next((each for each in _BARS if each in head), "\u2502")
    widths = [len(cell) for cell in _split(head, bar)]
    known = [number for number, name in enumerate(names) if name in MESSAGES]
    message = known[0] if known else widths.index(max(widths))
    rows: list[tuple[list[str], list[str]]] = []
    for line in lines[place:]:
        cells = _read_row(line, bar, message, len(names))
        if len(cells) != len(names):
            continue
        if rows and not "".join((*cells[:message], *cells[message + 1 :])):  # a text goes on
            rows[-1][1].append(cells[message])
        else:
            rows.append((cells, [cells[message]]))
    whole = ([*row[:message], "\n".join(text), *row[message + 1 :]] for row, text in rows)
    return _write_csv([names, *whole])


def _write_columns(text: str) -> bytes:
    """Return the rows of a table whose columns are apart by blanks; nothing of any other text.

    A ruler below the names, or else names in capitals, show the begin of each column.
    """
    head, _, body = text.partition("\n")
    ruler, _, below = body.partition("\n")
    if _GAPPED_RULER.fullmatch(ruler.rstrip()) is not None:
        begins, body = [each.start() for each in re.finditer(r"-+", ruler)], below
    elif _CAPITALS.fullmatch(head.rstrip()) is not None:
        begins = [each.start() for each in re.finditer(r"\S+", head)]
    else:
        return b""
    places = list(zip(begins, [*begins[1:], None], strict=True))
    rows = ([line[begin:end].strip() for begin, end in places] for line in body.splitlines())
    return _write_csv([[head[begin:end].strip() for begin, end in places], *filter(any, rows)])


def _find_names(lines: list[str]) -> tuple[str, list[str], int]:
    """Return the row of names, the names, and the number of lines up to the first row."""
    for number, line in enumerate(lines):
        if _NAMED_RULER.fullmatch(line) is not None:
            names = [name.strip("\u2500") for name in _JOINT.split(line.strip()[1:-1])]
            return line.strip()[1:-1].replace("\u252c", "\u2502"), names, number + 1
        if number and _is_ruler(line) and not _is_ruler(lines[number - 1]):
            head = lines[number - 1]
            bar = next((each for each in _BARS if each in head), None)
            names = [] if bar is None else [cell.strip() for cell in _split(head, bar)]
            return head, names, number + 1
    return "", [], 0


def _is_ruler(line: str) -> bool:
    return _RULER.fullmatch(line.strip()) is not None


def _split(line: str, bar: str) -> list[str]:
    """Return the cells of a row, without the bars around it."""
    line = line.strip() if line.strip().startswith(bar) else line
    return line.removeprefix(bar).removesuffix(bar).split(bar)


def _read_row(line: str, bar: str, message: int, count: int) -> list[str]:
    """Return the cells of a row; only the message may have bars. Empty: no row."""
    if bar not in line or _is_ruler(line) or _ROWS.fullmatch(line) is not None:
        return []
    inner = line.strip() if line.strip().startswith(bar) else line
    inner = inner.removeprefix(bar).removesuffix(bar)
    *before, rest = inner.split(bar, message)
    first, *behind = rest.rsplit(bar, count - 1 - message)
    return [cell.strip() for cell in (*before, first, *behind)]
