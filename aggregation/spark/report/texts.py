"""The report as Markdown, as JSON, and as a mail that is ready to send."""

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from email.message import EmailMessage
from email.policy import SMTP
from textwrap import indent
from typing import Any

import msgspec
from markupsafe import Markup

from aggregation.spark.report.headline import cost_of, count, format_days, is_at_least
from aggregation.spark.report.page import (
    NO_NEWS,
    cell_limit,
    format_value,
    heading_of,
    objective_words,
    visible_columns,
)
from aggregation.spark.report.plot import format_seconds, plain, readable
from aggregation.spark.report.proposals import Proposal, paste_text
from aggregation.spark.report.report import Report
from aggregation.spark.report.section import ROWS_SHOWN, Row, Rows, cause_key, subject
from metrics.model.names import escape_invisible
from metrics.model.sample import format_time
from metrics.model.status import BY_LABEL

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")
_ITEM = "   "
_OBJECTIVES = 5
"""In a mail; those that are missed come first."""
_SUBJECT_MAX_CHARS = 150
_LINE_MAX_CHARS = 200
"""A subject is one line: mail readers show a folded one with a space in front."""


def markdown(report: Report) -> str:
    """Return the report as Markdown: the first screen, and a table a section.

    Sections without rows are a line each.
    """
    parts = [f"# {_escape(report.title)}", _escape(" ".join(report.sentences)), *_first(report)]
    news = report.tables["news"]
    parts += ["## What changed", _table(news) if news else NO_NEWS]
    for section in report.sections:
        if section.rows_shown:
            rows = [row for row in report.tables[section.name] if section.speaks(row)]
            parts += [f"## {section.title}", _table(rows) if rows else section.empty]
    return "\n\n".join(parts) + "\n"


def _first(report: Report) -> list[str]:
    worst = [
        f"{n}. {_escape(readable(subject(row)))}: {cost_of(row)}, {row['unplanned']:,} unplanned "
        f"and {count(row['incidents'] - row['unplanned'], 'planned incident')}"
        for n, row in enumerate(report.worst, start=1)
    ]
    changes = [
        "\n".join([f"{n}. {_escape(describe_proposal(each))}", *_markdown_lines(each)])
        for n, each in enumerate(report.first_proposals, 1)
    ]
    objectives = [f"- {_escape(describe_objective(row))}" for row in report.tables["slo"]]
    return [
        *(["## Groups that cost most", "\n".join(worst)] if worst else []),
        *(["## Changes worth making", "\n".join(changes)] if changes else []),
        *(["## Objectives", "\n".join(objectives)] if objectives else []),
    ]


def describe_objective(row: Row) -> str:
    """Write whether a group kept its objective, and the numbers that decide."""
    shown = objective_words(row)
    numbers = (text for text in (shown["level"], shown["unread"]) if text)
    return ", ".join([f"{shown['name']}: {shown['met']}", *numbers])


def describe_proposal(change: Proposal) -> str:
    """Write a proposed change in one sentence."""
    return (
        f"{change.name}: {change.text}. {change.now_text and f'{change.now_text} '}"
        f"The price: {change.price}. Confidence: {change.confidence}."
    )


def _markdown_lines(change: Proposal) -> Iterator[str]:
    """Yield curve and lines to paste, indented as parts of an item of a list."""
    if len(change.steps) > 1:
        rows = [
            {
                "timeout": format_seconds(point.timeout_s),
                "rebalances avoided": point.rebalances_avoided,
                "unread avoided": _seconds_or_not(point.unread_avoided_s),
                "gone members noticed later by": format_seconds(point.later_s),
            }
            for point in change.steps
        ]
        yield indent(f"\n{_table(rows)}\n", _ITEM)
    if change.lines:
        yield indent(f"\n```\n{plain_lines(paste_text(change))}\n```\n", _ITEM)


def _seconds_or_not(seconds: float | None) -> str:
    return "not known" if seconds is None else format_seconds(seconds)


def plain_lines(text: str) -> str:
    """Return lines without control characters; none ends a block of code."""
    return "\n".join(plain(line).replace("```", '"') for line in text.splitlines())


