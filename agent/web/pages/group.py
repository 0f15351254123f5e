"""A group's page: its state, the present incident, the members' timeline, the incidents. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.hub.recent_records import RecentRecords
from agent.web.pages.timeline import (
    MAX_BARS,
    Bracket,
    Lane,
    TimeMark,
    Window,
    choose_minutes,
    find_brackets,
    find_lanes,
    find_time_marks,
    join_short,
)
from aggregation.explain.explanation import Explanation, explain_unobserved, explanations
from aggregation.incidents.answers import IncidentAnswer
from aggregation.incidents.cost import SLACK_S
from aggregation.incidents.model import Incident
from aggregation.live.group_views import GroupView, group_views
from aggregation.live.live import live
from metrics.model.sample import Sample, SampleKind, Scope, parse_time
from metrics.model.snapshot import Snapshot
from metrics.model.status import RebalanceStatus

LAST = 50
"""Incidents that the page lists."""
PAGE_LANES = 40
ADVICE = 3


class UnknownGroupError(LookupError):
    """No source, record or coordinator knows a group, or an incident of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuery:
    """The query of a group's page. ``end_at`` is Unix seconds; None: now.

    Without ``minutes`` the window has the length of the last incident.
    """

    group: str
    cluster: str | None = None
    minutes: int | None = None
    end_at: float | None = None
    member: str = ""
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A timeline, with the members on this page."""

    window: Window
    lanes: Sequence[Lane]
    brackets: Sequence[Bracket]
    bracket_rows: int
    ticks: Sequence[TimeMark]
    found: int
    pages: int
    page: int
    statuses: Sequence[RebalanceStatus]
    """Statuses that it shows, for the legend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupContent:
    """Content of a group's page."""

    view: GroupView
    answers: Sequence[str]
    ongoing: Sequence[IncidentAnswer]
    incidents: Sequence[IncidentAnswer]
    """The latest first."""
    total: int
    advice: Sequence[str]
    drawing: Drawing
    query: GroupQuery
    minutes: int
    """Of the timeline's window."""
    oldest_at: float | None
    """Time of the oldest record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentContent:
    """Content of an incident's page."""

    incident: IncidentAnswer
    advice: Sequence[str]
    drawing: Drawing
    evidence: Sequence[Sample]
    left_out: int
    """Lines of evidence beyond the first ones."""


MAX_EVIDENCE, MAX_NAMED = 200, 50
"""Lines of evidence, and names in each list, of an incident's page; the API has the rest."""
_MARGIN_SHARE, _MARGIN_MIN_S = 0.15, 5.0


def group_content(query: GroupQuery, history: RecentRecords, shown: Snapshot) -> GroupContent:
    """Return the content of a group's page.

    Raises:
        UnknownGroupError: the group is unknown.

    """
    shown = _only(query.group, shown)
    records, analysis = history.groups.read(query.group, query.cluster, shown.at)
    view = _view(query, shown, records)
    answers = explanations(analysis.rebalances, LAST, None, analysis.incidents)
    answers = answers or explain_unobserved(query.group, shown)
    incidents = [each for answer in answers for each in reversed(answer.incidents)]
    end_at = min(query.end_at or shown.at, shown.at)
    last_at = max((parse_time(each.started_at) for each in incidents), default=None)
    minutes = query.minutes or choose_minutes(last_at, end_at)
    window = Window(start_at=end_at - 60 * minutes, end_at=end_at)
    return GroupContent(
        view=view,
        answers=[answer.answer for answer in answers],
        ongoing=[each for each in incidents if each.ongoing],
        incidents=incidents,
        total=len(analysis.incidents),
        advice=_advice(answers),
        drawing=_draw(records, incidents, shown, window, query.member, query.page, view),
        query=query,
        minutes=minutes,
        oldest_at=min((parse_time(each.ts) for each in records), default=None),
    )


def incident_content(
    group: str, cluster: str | None, id_: str, history: RecentRecords, shown: Snapshot
) -> IncidentContent:
    """Return the content of an incident's page.

    Raises:
        UnknownGroupError: the records show no such incident, or no longer.

    """
    shown = _only(group, shown)
    records, analysis = history.groups.read(group, cluster, shown.at)
    incident = next((each for each in analysis.incidents if each.id == id_), None)
    if incident is None:
        raise UnknownGroupError(f"no incident {id_!r} of group {group!r}")
    ids = {span.id for span in incident.rebalances}
    rebalances = [each for each in analysis.rebalances if each.round.id in ids]
    answers = explanations(rebalances, len(rebalances), None, [incident])
    answer = answers[0].incidents[0]
    end_at = shown.at if incident.ended_at is None else incident.ended_at
    margin = max(_MARGIN_MIN_S, _MARGIN_SHARE * (end_at - incident.started_at))
    window = Window(
        start_at=incident.started_at - margin,
        end_at=shown.at if incident.ended_at is None else min(end_at + margin, shown.at),
    )
    evidence = _find_evidence(incident, records, end_at)
    view = GroupView(cluster=incident.ref.cluster, group=group, group_type="")
    return IncidentContent(
        incident=answer,
        advice=_advice(answers),
        drawing=_draw(records, [answer], shown, window, "", 1, view),
        evidence=evidence[:MAX_EVIDENCE],
        left_out=max(0, len(evidence) - MAX_EVIDENCE),
    )


