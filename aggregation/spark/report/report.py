"""The content of a report: its tables, its news and its verdict, apart from any format."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from aggregation.spark.report import COMPARE, SECTIONS, headline
from aggregation.spark.report.compare import compare_rates, count_observed
from aggregation.spark.report.context import ReportContext
from aggregation.spark.report.headline import Direction, Figure, Sentence
from aggregation.spark.report.news import News, find_news, find_observed, news_rows
from aggregation.spark.report.objectives import Objective, objective_rows
from aggregation.spark.report.proposals import (
    CHANGES,
    FACTS,
    SHOWN,
    Proposal,
    Propose,
    change_rows,
)
from aggregation.spark.report.rules import FigureValues
from aggregation.spark.report.section import Mark, Row, Rows, Section
from aggregation.spark.session.session import small_queries
from aggregation.spark.tables.period import Period

_AT_ONCE = 2
"""Queries that run at a time: planning leaves cores idle."""
_NUMBER = pa.float64()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that a reader gets, whatever the format."""

    period: Period
    by: str
    zone: str
    sections: Sequence[Section]
    tables: Mapping[str, Rows]
    schemas: Mapping[str, pa.Schema]
    queries: Mapping[str, str]
    """SQL of each section."""
    news: Sequence[News]
    proposals: Sequence[Proposal]
    """Those of all groups, the most useful first."""
    days_without: int = 0
    """Days of the period without a record of any agent."""

    @property
    def title(self) -> str:
        """The verdict in one sentence."""
        return headline.title(self.tables, self.period, self.by, self.news)

    @property
    def verdict(self) -> Direction:
        """Better, worse, the same, or quiet."""
        return headline.verdict(self.tables, self.news)

    @property
    def results(self) -> list[Sentence]:
        """The most important results, each with the section of its rows."""
        tables, news = self.tables, self.news
        return headline.sentences(tables, self.period, self.by, news, self.days_without)

    @property
    def sentences(self) -> list[str]:
        """The most important results."""
        return [result.text for result in self.results]

    @property
    def figures(self) -> list[Figure]:
        """The numbers on top."""
        return headline.figures(self.tables)

    @property
    def worst(self) -> Rows:
        """The groups that cost most."""
        return headline.worst_groups(self.tables)

    @property
    def first_proposals(self) -> Sequence[Proposal]:
        """The proposals of the first screen."""
        return self.proposals[:SHOWN]

    @property
    def marks(self) -> list[Mark]:
        """Marks for the plots: changes of rates, settings and versions, and annotations."""
        found = [Mark(each.since, _mark_text(each)) for each in self.news]
        found += [
            Mark(row["day"], row["last_reason"] or "annotation")
            for row in self.tables["daily"]
            if row["what"] == "annotation"
        ]
        return sorted(dict.fromkeys(found), key=lambda mark: mark.day)

    def figure_values(self) -> FigureValues:
        """Return the numbers that rules can ask for, by name; None: no source shows it."""
        rows = self.tables["groups"]
        unplanned = headline.count_incidents(self.tables, "unplanned")
        values: FigureValues = {
            "incidents": headline.count_incidents(self.tables),
            "unplanned": unplanned,
            "planned": headline.count_incidents(self.tables) - unplanned,
            "rebalances": sum(row["rebalances"] for row in rows),
            "unread_s": headline.sum_known(rows, "unread_s"),
            "unplanned_unread_s": headline.sum_known(rows, "unplanned_unread_s"),
            "lost_s": sum(row["lost_s"] for row in rows),
            "storms": len(self.tables["storms"]),
            "faults": headline.faults(self.tables),
            "worse": sum(each.what == "rose" and each.plan == "unplanned" for each in self.news),
            "slo_missed": sum(row["met"] is False for row in self.tables["slo"]),
        }
        for row in self.tables["kinds"]:
            values[row["kind"]] = (values.get(row["kind"]) or 0) + row["incidents"]
        return values


