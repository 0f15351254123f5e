"""Points of an exposition: labels and values of each metric in the catalog.

Pure and shared by every exporter. The number of series is bounded: the agent's own metrics are
always present. Then the catalog's order decides, aggregates first, and within a metric the order of
labels, so that every scrape omits the same series.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import NamedTuple, Protocol, TypeVar

from metrics.exporters import catalog
from metrics.exporters.catalog import Metric, MetricType
from metrics.exporters.exposition import AgentStats, AppRow, DurationKey, Exposition, GroupRow, Live
from metrics.model.snapshot import (
    DURATION_BUCKETS_S,
    AvoidableCost,
    ChangeKey,
    Durations,
    GroupName,
    IncidentKey,
    InspectedGroup,
    JoinFailureKey,
    MemberRow,
    RebalanceKey,
    Rebalances,
    StatusCounts,
)
from metrics.model.status import CONSUMER_MAX, RebalanceStatus


class Example(NamedTuple):
    """One observation of a histogram. ``at`` is Unix seconds."""

    episode: str
    value: float
    at: float


class HistogramValue(NamedTuple):
    """A histogram's counts, and one observation."""

    durations: Durations
    example: Example | None = None


Labels = tuple[str, ...]
Point = tuple[Labels, float | HistogramValue]
"""One series' labels, in the metric's order, and value. A plain tuple: a page has thousands."""

