"""The writer of the report: one HTML page, and each section's table as CSV and Parquet beside it.

The page's appendix holds the queries behind its numbers.

All text comes from clients in the end and is escaped. A CSV cell that a spreadsheet would take for
a formula gets an apostrophe in front, and invisible characters are shown by number. The Parquet
file keeps the original.
"""

import csv
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.report import COMPARE, SECTIONS, headline
from aggregation.spark.report.context import ReportContext
from aggregation.spark.report.plot import plain, readable, style, svg
from aggregation.spark.report.section import Key, Row, Rows, Section, cause_key, subject
from aggregation.spark.report.share import format_share
from aggregation.spark.session.session import small_queries
from metrics.exporters.points import printable
from metrics.model.status import BY_LABEL

PAGE = "report.html"
ROWS_SHOWN = 15
_AT_ONCE = 2
"""Queries that run at a time, while figures are drawn: planning leaves cores idle."""
_CELL_MAX_CHARS = 60
_EXACT_TO = 100.0
"""A larger number is shown without decimals; the files have them."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_template = Template((files(__package__) / "page.html").read_text(encoding="utf-8"))


def check_output(output: Path) -> None:
    """Check before the work that the output folder can be written to.

    Raises:
        SparkSetupError: it cannot.

    """
    place = next(place for place in (output, *output.absolute().parents) if place.exists())
    if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
        raise SparkSetupError(
            f"cannot write the report to {str(output)!r}: "
            f"{str(place)!r} is no folder that can be written to"
        )


def write_report(context: ReportContext, output: Path, notify: Callable[[str], None]) -> Path:
    """Compute and write everything; return the page's path. Files of the same name are replaced.

    Raises:
        SparkJobError: the folder cannot be written to.

    """
    tables: dict[str, Rows] = {}
    figures: dict[str, str] = {}
    sections = sections_of(context)
    with small_queries(context.spark), ThreadPoolExecutor(_AT_ONCE) as pool:
        frames = [context.run(section) for section in sections]
        for section, rows in zip(sections, pool.map(_collect, frames), strict=True):
            tables[section.name], figures[section.name] = rows, _figure(section, rows)
            notify(f"{len(tables)}/{len(sections)} {section.title}")
    schemas = {s.name: to_arrow_schema(f.schema) for s, f in zip(sections, frames, strict=True)}
    page = output / PAGE
    text = _page(tables, figures, context)
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, rows in tables.items():
            _write_tables(rows, schemas[name], output / name)
        page.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        place = str(error.filename or output)
        raise SparkJobError(f"cannot write the report to {place!r}: {error.strerror}") from error
    return page


def sections_of(context: ReportContext) -> Sequence[Section]:
    """Return the sections of a page in order."""
    first, *others = SECTIONS
    return [first, COMPARE, *others] if context.compared is not None else SECTIONS


def _collect(frame: DataFrame) -> Rows:
    return [_in_utc(row.asDict()) for row in frame.collect()]


def _in_utc(row: Row) -> Row:
    """Add the zone to instants: pyspark collects naive ones in the machine's zone."""
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def _write_tables(rows: Rows, schema: pa.Schema, stem: Path) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), stem.with_suffix(".parquet"))
    with stem.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(schema.names)
        writer.writerows([_csv_cell(row[name]) for name in schema.names] for row in rows)


def _csv_cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, str):
        text = printable(value)
        return f"'{text}" if value.startswith(_FORMULA) else text
    return value


def _page(tables: dict[str, Rows], figures: dict[str, str], context: ReportContext) -> str:
    lead = " ".join(headline.sentences(tables, context.period, context.by))
    sections = sections_of(context)
    return _template.substitute(
        title=escape(headline.title(tables, context.period, context.by)),
        lead=escape(lead),
        figures="".join(
            f'<li><a href="#{figure.section}"><b>{escape(figure.value)}</b></a>'
            f"{escape(figure.label)}</li>"
            for figure in headline.figures(tables)
        ),
        contents="".join(
            f'<li><a href="#{section.name}">{escape(section.title)}</a></li>'
            for section in sections
        ),
        sections="".join(
            _section(section, figures[section.name], tables[section.name]) for section in sections
        ),
        queries="".join(
            f'<h3 id="query-{section.name}">{escape(section.title)}</h3>'
            f"<pre>{escape(context.query(section.query))}</pre>"
            for section in sections
        ),
    )


def _section(section: Section, figure: str, rows: Rows) -> str:
    if not rows:
        body = f'<p class="empty">{escape(section.empty)}</p>{_more(section, 0)}'
    else:
        body = figure + _table(rows) + _more(section, len(rows))
    return (
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2>'
        f'<p class="note">{escape(section.note)}</p>{body}</section>'
    )


def _figure(section: Section, rows: Rows) -> str:
    if not rows:
        return ""
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
    shown = [_visible_columns(row) for row in rows[:ROWS_SHOWN]]
    head = "".join(
        f"<th{_side([row[name] for row in shown])}>{escape(_heading(name))}</th>"
        for name in shown[0]
    )
    body = "".join(_table_row(row) for row in shown)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _visible_columns(row: Row) -> Row:
    """Return the visible part of a row: one name for cluster and group, words for codes."""
    named = next((name for name in ("group", "app") if name in row and "cluster" in row), None)
    unnamed = {name for name in row if not {f"{name}_name", f"{name}_label"} & set(row)}
    own = row if named is None else row | {named: subject(row)}
    left_out = set() if named is None else {"cluster"}
    return {name: value for name, value in own.items() if name in unnamed - left_out}


def _side(values: Sequence[Any]) -> str:
    """Return the class that aligns the heading of a column of numbers."""
    is_number = any(isinstance(value, (int, float)) for value in values)
    return ' class="number"' if is_number else ""


def _heading(column: str) -> str:
    """Name a column in words, with its unit in brackets."""
    return re.sub(
        r" s$", " (s)", column.removesuffix("_name").removesuffix("_label").replace("_", " ")
    )


def _table_row(row: Row) -> str:
    return f"<tr>{''.join(_cell(name, value) for name, value in row.items())}</tr>"


def _cell(name: str, value: Any) -> str:
    if name.endswith("_name"):
        return f'<td class="code">{_swatch(cause_key(BY_LABEL.get(value)))}</td>'
    if value is None:
        return '<td class="none">&ndash;</td>'
    if isinstance(value, str):
        short = escape(readable(value, _CELL_MAX_CHARS))
        return f'<td title="{escape(plain(value))}">{short}</td>'
    kind = "when" if isinstance(value, date) else "number"
    return f'<td class="{kind}">{escape(_format_value(name, value))}</td>'


def _format_value(name: str, value: float | date) -> str:
    match value:
        case float() if name.startswith("share"):
            return format_share(value)
        case float() if name.endswith("change"):
            return f"{100 * value:+,.0f} %"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= _EXACT_TO else f"{value:,.3f}"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case date():
            return str(value)


def _more(section: Section, rows: int) -> str:
    shown = f"{ROWS_SHOWN} of {rows:,} rows; all of them: " if rows > ROWS_SHOWN else ""
    links = ", ".join(
        f'<a href="{section.name}.{kind}">{section.name}.{kind}</a>' for kind in ("csv", "parquet")
    )
    return f'<p class="more">{shown}{links}; <a href="#query-{section.name}">query</a></p>'