def _mark_text(news: News) -> str:
    name = "all groups" if news.name is None else headline.subject_of(news)
    return f"{news.kind or ('incidents' if news.plan else '')} {news.what}: {name}".strip()


def build_report(
    context: ReportContext,
    notify: Callable[[str], None],
    objectives: Sequence[Objective] = (),
    propose: Propose | None = None,
) -> Report:
    """Compute all tables of a report."""
    tables: dict[str, Rows] = {}
    sections = sections_of(context)
    with small_queries(context.spark), ThreadPoolExecutor(_AT_ONCE) as pool:
        frames = [context.run(section) for section in sections]
        found = pool.map(partial(_collect, zone=ZoneInfo(context.zone)), frames)
        for section, rows in zip(sections, found, strict=True):
            tables[section.name] = rows
            notify(f"{len(tables)}/{len(sections)} {section.title}")
    schemas = {s.name: to_arrow_schema(f.schema) for s, f in zip(sections, frames, strict=True)}
    if context.compared is not None:
        periods = context.period, context.compared
        days, days_before = (count_days(context.days, each) for each in periods)
        spans = find_observed(tables["daily"], context.by)
        observed = count_observed(spans, context.days, *periods)
        rows = tables["compare"]
        tables["compare"] = compare_rates(rows, days, days_before, context.by, observed)
    news = find_news(tables["daily"], context.days, context.period, context.by)
    tables["news"] = news_rows(news, context.by)
    tables["slo"] = objective_rows(objectives, tables, context.period, context.by)
    proposals = _find_proposals(context, propose)
    context.check_rollups()
    tables["changes"] = change_rows(proposals)
    own = {"news": _news_schema(context.by), "slo": _slo_schema(context.by), "changes": CHANGES}
    return Report(
        period=context.period,
        by=context.by,
        zone=context.zone,
        sections=sections,
        tables=tables,
        schemas=schemas | own,
        queries={section.name: context.query(section.query) for section in sections},
        news=news,
        proposals=proposals,
        days_without=context.period.days - count_days(context.days, context.period),
    )


def count_days(days: Sequence[date], period: Period) -> int:
    """Count the days of a period that have records."""
    return sum(period.first <= day <= period.last for day in days)


def _find_proposals(context: ReportContext, propose: Propose | None) -> Sequence[Proposal]:
    if propose is None:
        return []
    with small_queries(context.spark):
        rows = _collect(context.spark.sql(context.query(FACTS)), ZoneInfo(context.zone))
    return propose(rows, context.period.days)


def sections_of(context: ReportContext) -> Sequence[Section]:
    """Return the sections of a page in order."""
    if context.compared is None:
        return SECTIONS
    first, second, *others = SECTIONS
    return [first, second, COMPARE, *others]


def _collect(frame: DataFrame, zone: ZoneInfo) -> Rows:
    return [in_zone(row.asDict(), zone) for row in frame.collect()]


def in_zone(row: Row, zone: ZoneInfo) -> Row:
    """Put instants into the report's zone: pyspark collects naive ones in the machine's zone."""
    return {
        name: value.astimezone(zone) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def _news_schema(by: str) -> pa.Schema:
    texts = dict.fromkeys(("what", "cluster", by, "kind", "plan", "changed_then"), pa.string())
    rates = ("before_a_day", "after_a_day", "lost_before_s", "lost_after_s", "p_value")
    types = texts | {"since": pa.date32()} | dict.fromkeys(rates, _NUMBER)
    order = ("what", "since", "cluster", by, "kind", "plan", *rates, "changed_then")
    return pa.schema([(name, types[name]) for name in order])


def _slo_schema(by: str) -> pa.Schema:
    numbers = ("target", "level", "budget_s", "unread_s")
    return pa.schema(
        [
            ("cluster", pa.string()),
            (by, pa.string()),
            *((name, _NUMBER) for name in numbers),
            ("unread_at_least", pa.bool_()),
            ("budget_used", _NUMBER),
            ("met", pa.bool_()),
        ]
    )
