"""Writes the report: one HTML page, and each section's table as CSV and Parquet beside it.

All text comes from clients in the end and is escaped; a cell of the CSV that a spreadsheet would
take for a formula gets an apostrophe in front (the Parquet file has it as it was).
"""

import csv
from collections.abc import Callable
from datetime import date, datetime
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.report import SECTIONS, headline
from aggregation.spark.report.facts import Facts
from aggregation.spark.report.plot import plain, readable, style, svg
from aggregation.spark.report.section import Key, Row, Rows, Section, cause_key
from metrics.status import BY_LABEL

PAGE = "report.html"
ROWS_SHOWN = 15
_CELL_MAX_CHARS = 60
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_template = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


def write_report(facts: Facts, output: Path, say: Callable[[str], None]) -> Path:
    """Compute and write everything; return the page's path. Older files of the same name go."""
    output.mkdir(parents=True, exist_ok=True)
    tables: dict[str, Rows] = {}
    for number, section in enumerate(SECTIONS, 1):
        say(f"{number}/{len(SECTIONS)} {section.title}")
        frame = section.table(facts)
        tables[section.name] = [row.asDict() for row in frame.collect()]
        _write_tables(tables[section.name], to_arrow_schema(frame.schema), output / section.name)
    page = output / PAGE
    page.write_text(_page(tables, facts), encoding="utf-8", errors="replace")
    return page


def _write_tables(rows: Rows, schema: pa.Schema, stem: Path) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), stem.with_suffix(".parquet"))
    with stem.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(schema.names)
        writer.writerows([_csv_cell(row[name]) for name in schema.names] for row in rows)


def _csv_cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def _page(tables: dict[str, Rows], facts: Facts) -> str:
    lead = " ".join(headline.sentences(tables))
    return _template.substitute(
        title=escape(headline.title(tables, facts.period, facts.by)),
        lead=escape(lead),
        figures="".join(
            f"<li><b>{escape(figure.value)}</b>{escape(figure.label)}</li>"
            for figure in headline.figures(tables)
        ),
        contents="".join(
            f'<li><a href="#{section.name}">{escape(section.title)}</a></li>'
            for section in SECTIONS
        ),
        sections="".join(_section(section, tables[section.name]) for section in SECTIONS),
    )


def _section(section: Section, rows: Rows) -> str:
    if not rows:
        body = f'<p class="empty">{escape(section.empty)}</p>'
    else:
        body = _figure(section, rows) + _table(rows) + _more(section, len(rows))
    return (
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2>'
        f'<p class="note">{escape(section.note)}</p>{body}</section>'
    )


def _figure(section: Section, rows: Rows) -> str:
    with style(section.name):
        chart = section.chart(rows)
        if chart is None:
            return ""
        drawing = svg(chart.figure, section.name, plain(chart.alt))
    legend = "".join(f"<li>{_swatch(key)}</li>" for key in chart.legend)
    return f'<figure>{drawing}<ul class="legend">{legend}</ul></figure>'


def _swatch(key: Key) -> str:
    return f'<i style="background:{key.colour}"></i>{escape(key.label)}'


def _table(rows: Rows) -> str:
    names = list(rows[0])
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in names)
    body = "".join(_table_row(row) for row in rows[:ROWS_SHOWN])
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _table_row(row: Row) -> str:
    return f"<tr>{''.join(_cell(name, value) for name, value in row.items())}</tr>"


def _cell(name: str, value: Any) -> str:
    if name.endswith("_name"):
        code = BY_LABEL.get(value)
        label = value or "not seen"
        return f"<td>{_swatch(Key(cause_key(code).colour, label))}</td>"
    match value:
        case None:
            return '<td class="none">&ndash;</td>'
        case int() | float():
            text = f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
            return f'<td class="number">{text}</td>'
        case datetime():
            return f'<td class="time">{value:%Y-%m-%d %H:%M:%S}</td>'
        case date():
            return f'<td class="time">{value}</td>'
        case _:
            text = str(value)
            return (
                f'<td title="{escape(plain(text))}">{escape(readable(text, _CELL_MAX_CHARS))}</td>'
            )


def _more(section: Section, rows: int) -> str:
    shown = f"{ROWS_SHOWN} of {rows:,} rows; all of them: " if rows > ROWS_SHOWN else ""
    links = ", ".join(
        f'<a href="{section.name}.{kind}">{section.name}.{kind}</a>' for kind in ("csv", "parquet")
    )
    return f'<p class="more">{shown}{links}</p>'
