"""Tables that shells and clients of databases print: two replicas, and their times."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from agent.sources.lines.whole_files.documents import find_form, to_lines
from agent.sources.lines.whole_files.printed_tables import find_printed_table
from tests.agent.sources.lines.test_origins_of_stores import replicas
from tests.agent.sources.lines.test_posted_forms import EVENTS, WANTED, log4j, replay

PODS = {1: "pay-7d9f8b6c5-abcde", 2: "pay-7d9f8b6c5-fghij"}
Row = tuple[str, str, str]
NAMES: Row = ("ts", "pod", "message")


def stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def drawn(rows: list[Row], edge: str, middle: str, bars: tuple[str, str]) -> list[str]:
    """Return the names, a ruler and the rows of a table, in columns of equal width."""
    widths = [max(map(len, column)) for column in zip(NAMES, *rows, strict=True)]
    first, last = bars
    lines = [
        first + middle.join(f" {c:<{w}} " for c, w in zip(row, widths, strict=True)) + last
        for row in (NAMES, *rows)
    ]
    return [lines[0], edge + "+".join("-" * (w + 2) for w in widths) + edge, *lines[1:]]


def boxed(table: list[str]) -> str:
    """Return a table with its ruler above and below."""
    return "\n".join((table[1], *table, table[1], ""))


def of_clickhouse(rows: list[Row]) -> str:
    inner = "".join("\u2502 " + " \u2502 ".join(row) + " \u2502\n" for row in rows)
    names = "\u2500\u252c\u2500".join(NAMES)
    return f"\u250c\u2500{names}\u2500\u2510\n{inner}\u2514\u2500\u2518\n"


def records(head: str, field: Callable[[str, str], str]) -> Callable[[list[Row]], str]:
    return lambda rows: "".join(
        head.format(number)
        + "".join(f"{field(name, cell)}\n" for name, cell in zip(NAMES, row, strict=True))
        for number, row in enumerate(rows, 1)
    )


def in_columns(rows: list[Row], gap: str, names: Row = NAMES, *, is_ruled: bool = True) -> str:
    """Return a table whose columns are apart by blanks."""
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    ruler = [tuple("-" * width for width in widths)] if is_ruled else []
    return "".join(
        gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n"
        for row in (names, *ruler, *rows)
    )


TABLES: dict[str, Callable[[list[Row]], str]] = {
    "psql": lambda rows: "\n".join((*drawn(rows, "", "|", ("", "")), f"({len(rows)} rows)", "")),
    "mysql and gcloud": lambda rows: boxed(drawn(rows, "+", "|", ("|", "|"))),
    "Markdown": lambda rows: "".join(
        f"| {' | '.join(row)} |\n" for row in (NAMES, ("---", "---", "---"), *rows)
    ),
    "ES|QL": lambda rows: "\n".join(
        ("|".join(NAMES), "-----+-----+-----", *("|".join(row) for row in rows), "")
    ),
    "ClickHouse": of_clickhouse,
    "psql, expanded": records("-[ RECORD {} ]----\n", lambda name, cell: f"{name:<8}| {cell}"),
    "mysql, vertical": records(
        f"{'*' * 20} {{}}. row {'*' * 20}\n", lambda name, cell: f"{name:>8}: {cell}"
    ),
    "ClickHouse, vertical": records(
        "Row {}:\n\u2500\u2500\u2500\u2500\u2500\n", lambda name, cell: f"{name + ':':<9} {cell}"
    ),
    "az -o table, bq --format=sparse, sqlite3 -column": lambda rows: in_columns(rows, "  "),
    "PowerShell's Format-Table": lambda rows: in_columns(rows, " "),
    "gcloud --format=table": lambda rows: in_columns(
        rows, "  ", ("TIMESTAMP", "POD_NAME", "TEXT_PAYLOAD"), is_ruled=False
    ),
    "PowerShell": records("\n", lambda name, cell: f"{name:<8} : {cell}"),
    "the command line of AWS": lambda rows: (
        f"{'-' * 40}\n|  FilterLogEvents  |\n+{'-' * 38}+\n"
        + records(
            "||  events  ||\n|+----+----+|\n", lambda name, cell: f"||  {name:<8} |  {cell}  ||"
        )(rows)
    ),
}
BEHIND = " | 53 - o.a.k.clients - 3.9.0 | "
"""Bars of a layout such as Karaf's: they are no columns."""


def write(table: str, behind: str = "") -> str:
    rows = [
        (
            stamp(EVENTS[index][0] + timedelta(seconds=0.2 * n)),
            PODS[n],
            log4j(EVENTS[index][0] + timedelta(seconds=0.2 * n), f"{behind}{text}"),
        )
        for index, _, text, n in replicas()
    ]
    return TABLES[table](rows)


@pytest.mark.parametrize("behind", ["", BEHIND])
@pytest.mark.parametrize("table", TABLES)
def test_replicas_in_a_printed_table_are_told_apart(
    table: str, behind: str, tmp_path: Path
) -> None:
    moves, hosts = replay(write(table, behind), tmp_path)[:2]

    assert sorted(moves) == sorted(WANTED * 2), hosts


@pytest.mark.parametrize("table", TABLES)
def test_printed_table_is_one_object_a_row(table: str) -> None:
    text = write(table).encode()
    split = find_form(text)
    assert split is not None

    assert len(to_lines(split, text)) == len(replicas())


@pytest.mark.parametrize(
    "text",
    [
        "a | b\n-----\n",
        "Title\n-----\n2026-11-20 13:20:05 text\n",
        "+---+---+\n",
        "| | |\n|---|---|\n",
        "-[ RECORD 1 ]-\n",
        "Row 1:\n\u2500\u2500\n",
        "name : value\nother : value\n\n",
        "{",
    ],
)
def test_other_text_is_no_table(text: str) -> None:
    assert find_printed_table(text.encode()) is None
