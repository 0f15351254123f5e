"""Pages for people: the groups, one group, one incident. They work without a script.

A page is built and rendered in a thread, from a snapshot that was taken in the event loop. Jinja2
and the analysis are imported here, so an agent without visitors does not load them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.datastructures import QueryParams

from agent.hub.recent_records import RecentRecords
from agent.web.pages import timeline
from agent.web.pages.environment import link, render
from agent.web.pages.group import (
    MAX_NAMED,
    GroupQuery,
    UnknownGroupError,
    find_latest,
    group_content,
    incident_content,
)
from agent.web.pages.overview import MAX_CARDS, SHOWS, SORTS, OverviewQuery, overview
from aggregation.explain.incident_words import reason_of, summarize
from aggregation.incidents.answers import IncidentAnswer, WaitAnswer
from metrics.exporters.exposition import AgentStats, FileStats, SourceStats
from metrics.model.sample import Sample, SampleKind, format_time, parse_time
from metrics.model.snapshot import Snapshot
from metrics.model.status import BY_LABEL, RebalanceStatus

MAX_FILES = 500
"""Files of the first page; the API has the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The input of one page, at one instant."""

    snapshot: Snapshot
    stats: AgentStats
    telemetry_path: str
    version: int = 0
    """Number of records so far: `/live` reports later ones."""


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A page as HTML."""

    html: str
    status_code: int = 200
    location: str = ""
    """Of a redirection: the address of the page."""


def _files(sources: Iterable[SourceStats]) -> list[FileStats]:
    """Return the files of all sources, those without a member first: one must not hide another."""
    files = [file for source in sources for file in source.files or ()]
    return sorted(files, key=lambda file: (not file.is_blind, file.members > 0, file.path))


class Pages:
    """Builds pages; any thread may call it, one at a time."""

    def __init__(self, history: RecentRecords) -> None:
        """Show records."""
        self._history = history

    def overview(self, seen: Seen, given: QueryParams) -> HtmlPage:
        """Return the first page."""
        snapshot, sources = seen.snapshot, seen.stats.sources
        query = _overview_query(given)
        found = self._history.incidents.read(snapshot.at)
        content = overview(snapshot, {ref: each.incidents for ref, each in found.items()}, query)
        filters = (
            ("state", "State", query.state),
            ("group_type", "Type", query.group_type),
            ("cluster", "Cluster", query.cluster),
        )
        values = _frame(seen) | {
            "content": content,
            "sources": sources,
            "files": _files(sources),
            "blind": sum(file.is_blind for source in sources for file in source.files or ()),
            "max_files": MAX_FILES,
            "down": [source.name for source in sources if not source.up],
            "shows": SHOWS,
            "sorts": SORTS,
            "filters": filters,
            "max_cards": MAX_CARDS,
            "page_url": lambda page: link("./", **{**dict(given), "page": page}),
        }
        return HtmlPage(render("overview.html", values))

    def group(self, seen: Seen, given: QueryParams) -> HtmlPage:
        """Return the page of a group, or 404 for an unknown group."""
        query = GroupQuery(
            group=given.get("group", ""),
            cluster=given.get("cluster"),
            minutes=timeline.parse_minutes(given.get("minutes", "")),
            end_at=_parse_instant(given.get("end", "")),
            member=given.get("member", ""),
            page=_parse_page(given),
        )
        try:
            content = group_content(query, self._history, seen.snapshot)
        except UnknownGroupError as error:
            hint = "A group is known once a source sees a member of it, or its coordinator."
            return _missing(seen, error, hint, query.group)
        window, now = content.drawing.window, seen.snapshot.at
        half = (window.end_at - window.start_at) / 2
        url = partial(_url, "group", given)
        values = _frame(seen) | {
            "content": content,
            "windows": timeline.WINDOWS_MIN,
            "url": url,
            "page_url": lambda page: url(page=page),
            "earlier": f"{window.end_at - half:.0f}",
            "later": f"{window.end_at + half:.0f}" if window.end_at + half < now else "",
            "hidden": [(k, v) for k, v in given.items() if k not in {"member", "page"}],
        }
        return HtmlPage(render("group.html", values))

    def incident(self, seen: Seen, given: QueryParams) -> HtmlPage:
        """Return the page of an incident, or 404 if no record shows it.

        Without an id, as in the links of alerts, it redirects to the latest incident of a kind.
        """
        group, cluster = given.get("group", ""), given.get("cluster")
        if group and not given.get("id"):
            kind = given.get("kind", "")
            latest = find_latest(group, cluster, kind, self._history, seen.snapshot)
            if latest is None:
                to = link("group", group=group, cluster=cluster or "")
            else:
                to = link("incident", group=group, cluster=latest.ref.cluster, id=latest.id)
            return HtmlPage("", 303, to)
        try:
            content = incident_content(
                group, cluster, given.get("id", ""), self._history, seen.snapshot
            )
        except UnknownGroupError as error:
            hint = "The agent's memory holds the latest records; older ones are in its spool."
            return _missing(seen, error, hint, group)
        values = {"content": content, "max_named": MAX_NAMED}
        return HtmlPage(render("incident.html", _frame(seen) | values))