def _table(rows: Rows) -> str:
    """Return rows as a table, with the names and units of the page."""
    shown = [visible_columns(row) for row in rows[:ROWS_SHOWN]]
    head = list(shown[0])
    lines = [[_escape(heading_of(name)) for name in head], ["---"] * len(head)]
    lines += [[_cell(name, row[name]) for name in head] for row in shown]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\n{ROWS_SHOWN} of {len(rows):,} rows" if len(rows) > ROWS_SHOWN else table


def _cell(name: str, value: Any) -> str:
    if name.endswith("_name"):
        return _escape(cause_key(BY_LABEL.get(value)).label)
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case str():
            return _escape(readable(value, cell_limit(name)))
    return _escape(format_value(name, value))


def _escape(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", plain(text))


def document(report: Report) -> dict[str, Any]:
    """Return the report as data; its keys stay."""
    return {
        "title": report.title,
        "verdict": report.verdict.value,
        "sentences": report.sentences,
        "first": str(report.period.first),
        "last": str(report.period.last),
        "timezone": report.zone,
        "by": report.by,
        "figures": report.figure_values(),
        "unread_at_least": is_at_least(report.tables["groups"]),
        "worst": [_plain_row(row) for row in report.worst],
        "proposals": [msgspec.to_builtins(each) for each in report.proposals],
        "slo": [_plain_row(row) for row in report.tables["slo"]],
        "news": [_plain_row(row) for row in report.tables["news"]],
        "sections": {
            section.name: [_plain_row(row) for row in report.tables[section.name]]
            for section in report.sections
        },
    }


def _plain_row(row: Row) -> Row:
    return {name: _plain_value(value) for name, value in row.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_time(value.timestamp())
    return str(value) if isinstance(value, date) else value


def json_text(report: Report) -> str:
    """Return the report as JSON."""
    text = escape_invisible(msgspec.json.encode(document(report)))
    return msgspec.json.format(text, indent=1).decode() + "\n"


class _Code(str):
    """Lines to paste, without control characters."""

    __slots__ = ()


class _Heading(str):
    """The begin of a part of the mail."""

    __slots__ = ()


def _part(heading: str, lines: Iterable[str]) -> list[str]:
    """Return lines below a heading; nothing without any."""
    found = list(lines)
    return ["", _Heading(heading), *found] if found else []


def _plain_text(line: str) -> str:
    return line if isinstance(line, _Code) else plain(line)


def _html(line: str) -> Markup:
    if isinstance(line, _Code):
        return Markup("<pre>{}</pre>").format(line)
    if isinstance(line, _Heading):
        return Markup("<h3>{}</h3>").format(line)
    return Markup("<p>{}</p>").format(plain(line))


def mail(report: Report) -> bytes:
    """Return a summary as a message with text and HTML; sender and recipients are yours to add."""
    lines = [
        report.title,
        "",
        *report.sentences,
        *_part(
            "Groups that cost most",
            (
                f"{n}. {readable(subject(row))}: {cost_of(row)}, {row['unplanned']:,} unplanned"
                for n, row in enumerate(report.worst, 1)
            ),
        ),
        *_part("Objectives", map(describe_objective, report.tables["slo"][:_OBJECTIVES])),
        *_part(
            "Changes worth making",
            (
                text
                for each in report.first_proposals
                for text in (describe_proposal(each), _Code(plain_lines(paste_text(each))))
            ),
        ),
        "",
        f"Kafka consumer group rebalances {format_days(report.period)} ({report.zone})",
    ]
    message = EmailMessage(policy=SMTP.clone(max_line_length=_LINE_MAX_CHARS))
    message["Subject"] = readable(report.title, _SUBJECT_MAX_CHARS)
    message.set_content("\n".join(map(_plain_text, lines)) + "\n")
    paragraphs = Markup().join(_html(line) for line in lines if line)
    message.add_alternative(f"<html><body>{paragraphs}</body></html>", subtype="html")
    return message.as_bytes()