Family = tuple[Metric, list[Point]]
_Row = TypeVar("_Row")
_Labelled = list[tuple[Labels, _Row]]
_HIGHEST = max(RebalanceStatus)
_COORDINATOR_STATES = {
    "classic": ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable"),
    "share": ("Empty", "Stable"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable"),
}
"""States of each group type. A dead group has no series."""
_HISTOGRAM_SERIES = len(DURATION_BUCKETS_S) + 3
"""A bucket each, +Inf, sum and count."""


_LABEL = tuple(code.label for code in RebalanceStatus)


@dataclass(slots=True)
class SeriesLimit:
    """Number of Kafka's series that a page may still have, and that it leaves out."""

    left: int
    dropped: int = 0

    def cut(self, metric: Metric, points: list[Point]) -> list[Point]:
        """Return the points that the page has room for."""
        size = _HISTOGRAM_SERIES if metric.type is MetricType.HISTOGRAM else 1
        kept = points[: self.left // size]
        self.left -= len(kept) * size
        self.dropped += (len(points) - len(kept)) * size
        return kept


class _Rows:
    """Rows with their labels, in the labels' order; all metrics of a row share them."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self.groups = _sort_by_labels(live.groups, _group)
        self.apps = _sort_by_labels(live.apps, _app)
        self.instances = _sort_by_labels(live.instances, _streams)
        self.consumers = _sort_by_labels(live.consumers, _consumer)
        self.inspected = _sort_by_labels(live.inspected, _group)
        self.durations = _sort_by_labels(live.durations.items(), _duration)
        self.rebalances = _sort_by_labels(live.rebalances.items(), _rebalance)
        totals = live.incidents
        self.last_rebalances = _sort_by_labels(totals.last_ends.items(), _group_name)
        self.incidents = _sort_by_labels(totals.final.items(), _incident)
        self.ongoing = _sort_by_labels(totals.ongoing.items(), _incident)
        self.recent = _sort_by_labels(totals.recent.items(), _incident)
        self.unplanned = _sort_by_labels(totals.unplanned.items(), _group_name)
        self.unread = _sort_by_labels(totals.unread_s.items(), _group_name)
        self.member_seconds = _sort_by_labels(totals.member_s.items(), _group_name)
        self.join_failures = _sort_by_labels(totals.join_failures.items(), _join_failure)
        self.changes = _sort_by_labels(totals.avoidable.items(), _change)
        self.remembered = _sort_by_labels(totals.avoidable.items(), _group_of_change)
        self.slowest = _slowest(live.rebalances)

    @cached_property
    def members(self) -> list[Labels]:
        """Return the members' own labels; only one metric has them."""
        return sorted(set(map(_member, self._live.members)))


def families(exposition: Exposition, max_series: int, *, state_sets: bool) -> list[Family]:
    """Return each metric that has points, with no more than ``max_series`` of Kafka's series."""
    limit = SeriesLimit(max_series)
    bounded = list(live_families(exposition.live, limit, state_sets=state_sets))
    return agent_families(exposition.agent, limit) + bounded


def live_families(live: Live, limit: SeriesLimit, *, state_sets: bool) -> Iterator[Family]:
    """Yield each of Kafka's metrics that has points; a page needs one at a time in memory."""
    rows = _Rows(live)
    for metric, points_of in (_LIVE | (_STATE_SETS if state_sets else {})).items():
        points = limit.cut(metric, points_of(rows))
        if points:
            yield metric, points
        del points  # the next metric's are made now


def agent_families(agent: AgentStats, limit: SeriesLimit) -> list[Family]:
    """Return each metric of the agent itself; ``limit`` is that of a page with all others."""
    own = [(metric, points_of(agent)) for metric, points_of in _IN_ORDER.items()]
    own.append((catalog.SERIES_DROPPED, [((), limit.dropped)]))
    return [(metric, points) for metric, points in own if points]


def _sort_by_labels(rows: Iterable[_Row], labels: Callable[[_Row], Labels]) -> _Labelled[_Row]:
    return sorted(((labels(row), row) for row in rows), key=itemgetter(0))


def _consumer(row: MemberRow) -> Labels:
    return (row.app, row.group, row.client_id, row.host, row.cluster)


def _streams(row: MemberRow) -> Labels:
    return (row.group, row.client_id, row.host, row.cluster)


def _group(row: GroupRow | InspectedGroup) -> Labels:
    return (row.group, row.group_type, row.cluster)


def _app(row: AppRow) -> Labels:
    return (row.app, row.cluster)


def _duration(item: tuple[DurationKey, Durations]) -> Labels:
    key, _ = item
    return (key.app, key.group, key.cluster)


def _rebalance(item: tuple[RebalanceKey, Rebalances]) -> Labels:
    key, _ = item
    return (key.group, key.status, key.cluster)


def _group_name(item: tuple[GroupName, float]) -> Labels:
    key, _ = item
    return (key.group, key.cluster)


def _incident(item: tuple[IncidentKey, int]) -> Labels:
    key, _ = item
    return (key.group, key.kind, key.cluster)


def _change(item: tuple[ChangeKey, AvoidableCost]) -> Labels:
    key, _ = item
    return (key.group, key.setting, key.change, key.cluster)


def _group_of_change(item: tuple[ChangeKey, AvoidableCost]) -> Labels:
    key, _ = item
    return (key.group, key.cluster)


def _join_failure(item: tuple[JoinFailureKey, int]) -> Labels:
    key, _ = item
    return (key.group, key.error, key.cluster)


def _member(row: MemberRow) -> Labels:
    return (
        row.group,
        row.client_id,
        row.member_id or "",
        row.group_instance_id or "",
        row.group_type,  # as the client's group.protocol has it
        row.assignor or "",
        row.software or "",
        row.cluster,
    )


def _by_status(
    rows: _Labelled[MemberRow], values: Callable[[StatusCounts], Mapping[RebalanceStatus, float]]
) -> list[Point]:
    """Return a point for each status with a count."""
    return [
        ((*labels, _LABEL[code]), number)
        for labels, row in rows
        for code, number in values(row.counts).items()
        if number
    ]


class _StatusRow(Protocol):
    @property
    def status(self) -> RebalanceStatus: ...


_StatusRowT = TypeVar("_StatusRowT", bound=_StatusRow)


def _states(rows: _Labelled[_StatusRowT], highest: RebalanceStatus = _HIGHEST) -> list[Point]:
    codes = [(code, code.label) for code in RebalanceStatus if code <= highest]
    return [((*labels, label), code is row.status) for labels, row in rows for code, label in codes]


def _coordinator_states(rows: _Labelled[InspectedGroup]) -> list[Point]:
    """Return a point for each state of a group's type, and for an unknown current state."""
    return [
        ((*labels, state), state == row.state)
        for labels, row in rows
        for state in dict.fromkeys((*_COORDINATOR_STATES.get(row.group_type, ()), row.state))
    ]


def _partition_lags(rows: _Labelled[InspectedGroup]) -> list[Point]:
    return [
        ((row.group, lag.topic, str(number), row.cluster), records)
        for _, row in rows
        for lag in row.lags
        for number, records in lag.partitions
    ]


def _example(total: Rebalances) -> Example:
    return Example(total.last_id, total.last_s, total.last_at)


def _slowest(rebalances: Mapping[RebalanceKey, Rebalances]) -> dict[tuple[str, str], Example]:
    """Return the slowest member of a group's last rebalance; member rows have no rebalance id."""
    by_age = sorted(rebalances.items(), key=lambda item: item[1].last_at)
    return {
        (key.cluster, key.group): Example(total.last_id, total.last_member_s, total.last_member_at)
        for key, total in by_age
        if total.last_member_at
    }


def _tracker_count(word: str) -> Callable[[AgentStats], list[Point]]:
    return lambda agent: [((), agent.tracker.get(word, 0))]


_AGENT: dict[Metric, Callable[[AgentStats], list[Point]]] = {
    catalog.BUILD_INFO: lambda a: [((a.version, a.python_version), 1)],
    catalog.EXTERNAL_URL: lambda a: [((a.external_url,), 1)] if a.external_url else [],
    catalog.SOURCE_UP: lambda a: [((s.name,), s.up) for s in a.sources],
    catalog.SOURCE_FILES: lambda a: [
        ((s.name,), len(s.files)) for s in a.sources if s.files is not None
    ],
    catalog.SOURCE_BLIND_FILES: lambda a: [
        ((s.name,), sum(file.is_blind for file in s.files))
        for s in a.sources
        if s.files is not None
    ],
    catalog.SOURCE_FILES_WITHOUT_GROUP: lambda a: [
        ((s.name,), sum(file.has_no_group for file in s.files))
        for s in a.sources
        if s.files is not None
    ],
    catalog.SOURCE_ERRORS: lambda a: [
        ((s.name, reason), n) for s in a.sources for reason, n in sorted(s.errors.items())
    ],
    catalog.SOURCE_LAG: lambda a: [((s.name,), s.lag_s) for s in a.sources],
    catalog.SOURCE_READ: lambda a: [((s.name,), s.read_bytes) for s in a.sources],
    catalog.SIGNALS_READ: lambda a: [((s.name,), s.signals) for s in a.sources],
    catalog.SIGNALS_UNPARSED: lambda a: [((s.name,), s.unparsed) for s in a.sources],
    catalog.SOURCE_MEMBERS: lambda a: [((s.name,), s.members) for s in a.sources],
    catalog.SAMPLES_WRITTEN: lambda a: [((s.name,), s.written) for s in a.outputs],
    catalog.SAMPLES_BUFFERED: lambda a: [((s.name,), s.buffered) for s in a.outputs],
    catalog.SAMPLES_DROPPED: lambda a: [((s.name,), s.dropped) for s in a.outputs],
    catalog.SINK_ERRORS: lambda a: [((s.name,), s.errors) for s in a.outputs],
    catalog.RELOADS: lambda a: [((o,), n) for o, n in sorted(a.reloads.items())],
}

_COUNTS = {metric: _tracker_count(metric.count) for metric in catalog.METRICS if metric.count}
_IN_ORDER = {
    metric: points_of
    for metric in catalog.METRICS
    if (points_of := (_AGENT | _COUNTS).get(metric)) is not None
}
"""Points of the agent's own metrics, in the catalog's order."""

_LIVE: dict[Metric, Callable[[_Rows], list[Point]]] = {
    catalog.GROUP_STATUS: lambda v: [(labels, row.status) for labels, row in v.groups],
    catalog.APP_STATUS: lambda v: [(labels, row.status) for labels, row in v.apps],
    catalog.GROUP_PEAK: lambda v: [(labels, row.peak) for labels, row in v.groups],
    catalog.APP_PEAK: lambda v: [(labels, row.peak) for labels, row in v.apps],
    catalog.STREAMS_STATUS: lambda v: [(labels, row.status) for labels, row in v.instances],
    catalog.CONSUMER_STATUS: lambda v: [(labels, row.status) for labels, row in v.consumers],
    catalog.STREAMS_PEAK: lambda v: [(labels, row.peak) for labels, row in v.instances],
    catalog.CONSUMER_PEAK: lambda v: [(labels, row.peak) for labels, row in v.consumers],
    catalog.GROUP_MEMBERS: lambda v: [
        (labels, row.members) for labels, row in v.inspected if row.members is not None
    ],
    catalog.GROUP_GENERATION: lambda v: [
        (labels, row.generation) for labels, row in v.inspected if row.generation is not None
    ],
    catalog.MEMBERSHIP_CHANGES: lambda v: [(labels, row.changes) for labels, row in v.inspected],
    catalog.COORDINATOR_STATE: lambda v: _coordinator_states(v.inspected),
    catalog.GROUP_LAG: lambda v: [
        ((row.group, lag.topic, row.cluster), lag.total)
        for _, row in v.inspected
        for lag in row.lags
        if lag.total is not None
    ],
    catalog.REBALANCES: lambda v: _by_status(v.consumers, attrgetter("rebalances")),
    catalog.TRANSITIONS: lambda v: _by_status(v.consumers, attrgetter("transitions")),
    catalog.STATUS_SECONDS: lambda v: _by_status(v.consumers, attrgetter("seconds")),
    catalog.DURATION: lambda v: [
        (labels, HistogramValue(held, v.slowest.get((key.cluster, key.group))))
        for labels, (key, held) in v.durations
    ],
    catalog.GROUP_REBALANCES: lambda v: [
        (labels, sum(total.durations.buckets)) for labels, (_, total) in v.rebalances
    ],
    catalog.GROUP_DURATION: lambda v: [
        (labels, HistogramValue(total.durations, _example(total)))
        for labels, (_, total) in v.rebalances
    ],
    catalog.LAST_REBALANCE: lambda v: [(labels, at) for labels, (_, at) in v.last_rebalances],
    catalog.INCIDENTS: lambda v: [(labels, number) for labels, (_, number) in v.incidents],
    catalog.INCIDENT_ONGOING: lambda v: [(labels, number) for labels, (_, number) in v.ongoing],
    catalog.RECENT_INCIDENTS: lambda v: [(labels, number) for labels, (_, number) in v.recent],
    catalog.RECENT_UNPLANNED: lambda v: [(labels, number) for labels, (_, number) in v.unplanned],
    catalog.UNREAD: lambda v: [(labels, seconds) for labels, (_, seconds) in v.unread],
    catalog.MEMBER_SECONDS: lambda v: [
        (labels, seconds) for labels, (_, seconds) in v.member_seconds
    ],
    catalog.JOIN_FAILURES: lambda v: [(labels, number) for labels, (_, number) in v.join_failures],
    catalog.AVOIDABLE_REBALANCES: lambda v: [
        (labels, cost.rebalances) for labels, (_, cost) in v.changes
    ],
    catalog.AVOIDABLE_UNREAD: lambda v: [
        (labels, cost.unread_s) for labels, (_, cost) in v.changes if cost.unread_s is not None
    ],
    catalog.REMEMBERED_REBALANCES: lambda v: [
        (labels, cost.of_rebalances) for labels, (_, cost) in v.remembered
    ],
    catalog.REMEMBERED_SECONDS: lambda v: [
        (labels, cost.within_s) for labels, (_, cost) in v.remembered
    ],
    catalog.MEMBER_INFO: lambda v: [(labels, 1) for labels in v.members],
    catalog.PARTITION_LAG: lambda v: _partition_lags(v.inspected),
}

_STATE_SETS: dict[Metric, Callable[[_Rows], list[Point]]] = {
    catalog.GROUP_STATE: lambda v: _states(v.groups),
    catalog.APP_STATE: lambda v: _states(v.apps),
    catalog.STREAMS_STATE: lambda v: _states(v.instances),
    catalog.CONSUMER_STATE: lambda v: _states(v.consumers, CONSUMER_MAX),
}