def _frame(seen: Seen) -> dict[str, Any]:
    """Return the values that every page needs."""
    return {
        "now": seen.snapshot.at,
        "version": seen.stats.version,
        "metrics_path": seen.telemetry_path.lstrip("/"),
        "live": True,
        "version_shown": seen.version,
        "parse": parse_time,
        "summarize": summarize,
        "reason_of": reason_of,
        "took": _took,
        "longest_waits": _longest_waits,
        "length": _length,
        "status_of": _status_of,
        "describe": timeline.describe,
        "spoken": _spoken,
        "clock": _clock,
        "seen": _seen,
    }


def _missing(seen: Seen, error: UnknownGroupError, hint: str, search: str) -> HtmlPage:
    values = {"text": str(error), "hint": hint, "search": search, "live": False}
    return HtmlPage(render("missing.html", _frame(seen) | values), 404)


def _url(path: str, given: Mapping[str, str], **changes: object) -> str:
    """Return the address of the same page with other parameters; from its first part on."""
    kept = {name: value for name, value in given.items() if name != "page"}
    return link(path, **{**kept, **changes})


def _overview_query(given: QueryParams) -> OverviewQuery:
    show, sort = given.get("show", ""), given.get("sort", "unstable")
    return OverviewQuery(
        text=given.get("q", "").strip(),
        show=show if show in SHOWS else "",
        group_type=given.get("group_type", ""),
        state=given.get("state", ""),
        cluster=given.get("cluster", ""),
        sort=sort if sort in SORTS else "unstable",
        page=_parse_page(given),
    )


def _parse_page(given: QueryParams) -> int:
    text = given.get("page", "1")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 1


def _parse_instant(text: str) -> float | None:
    try:
        at = float(text)
    except ValueError:
        return None
    return at if math.isfinite(at) and at > 0 else None


def _status_of(incident: IncidentAnswer) -> RebalanceStatus | None:
    """Return the status of an incident's cause; no user has requested that a process is killed."""
    ends = {each.how for each in incident.departures}
    if incident.kind in _OF_PROCESSES and ends == {"expired"}:
        return RebalanceStatus.UNKNOWN_MEMBER
    return None if incident.status is None else BY_LABEL.get(incident.status)


_OF_PROCESSES = {"restart", "rollout", "crash_loop"}


def _took(incident: IncidentAnswer) -> float:
    """Return the time of an incident's rebalances, as `explain` shows it."""
    return sum(each.seconds for each in incident.rebalances)


def _longest_waits(incident: IncidentAnswer) -> list[WaitAnswer]:
    """Return each member that is waited for once, the longest first."""
    longest: dict[tuple[str, str, str], WaitAnswer] = {}
    for wait in sorted(incident.waiting_for, key=lambda each: -each.seconds):
        longest.setdefault((wait.client_id, wait.host, wait.name), wait)
    return list(longest.values())


def _length(incident: IncidentAnswer) -> float:
    start_at = parse_time(incident.started_at)
    return parse_time(incident.ended_at or incident.started_at) - start_at


def _spoken(lane: timeline.Lane) -> str:
    """Return a lane in words; of many statuses the last ones."""
    texts: Sequence[str] = [timeline.describe(each) for each in lane.pieces if each.status]
    return "; ".join(texts[-5:]) or "no rebalance in this window"


def _clock(at: float) -> str:
    return format_time(at)[11:19]


def _seen(record: Sample) -> str:
    """Return a record in words."""
    if record.kind is SampleKind.LOST:
        return "no longer observed"
    if record.kind is SampleKind.CHANGE and record.before is record.after is None:
        return str(record.field)
    if record.kind is SampleKind.CHANGE:
        return f"{record.field}: {record.before or 'none'} → {record.after or 'none'}"
    if record.kind is SampleKind.TRANSITION:
        ends = f" ({record.outcome.value})" if record.outcome is not None else ""
        return f"{_code(record.from_)} → {_code(record.to)}{ends}"
    outcome = f" ({record.outcome.value})" if record.outcome is not None else ""
    return f"{record.kind.value} {record.status or ''}{outcome}".strip()


def _code(code: int | None) -> str:
    return "?" if code is None else f"{code} {RebalanceStatus(code).label}"
