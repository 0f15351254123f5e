"""The first page: what goes on, what went on, and the groups, what is not stable first. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aggregation.incidents.answers import IncidentAnswer, answer_of
from aggregation.incidents.model import Incident
from aggregation.live.group_search import contains
from aggregation.live.group_views import GroupView
from aggregation.rebalances.grouping import GroupRef

RECENT_S, DAY_S = 600.0, 86_400.0
BARS = 24
"""Bars of a sparkline: one an hour."""
PAGE_ROWS = 50
MAX_CARDS = 20
MAX_ENDED = 6
"""Incidents at the top of the page; the list of groups has the others."""
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
    """What the reader asked for: search, filters, order, page."""

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


@dataclass(slots=True, kw_only=True)
class GroupLine:
    """One group of the list. ``bars`` are unread seconds by hour, the present hour last."""

    view: GroupView
    incidents: Sequence[Incident]
    now: float
    ongoing: bool = False
    recent: int = 0
    day: int = 0
    unread: float = 0.0
    last_at: float = 0.0

    def __post_init__(self) -> None:
        """Sum up the incidents: lists are sorted by these values."""
        for incident in self.incidents:
            end_at = self.now if incident.ended_at is None else incident.ended_at
            self.ongoing |= incident.is_ongoing
            self.last_at = max(self.last_at, incident.started_at)
            self.recent += end_at >= self.now - RECENT_S
            if end_at >= self.now - DAY_S:
                self.day += 1
                self.unread += incident.cost.unread_partition_seconds or 0.0

    @property
    def is_unstable(self) -> bool:
        """Whether something goes on: an incident, a status, or a state between two."""
        return self.ongoing or not self.view.is_stable

    @property
    def last(self) -> IncidentAnswer | None:
        """The last incident."""
        latest = max(self.incidents, key=lambda each: each.started_at, default=None)
        return None if latest is None else answer_of(latest)

    @property
    def sees_unread(self) -> bool:
        """Whether a source shows assignments, so that unread time is known."""
        return any(each.cost.unread_partition_seconds is not None for each in self.incidents)

    @property
    def sparkline(self) -> str:
        """SVG path of the unread time by hour; empty without any."""
        bars = unread_by_hour(self.incidents, self.now)
        most = max(bars)
        if not most:
            return ""
        heights = [max(2, round(20 * bar / most)) if bar else 0 for bar in bars]
        return "".join(f"M{4 * n} 20v-{h}h3v{h}z" for n, h in enumerate(heights) if h)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Content of the first page."""

    ongoing: Sequence[IncidentAnswer]
    ended: Sequence[IncidentAnswer]
    """Ended within the last ten minutes, the latest first."""
    lines: Sequence[GroupLine]
    """Those on this page."""
    found: int
    total: int
    pages: int
    page: int
    query: OverviewQuery
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values that the filters offer."""


def overview(
    views: Iterable[GroupView],
    incidents: Mapping[GroupRef, Sequence[Incident]],
    query: OverviewQuery,
    now: float,
) -> Overview:
    """Return the content of the first page; ``now`` is Unix seconds."""
    lines = [
        GroupLine(
            view=view, incidents=incidents.get(GroupRef(view.cluster, view.group), ()), now=now
        )
        for view in _with_unseen(views, incidents)
    ]
    found = [line for line in lines if _matches(line, query)]
    found.sort(key=_ORDERS[query.sort])
    pages = max(1, -(-len(found) // PAGE_ROWS))
    page = min(max(1, query.page), pages)
    every = [each for of_group in incidents.values() for each in of_group]
    ongoing = sorted((i for i in every if i.is_ongoing), key=lambda i: -i.started_at)
    ended = sorted(
        (i for i in every if i.ended_at is not None and i.ended_at >= now - RECENT_S),
        key=lambda i: -(i.ended_at or 0.0),
    )
    return Overview(
        ongoing=[answer_of(each) for each in ongoing],
        ended=[answer_of(each) for each in ended],
        lines=found[(page - 1) * PAGE_ROWS : page * PAGE_ROWS],
        found=len(found),
        total=len(lines),
        pages=pages,
        page=page,
        query=query,
        options={
            "group_type": sorted({line.view.group_type for line in lines}),
            "state": sorted({line.view.state for line in lines if line.view.state}),
            "cluster": sorted({line.view.cluster for line in lines if line.view.cluster}),
        },
    )


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


def _ref(view: GroupView) -> GroupRef:
    return GroupRef(view.cluster, view.group)


def _with_unseen(
    views: Iterable[GroupView], incidents: Mapping[GroupRef, Sequence[Incident]]
) -> list[GroupView]:
    """Add groups that only records name: their members are gone."""
    found = list(views)
    known = {_ref(view) for view in found}
    gone = [ref for ref in incidents if ref not in known]
    return found + [GroupView(cluster=ref.cluster, group=ref.group, group_type="") for ref in gone]


def _matches(line: GroupLine, query: OverviewQuery) -> bool:
    view = line.view
    return (
        (not query.group_type or view.group_type == query.group_type)
        and (not query.state or view.state == query.state)
        and (not query.cluster or view.cluster == query.cluster)
        and _SHOWN[query.show](line)
        and (not query.text or any(contains(query.text, text) for text in _texts(view)))
    )


def _texts(view: GroupView) -> Iterator[str]:
    """Yield what the search looks at: names, type, state, members, hosts."""
    status = "" if view.status is None else view.status.label
    yield from (view.group, view.cluster, view.group_type, view.state or "", status)
    for row in view.observed_members:
        yield from (row.client_id, row.host, row.app, row.group_instance_id or "")
    for each in view.inspected_members:
        yield from (each.client_id, each.host, each.instance_id or "")


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
        -(line.view.status or 0),
        -line.last_at,
        line.view.group,
        line.view.cluster,
    )


_ORDERS: dict[str, Callable[[GroupLine], _Order]] = {
    "unstable": _by_trouble,
    "last": lambda line: (-line.last_at, line.view.group, line.view.cluster),
    "unread": lambda line: (-line.unread, line.view.group, line.view.cluster),
    "incidents": lambda line: (-line.day, line.view.group, line.view.cluster),
    "members": lambda line: (-line.view.members, line.view.group, line.view.cluster),
    "name": lambda line: (line.view.group, line.view.cluster),
}