def find_latest(
    group: str, cluster: str | None, kind: str, history: RecentRecords, shown: Snapshot
) -> Incident | None:
    """Return the incident of an alert: one of its kind, else any; first ongoing, then the latest.

    There may be none of the ``kind``, because an incident's kind may rise after the alert.
    """
    return max(
        history.groups.read(group, cluster, shown.at).analysis.incidents,
        key=lambda each: (each.kind.value == kind, each.is_ongoing, each.started_at),
        default=None,
    )


def _find_evidence(incident: Incident, records: Sequence[Sample], end_at: float) -> list[Sample]:
    """Return the records of an incident: of its members, and of all in its rebalances.

    A signal that the transition beside it repeats is left out.
    """
    named = (
        *incident.members,
        *(each.member for each in incident.departures),
        *(each.member for each in incident.waiting_for),
    )
    members = {(each.client_id, each.host) for each in named}
    spans = [(each.started_at, each.ended_at) for each in incident.rebalances]
    found: list[Sample] = []
    moved: set[tuple[str | None, str, str]] = set()
    for record in records:
        at = parse_time(record.ts)
        if not incident.started_at - SLACK_S <= at <= end_at + SLACK_S:
            continue
        in_rebalance = any(a - SLACK_S <= at <= b + SLACK_S for a, b in spans)
        if not in_rebalance and (record.client_id, record.host) not in members:
            continue
        key = (record.client_id, record.host, record.ts)
        if record.kind is SampleKind.TRANSITION:
            moved.add(key)
        if record.kind is not SampleKind.SIGNAL or key not in moved:
            found.append(record)
    return found


def _only(group: str, shown: Snapshot) -> Snapshot:
    """Return the state of one group: a cluster may have thousands."""
    return Snapshot(
        at=shown.at,
        consumers=tuple(row for row in shown.consumers if row.group == group),
        instances=tuple(row for row in shown.instances if row.group == group),
        groups=tuple(key for key in shown.groups if key.group == group),
        inspected=tuple(each for each in shown.inspected if each.group == group),
    )


def _view(query: GroupQuery, shown: Snapshot, records: Sequence[Sample]) -> GroupView:
    known = (
        view
        for view in group_views(live(shown))
        if view.group == query.group and query.cluster in {None, view.cluster}
    )
    found = next(known, None)
    if found is not None:
        return found
    if not records:
        raise UnknownGroupError(f"no source has seen a group {query.group!r}")
    latest = records[-1]
    return GroupView(cluster=latest.cluster, group=query.group, group_type=latest.group_type)


def _advice(answers: Sequence[Explanation]) -> list[str]:
    return list(dict.fromkeys(text for answer in answers for text in answer.advice))[:ADVICE]


def _draw(  # noqa: PLR0913 - what is drawn, and which part of it
    records: Sequence[Sample],
    incidents: Sequence[IncidentAnswer],
    shown: Snapshot,
    window: Window,
    member: str,
    page: int,
    view: GroupView,
) -> Drawing:
    rows = [
        (scope, row)
        for scope, of_scope in (
            (Scope.CONSUMER, shown.consumers),
            (Scope.STREAMS, shown.instances),
        )
        for row in of_scope
        if row.cluster in {view.cluster, ""}
    ]
    lanes = find_lanes(records, rows, window, shown.at)
    wanted = member.casefold()
    found = [each for each in lanes if wanted in f"{each.client_id}\n{each.host}".casefold()]
    pages = max(1, -(-len(found) // PAGE_LANES))
    page = min(max(1, page), pages)
    drawn = found[(page - 1) * PAGE_LANES : page * PAGE_LANES]
    limit = max(4, MAX_BARS // max(1, len(drawn)) // 2)
    for lane in drawn:
        lane.pieces = join_short(lane.pieces, limit)
    brackets = find_brackets(incidents, window, shown.at)
    statuses = {piece.status for lane in drawn for piece in lane.pieces if piece.status}
    return Drawing(
        window=window,
        lanes=drawn,
        brackets=brackets,
        bracket_rows=max((each.row for each in brackets), default=-1) + 1,
        ticks=find_time_marks(window),
        found=len(found),
        pages=pages,
        page=page,
        statuses=sorted(statuses),
    )
