"""Reports of many periods in one folder: a folder each, and an index of all of them.

The index is made of the folders that are there, so it needs no memory and survives removals.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from jinja2 import Environment

from aggregation.spark.errors import SparkJobError
from aggregation.spark.report.report import Report
from aggregation.spark.report.rules import FigureValues

INDEX = "index.html"
_NOTE = "summary.json"
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Rebalance reports</title>
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; }
td, th { text-align: left; padding: .3rem 1rem .3rem 0; vertical-align: top; }</style></head>
<body><h1>Rebalance reports</h1>
<table><thead><tr><th>first day</th><th>last day</th><th>by</th><th>verdict</th></tr></thead><tbody>
{% for folder, note in reports %}<tr><td>{{ note.first }}</td><td>{{ note.last }}</td>
<td>{{ note.by }}</td><td><a href="{{ folder }}/{{ note.page }}">{{ note.title }}</a></td></tr>
{% endfor %}</tbody></table></body></html>
"""


class _Summary(msgspec.Struct, frozen=True):
    """Facts of one report for the index."""

    title: str
    verdict: str
    first: str
    last: str
    by: str
    page: str
    figures: FigureValues


def dated_folder(output: Path, report: Report) -> Path:
    """Return the folder of a report's period; the same period replaces itself."""
    period = report.period
    name = f"{period.first}_{period.last}" if period.days > 1 else str(period.last)
    return output / (name if report.by == "group" else f"{name}_{report.by}")


def write_index(output: Path, report: Report, page: Path) -> Path:
    """Add a written report to the index of its history, the latest first; return its path.

    Raises:
        SparkJobError: the folder cannot be written to.

    """
    note = _Summary(
        title=report.title,
        verdict=report.verdict.value,
        first=str(report.period.first),
        last=str(report.period.last),
        by=report.by,
        page=page.name,
        figures=report.figure_values(),
    )
    index = output / INDEX
    try:
        (page.parent / _NOTE).write_bytes(msgspec.json.encode(note))
        reports = sorted(_notes(output), key=lambda each: (each[1].last, each[0]), reverse=True)
        template = Environment(autoescape=True).from_string(_PAGE)
        partial = index.with_suffix(".part")
        partial.write_text(template.render(reports=reports), encoding="utf-8")
        partial.replace(index)
    except OSError as error:
        raise SparkJobError(f"cannot write {str(index)!r}: {error.strerror}") from error
    return index


def _notes(output: Path) -> Iterator[tuple[str, _Summary]]:
    for path in output.glob(f"*/{_NOTE}"):
        try:
            yield path.parent.name, msgspec.json.decode(path.read_bytes(), type=_Summary)
        except msgspec.DecodeError:
            continue  # a file of somebody else
