"""The writer of the report: one page, and each section's table as CSV and Parquet beside it.

A CSV cell that a spreadsheet would take for a formula gets an apostrophe in front, and invisible
characters are shown by number. The Parquet file keeps the original.
"""

import csv
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.report.page import html_page
from aggregation.spark.report.report import Report
from aggregation.spark.report.section import Rows
from aggregation.spark.report.texts import json_text, mail, markdown
from metrics.model.names import printable

PAGE = "report.html"
MAIL = "summary.eml"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Format(StrEnum):
    """The format of the page."""

    HTML = "html"
    MARKDOWN = "markdown"
    JSON = "json"


_WRITERS: Mapping[Format, tuple[str, Callable[[Report], str]]] = {
    Format.HTML: (PAGE, html_page),
    Format.MARKDOWN: ("report.md", markdown),
    Format.JSON: ("report.json", json_text),
}


def check_output(output: Path) -> None:
    """Check before the work that the output folder can be written to.

    Raises:
        SparkSetupError: it cannot.

    """
    parents = (output, *output.absolute().parents)
    try:
        place = next(each for each in parents if each.is_symlink() or each.exists())
        is_usable = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    except OSError:  # a name that is too long, or a folder that this user may not enter
        place, is_usable = output, False
    if not is_usable:
        raise SparkSetupError(
            f"cannot write the report to {str(output)!r}: "
            f"{str(place)!r} is no folder that can be written to"
        )


def write_report(report: Report, output: Path, kind: Format = Format.HTML) -> Path:
    """Write everything; return the page's path.

    Files of the same name are replaced, once all are written: on a full disk they stay whole.

    Raises:
        SparkJobError: the folder cannot be written to.

    """
    name, write = _WRITERS[kind]
    text = write(report)
    try:
        output.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".report-", dir=output) as folder:
            new = Path(folder)
            for table, schema in report.schemas.items():
                _write_tables(report.tables[table], schema, new / table)
            (new / name).write_text(text, encoding="utf-8", errors="replace")
            (new / MAIL).write_bytes(mail(report))
            for path in new.iterdir():
                path.replace(output / path.name)
    except OSError as error:
        place, reason = str(error.filename2 or output), error.strerror or str(error)
        raise SparkJobError(f"cannot write the report to {place!r}: {reason}") from error
    return output / name


def _write_tables(rows: Rows, schema: pa.Schema, stem: Path) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), stem.with_suffix(".parquet"))
    with stem.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(schema.names)
        writer.writerows([_csv_cell(row[name]) for name in schema.names] for row in rows)


def _csv_cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, str):
        text = printable(value)
        return f"'{text}" if value.startswith(_FORMULA) else text
    return value
