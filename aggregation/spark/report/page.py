"""The report as one HTML page; its first screen has verdict, groups, changes and objectives.

All text comes from clients in the end: Jinja2 escapes it, and control characters are replaced.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from aggregation.spark.report.headline import Sentence, cost_of, count, format_days, format_unread
from aggregation.spark.report.plot import format_seconds, plain, readable
from aggregation.spark.report.report import Report
from aggregation.spark.report.section import Key, Row, Rows, Section, cause_key, subject
from aggregation.spark.report.share import format_level, format_share
from metrics.model.status import BY_LABEL

_CELL_MAX_CHARS = 60
_LIST_MAX_CHARS = 600
_DASH = "\N{EN DASH}"
_EXACT_TO = 1000.0
"""A number from here on is shown without decimals; the files have them."""
_OBJECTIVES_SHOWN = 5
"""Those that are missed come first."""
_GROUP_COLUMNS = ("group", "app")
_NEWS_TITLE = "What changed"
NO_NEWS = "No rate changed by more than noise, and no group came or went."
_INCIDENTS = "incidents"
_ALL_INCIDENTS = "incidents.csv"
_GROUPS = "groups"
_ALL_GROUPS = "groups.csv"
_SHOWN_AS = {"observed_days": "days", "observed_days_before": "days_before"}
"""A group's own days, in the place of all days: a table has to fit a screen."""
_BOUNDS = {"unread_s": "unread_at_least", "unplanned_unread_s": "unplanned_unread_at_least"}
"""Columns with a sum that may be a lower bound, and the columns that mark it."""


class AtLeast(float):
    """A number that is a lower bound."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class _Cell:
    text: str
    kind: str = ""
    title: str = ""
    colour: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class _TableRow:
    cells: Sequence[_Cell]
    anchor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A section as the page shows it."""

    name: str
    title: str
    note: str
    empty: str
    figure: Markup
    columns: Sequence[_Column]
    rows: Sequence[_TableRow]
    more: str
    has_files: bool = False
    """The files have rows."""


@dataclass(frozen=True, slots=True)
class _Sources:
    """The rows behind a number: incidents, or the query over the tables."""

    of_group: Mapping[str, str]
    """The costliest incident of each group on the page, by the group's anchor."""
    of_kind: Mapping[tuple[str, str], str]
    """The costliest one of each kind and plan."""
    groups: frozenset[str]
    """Anchors of the groups that have a row of their own on the page."""

    @classmethod
    def of(cls, report: Report) -> "_Sources":
        """Collect the incidents that the page shows; the costliest come first."""
        limits = {each.name: each.rows_shown for each in report.sections}
        of_group: dict[str, str] = {}
        of_kind: dict[tuple[str, str], str] = {}
        for row in report.tables[_INCIDENTS][: limits[_INCIDENTS]]:
            place = f"#incident-{row['id']}"
            of_group.setdefault(anchor(row), place)
            of_kind.setdefault((row["kind"], row.get("plan") or ""), place)
        groups = frozenset(map(anchor, report.tables[_GROUPS][: limits[_GROUPS]]))
        return cls(of_group, of_kind, groups)

    def place_of(self, group: str) -> str:
        """Return the place of a group's row, by its anchor."""
        return f"#of-{group}" if group in self.groups else _ALL_GROUPS

    def link_of(self, section: str, row: Row) -> str:
        """Return the place of the rows that the numbers of a row count."""
        if section == _INCIDENTS:
            return ""  # they are the rows
        if any(row.get(name) for name in _GROUP_COLUMNS):
            return self.of_group.get(anchor(row), _ALL_INCIDENTS)
        if row.get("kind") and "plan" in row:
            return self.of_kind.get((row["kind"], row["plan"] or ""), _ALL_INCIDENTS)
        return "daily.csv" if section == "news" else f"#query-{section}"


