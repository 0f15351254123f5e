"""The first page: ongoing and ended incidents, and the groups, unstable ones first. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from aggregation.incidents.answers import IncidentAnswer, answer_of
from aggregation.incidents.model import Incident
from aggregation.incidents.planning import is_planned
from aggregation.live.group_search import contains
from aggregation.live.group_views import UNSTABLE_STATES
from aggregation.rebalances.grouping import GroupRef
from metrics.model.snapshot import MemberRow, Snapshot
from metrics.model.status import RebalanceStatus

RECENT_S, DAY_S = 600.0, 86_400.0
BARS = 24
"""Bars of a sparkline: one an hour."""
PAGE_ROWS = 50
MAX_CARDS = 20
MAX_ENDED, MAX_ALSO = 6, 24
"""Incidents at the top of the page, and in the list that opens; the list of groups has the rest."""
SORTS = {
    "unstable": "not stable first",
    "last": "last incident first",
    "unread": "most unread time first",
    "incidents": "most incidents first",
    "members": "most members first",
    "name": "name",
}
SHOWS = {
    "": "all groups",
    "unstable": "not stable now",
    "recent": "incident within 10 min",
    "day": "incident within 24 h",
    "quiet": "no incident within 24 h",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewQuery:
    """The query of the overview: search, filters, order, page."""

    text: str = ""
    show: str = ""
    group_type: str = ""
    state: str = ""
    cluster: str = ""
    sort: str = "unstable"
    page: int = 1

    @property
    def is_filtered(self) -> bool:
        """Whether some groups may be left out."""
        return bool(self.text or self.show or self.group_type or self.state or self.cluster)


@dataclass(slots=True)
class GroupLine:
    """One of thousands of groups in the list: the values for search, filters and orders."""

    cluster: str
    group: str
    group_type: str
    status: RebalanceStatus | None = None
    state: str = ""
    members: int = 0
    incidents: Sequence[Incident] = ()
    ongoing: bool = False
    recent: int = 0
    unplanned: bool = False
    """Whether one of the recent incidents was not planned."""
    day: int = 0
    unread: float = 0.0
    unread_at_least: bool = False
    """More was unread: no source shows a timeout, or the assignments of all incidents."""
    last_at: float = 0.0

    def add(self, row: MemberRow) -> None:
        """Add a member, or a Streams instance."""
        if self.status is None or row.status > self.status:
            self.status = row.status

    def sum_up(self, incidents: Sequence[Incident], now: float) -> None:
        """Take the group's incidents."""
        self.incidents = incidents
        for incident in incidents:
            end_at = now if incident.ended_at is None else incident.ended_at
            self.ongoing |= incident.is_ongoing
            self.last_at = max(self.last_at, incident.started_at)
            if end_at >= now - RECENT_S:
                self.recent += 1
                self.unplanned |= not is_planned(incident)
            if end_at >= now - DAY_S:
                self.day += 1
                self.unread += incident.cost.unread_partition_seconds or 0.0
                self.unread_at_least |= incident.unread_at_least

    @property
    def is_unstable(self) -> bool:
        """Whether an incident is ongoing, the status is above 0, or the state is not stable."""
        return self.ongoing or bool(self.status) or self.state in UNSTABLE_STATES

    @property
    def last(self) -> IncidentAnswer | None:
        """The last incident."""
        latest = max(self.incidents, key=lambda each: each.started_at, default=None)
        return None if latest is None else answer_of(latest)

    @property
    def sees_unread(self) -> bool:
        """Whether a source shows assignments, so that unread time is known."""
        return any(each.cost.unread_partition_seconds is not None for each in self.incidents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Content of the first page."""

    ongoing: Sequence[IncidentAnswer]
    ended: Sequence[IncidentAnswer]
    """Ended within the last ten minutes: unplanned ones preferred, the latest first."""
    also_ended: Sequence[IncidentAnswer]
    """The others, the latest first."""
    left_out: int
    """Number of others that are too many for the page."""
    now: float
    lines: Sequence[GroupLine]
    """Those on this page."""
    found: int
    total: int
    pages: int
    page: int
    query: OverviewQuery
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values that the filters offer."""

    def sparkline(self, line: GroupLine) -> str:
        """Return the SVG path of a group's unread time by hour; empty without any."""
        bars = unread_by_hour(line.incidents, self.now)
        most = max(bars)
        if not most:
            return ""
        heights = [max(2, round(20 * bar / most)) if bar else 0 for bar in bars]
        return "".join(f"M{4 * n} 20v-{h}h3v{h}z" for n, h in enumerate(heights) if h)


def overview(
    shown: Snapshot, incidents: Mapping[GroupRef, Sequence[Incident]], query: OverviewQuery
) -> Overview:
    """Return the content of the first page."""
    now, lines = shown.at, find_lines(shown, incidents)
    found = [line for line in lines if _matches(line, query)]
    if query.text:
        found = _search(found, query.text, shown)
    found.sort(key=_ORDERS[query.sort])
    pages = max(1, -(-len(found) // PAGE_ROWS))
    page = min(max(1, query.page), pages)
    every = [each for of_group in incidents.values() for each in of_group]
    ongoing = sorted((i for i in every if i.is_ongoing), key=lambda i: -i.started_at)
    chosen, others = _split_ended(
        i for i in every if i.ended_at is not None and i.ended_at >= now - RECENT_S
    )
    return Overview(
        now=now,
        ongoing=[answer_of(each) for each in ongoing],
        ended=[answer_of(each) for each in chosen],
        also_ended=[answer_of(each) for each in others[:MAX_ALSO]],
        left_out=max(0, len(others) - MAX_ALSO),
        lines=found[(page - 1) * PAGE_ROWS : page * PAGE_ROWS],
        found=len(found),
        total=len(lines),
        pages=pages,
        page=page,
        query=query,
        options={
            "group_type": sorted({line.group_type for line in lines} - {""}),
            "state": sorted({line.state for line in lines} - {""}),
            "cluster": sorted({line.cluster for line in lines} - {""}),
        },
    )


def _split_ended(ended: Iterable[Incident]) -> tuple[list[Incident], list[Incident]]:
    """Return the incidents to show at once, and the others; each list has the latest first.

    Unplanned incidents are selected before starts, stops and deploys.
    """

    def by_end(incident: Incident) -> float:
        return -(incident.ended_at or 0.0)

    ranked = sorted(ended, key=lambda each: (is_planned(each), by_end(each)))
    return sorted(ranked[:MAX_ENDED], key=by_end), sorted(ranked[MAX_ENDED:], key=by_end)


def unread_by_hour(incidents: Iterable[Incident], now: float) -> list[float]:
    """Return unread seconds by hour, the present hour last.

    An incident's cost is spread evenly over its time.
    """
    bars = [0.0] * BARS
    start_at = now - DAY_S
    for incident in incidents:
        cost = incident.cost.unread_partition_seconds
        end_at = now if incident.ended_at is None else incident.ended_at
        if not cost or end_at < start_at:
            continue
        length = max(end_at - incident.started_at, 1e-3)
        first = max(0, int((incident.started_at - start_at) * BARS / DAY_S))
        last = min(BARS - 1, int((end_at - start_at) * BARS / DAY_S))
        for bar in range(first, last + 1):
            left = max(incident.started_at, start_at + bar * DAY_S / BARS)
            right = min(end_at, start_at + (bar + 1) * DAY_S / BARS)
            bars[bar] += cost * max(0.0, right - left) / length
    return bars


def find_lines(
    shown: Snapshot, incidents: Mapping[GroupRef, Sequence[Incident]]
) -> list[GroupLine]:
    """Return a line for each group that members, a coordinator or records name.

    As `group_views`, but in one pass: the page shows few of many.
    """
    lines = {(key.cluster, key.group): GroupLine(key.cluster, key.group, key.group_type)
             for key in shown.groups}  # fmt: skip
    for row in (*shown.consumers, *shown.instances):
        _line(lines, row.cluster, row.group, row.group_type).add(row)
    for row in shown.consumers:
        lines[row.cluster, row.group].members += 1
    for line in lines.values():
        line.status = line.status or RebalanceStatus.NONE
    for each in shown.inspected:
        # a row without a cluster belongs to the inspected one
        cluster = "" if ("", each.group) in lines else each.cluster
        line = _line(lines, cluster, each.group, each.group_type)
        line.state, line.group_type = each.state, each.group_type
        line.members = line.members if each.members is None else each.members
    for ref, found in incidents.items():
        _line(lines, *ref, "").sum_up(found, shown.at)
    return list(lines.values())


def _line(
    lines: dict[tuple[str, str], GroupLine], cluster: str, group: str, group_type: str
) -> GroupLine:
    line = lines.get((cluster, group))
    if line is None:
        line = lines[cluster, group] = GroupLine(cluster, group, group_type)
    return line


def _matches(line: GroupLine, query: OverviewQuery) -> bool:
    return (
        (not query.group_type or line.group_type == query.group_type)
        and (not query.state or line.state == query.state)
        and (not query.cluster or line.cluster == query.cluster)
        and _SHOWN[query.show](line)
    )


def _search(lines: Iterable[GroupLine], wanted: str, shown: Snapshot) -> list[GroupLine]:
    """Return the groups with a text in a name, type, state, member or host."""
    by_member = {
        (row.cluster, row.group)
        for row in (*shown.consumers, *shown.instances)
        if _has(wanted, row.client_id, row.host, row.app, row.group_instance_id)
    } | {
        (group.cluster, group.group)
        for group in shown.inspected
        if any(_has(wanted, each.client_id, each.host) for each in group.who)
    }
    return [
        line
        for line in lines
        if (line.cluster, line.group) in by_member
        or _has(wanted, line.group, line.cluster, line.group_type, line.state, _label(line))
    ]


def _has(wanted: str, *texts: str | None) -> bool:
    return any(text and contains(wanted, text) for text in texts)


def _label(line: GroupLine) -> str:
    return "" if line.status is None else line.status.label


_SHOWN: dict[str, Callable[[GroupLine], bool]] = {
    "": lambda _: True,
    "unstable": lambda line: line.is_unstable,
    "recent": lambda line: line.recent > 0,
    "day": lambda line: line.day > 0,
    "quiet": lambda line: not line.day,
}
_Order = tuple[float | str | bool, ...]


def _by_trouble(line: GroupLine) -> _Order:
    return (
        not line.ongoing,
        not line.is_unstable,
        -(line.status or 0),
        not line.unplanned,
        -line.last_at,
        line.group,
        line.cluster,
    )


_ORDERS: dict[str, Callable[[GroupLine], _Order]] = {
    "unstable": _by_trouble,
    "last": lambda line: (-line.last_at, line.group, line.cluster),
    "unread": lambda line: (-line.unread, line.group, line.cluster),
    "incidents": lambda line: (-line.day, line.group, line.cluster),
    "members": lambda line: (-line.members, line.group, line.cluster),
    "name": lambda line: (line.group, line.cluster),
}