def html_page(report: Report) -> str:
    """Return the whole page."""
    shown = [section for section in report.sections if section.rows_shown]
    sources = _Sources.of(report)
    titles = {section.name: section.title for section in report.sections} | {"news": _NEWS_TITLE}
    return _template().render(
        report=report,
        results=[_result(sentence, titles) for sentence in report.results],
        days=f"{format_days(report.period)} ({report.zone})",
        worst=[_worst(row) for row in report.worst],
        slo=[objective_words(row) for row in report.tables["slo"][:_OBJECTIVES_SHOWN]],
        kept=sum(row["met"] is True for row in report.tables["slo"]),
        missed=sum(row["met"] is False for row in report.tables["slo"]),
        news=_news(report, sources),
        parts=[_part(section, report, sources) for section in shown],
        queries=[(s.name, s.title, report.queries[s.name]) for s in report.sections],
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("aggregation.spark.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
    )
    environment.filters["seconds"] = format_seconds
    environment.filters["capital"] = lambda text: text[:1].upper() + text[1:]
    return environment.get_template("page.html")


def _result(sentence: Sentence, titles: Mapping[str, str]) -> Markup:
    """Return a sentence with a link to the rows of its numbers: its section's title.

    The link is that title within the sentence, or stands behind it.
    """
    title = titles[sentence.section]
    link = Markup('<a href="#{}">{}</a>').format(sentence.section, title)
    before, found, after = plain(sentence.text).partition(title)
    if not found:
        return Markup('{} <span class="rows">{}</span>').format(before, link)
    return Markup("{}{}{}").format(before, link, after)


def _finalize(value: Any) -> Any:
    """Replace characters that no page should hold in texts from outside."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def anchor(row: Row) -> str:
    """Return the id of a group's place on the page."""
    return sha256(subject(row).encode(errors="replace")).hexdigest()[:12]


def _worst(row: Row) -> dict[str, str]:
    return {
        "anchor": anchor(row),
        "name": readable(subject(row)),
        "cost": cost_of(row),
        "unplanned": f"{row['unplanned']:,}",
        "planned": count(row["incidents"] - row["unplanned"], "planned incident"),
    }


def objective_words(row: Row) -> dict[str, str]:
    """Write the numbers of an objective."""
    level, target, budget_s = row["level"], row["target"], row["budget_s"]
    unread = _budget_words(row)
    return {
        "name": readable(subject(row)),
        "level": "" if target is None else _level_words(level, target),
        "unread": "" if budget_s is None else unread,
        "met": {True: "met", False: "missed", None: "not known"}[row["met"]],
        "state": {True: "kept", False: "missed", None: "none"}[row["met"]],
    }


def _level_words(level: float | None, target: float) -> str:
    """Write a level beside its target."""
    if level is None:
        return f"time rebalancing not known, target {format_level(target)}"
    return f"{format_level(level, target)} not rebalancing of {format_level(target)}"


def _budget_words(row: Row) -> str:
    """Write an unread time beside its budget; in seconds if they would look alike."""
    unread_s, budget_s = row["unread_s"], row["budget_s"] or 0.0
    budget = format_seconds(budget_s)
    if unread_s is None:
        return f"unread time not known, budget {budget}"
    if format_seconds(unread_s) != budget or unread_s == budget_s:
        return f"{format_unread(row)} unread of {budget}"
    bound = "at least " if row["unread_at_least"] else ""
    return f"{bound}{unread_s:,.10g} s unread of {budget_s:,.10g} s"


def _news(report: Report, sources: _Sources) -> _Part:
    rows = report.tables["news"]
    limit = 20
    return _Part(
        name="news",
        title=_NEWS_TITLE,
        note="",
        empty=NO_NEWS,
        figure=Markup(),
        columns=_columns(rows[:limit]),
        rows=[_row(row, "news", sources) for row in rows[:limit]],
        more=_more(limit, len(rows)),
    )


def _part(section: Section, report: Report, sources: _Sources) -> _Part:
    rows = report.tables[section.name]
    spoken = [row for row in rows if section.speaks(row)]
    shown = spoken[: section.rows_shown]
    places: set[str] = set()
    return _Part(
        name=section.name,
        title=section.title,
        note=section.note,
        empty=section.empty,
        figure=_figure(section, rows, report),
        columns=_columns(shown),
        rows=[_row(row, section.name, sources, _place(section, row, places)) for row in shown],
        more=_more(len(shown), len(rows)),
        has_files=bool(rows),
    )


def _place(section: Section, row: Row, places: set[str]) -> str:
    """Return the anchor of a group's row: worst groups and incidents link to them."""
    if section.name != _GROUPS or anchor(row) in places:
        return f"incident-{row['id']}" if section.name == _INCIDENTS else ""
    places.add(anchor(row))
    return f"of-{anchor(row)}"


def _figure(section: Section, rows: Rows, report: Report) -> Markup:
    """Return a section's figure with its legend, or nothing."""
    draw = section.marked_chart
    chart = None if not rows else section.chart(rows) if draw is None else draw(rows, report.marks)
    if chart is None:
        return Markup()
    legend = Markup().join(_swatch(key) for key in chart.legend)
    notes = Markup().join(Markup("<li>{}</li>").format(readable(note, 120)) for note in chart.notes)
    marks = Markup('<ol class="marks">{}</ol>').format(notes) if chart.notes else Markup()
    return Markup(
        '<figure><div role="img" aria-label="{}">{}</div><ul class="legend">{}</ul>{}</figure>'
    ).format(plain(chart.alt), chart.figure, legend, marks)


def _swatch(key: Key) -> Markup:
    return Markup('<li><i style="background:{}"></i>{}</li>').format(key.colour, key.label)


def visible_columns(row: Row) -> Row:
    """Return the visible part of a row: one name for cluster and group, words for codes."""
    named = next((name for name in _GROUP_COLUMNS if name in row and "cluster" in row), None)
    unnamed = {name for name in row if not {f"{name}_name", f"{name}_label"} & set(row)}
    own = row
    if named is not None:
        own = row | {named: subject(row) if row[named] is not None else None}
    own = own | {shown: row[name] for name, shown in _SHOWN_AS.items() if name in row}
    left_out = {*_BOUNDS.values(), *_SHOWN_AS, *(() if named is None else ("cluster",))}
    own = own | {
        name: AtLeast(row[name])
        for name, bound in _BOUNDS.items()
        if row.get(bound) and row[name] is not None
    }
    return {name: value for name, value in own.items() if name in unnamed - left_out}


def _columns(rows: Rows) -> list[_Column]:
    visible = [visible_columns(row) for row in rows]
    return [
        _Column(heading_of(name), _is_numeric([row[name] for row in visible]))
        for name in (visible[0] if visible else ())
    ]


def _is_numeric(values: Sequence[Any]) -> bool:
    """Check whether a column has numbers: one in which nothing is known may have, too."""
    return any(map(_is_number, values)) or all(value is None for value in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def heading_of(column: str) -> str:
    """Name a column in words, with its unit in brackets."""
    name = column.removesuffix("_name").removesuffix("_label").removeprefix("is_")
    return re.sub(r" (s|h)$", r" (\1)", name.replace("_", " "))


def _row(row: Row, section: str, sources: _Sources, place: str = "") -> _TableRow:
    """Return a row of the page; its numbers link to their rows, its group to its own row."""
    own = anchor(row) if any(row.get(name) for name in _GROUP_COLUMNS) else ""
    link = "" if not own or place.startswith("of-") else sources.place_of(own)
    source = sources.link_of(section, row)
    return _TableRow(
        [_cell(name, value, link, source) for name, value in visible_columns(row).items()], place
    )


def _cell(name: str, value: Any, link: str, source: str) -> _Cell:
    if name.endswith("_name"):
        key = cause_key(BY_LABEL.get(value))
        return _Cell(key.label, "code", colour=key.colour)
    match value:
        case None:
            return _Cell(_DASH, "none")
        case bool():
            return _Cell("yes" if value else "no")
        case str():
            shown, whole = readable(value, cell_limit(name)), plain(value)
            kind, to = ("name", link) if name in _GROUP_COLUMNS else ("", "")
            kind = "long" if len(shown) > _CELL_MAX_CHARS else kind
            return _Cell(shown, kind, title=whole, link=to)
    if isinstance(value, date):
        return _Cell(format_value(name, value), "when")
    return _Cell(format_value(name, value), "number", link=source if value else "")


def cell_limit(name: str) -> int:
    """Return how many characters of a text a cell shows."""
    return _LIST_MAX_CHARS if name == "changed_then" else _CELL_MAX_CHARS


def format_value(name: str, value: float | date) -> str:
    """Write a number or a time of a column: a share and a change in per cent."""
    match value:
        case float() if name.startswith("share") or name == "target":
            return format_share(value)
        case float() if name.endswith("change"):
            return f"{round(100 * value):+,} %".replace("+0 %", "0 %")
        case int():
            return f"{value:,}"
        case float():
            bound = "at least " if isinstance(value, AtLeast) else ""
            return f"{bound}{format_number(value)}"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case date():
            return str(value)


def format_number(value: float) -> str:
    """Write a number with three significant digits, or as a whole one from a thousand on."""
    if abs(value) >= _EXACT_TO:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.1g}"


def _more(limit: int, rows: int) -> str:
    return f"{limit:,} of {rows:,} rows; all of them: " if rows > limit else ""
