"""From an exposition to points: which labels and values each metric of the catalogue has now.

Pure and shared by every exporter. The number of series is bounded: the agent's own metrics are
always there, then series are given out in the catalogue's order, aggregates first, and within a
metric by labels, so that the same series are left out at every scrape.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from metrics import catalog
from metrics.catalog import Metric, MetricType
from metrics.exposition import AgentStats, AppRow, Exposition, GroupRow, Live
from metrics.snapshot import DURATION_BUCKETS_S, Durations, InspectedGroup, MemberRow, RebalanceKey
from metrics.status import CONSUMER_MAX, RebalanceStatus


class Example(NamedTuple):
    """One observation that a histogram holds. ``at`` is Unix seconds."""

    episode: str
    value: float
    at: float


class Point(NamedTuple):
    """One series' labels, in the metric's order, and value."""

    labels: tuple[str, ...]
    value: float | Durations
    example: Example | None = None


Family = tuple[Metric, list[Point]]
_HIGHEST = max(RebalanceStatus)
_COORDINATOR_STATES = {
    "classic": ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable"),
    "share": ("Empty", "Stable"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable"),
}
"""By group type: what each has. A dead group's series go."""
_HISTOGRAM_SERIES = len(DURATION_BUCKETS_S) + 3
"""A bucket each, +Inf, sum and count."""


def families(exposition: Exposition, max_series: int, *, state_sets: bool) -> Iterator[Family]:
    """Return each metric that has points, with no more than ``max_series`` of Kafka's series."""
    read = _LIVE | (_STATE_SETS if state_sets else {})
    bounded, dropped = list[Family](), 0
    for metric, points_of in read.items():
        points = sorted(points_of(exposition.live), key=lambda point: point.labels)
        size = _HISTOGRAM_SERIES if metric.type is MetricType.HISTOGRAM else 1
        kept = points[: max_series // size]
        max_series -= len(kept) * size
        dropped += (len(points) - len(kept)) * size
        bounded.append((metric, kept))
    agents = [(metric, list(points_of(exposition.agent))) for metric, points_of in _AGENT.items()]
    agents.append((catalog.SERIES_DROPPED, [Point((), dropped)]))
    return ((metric, points) for metric, points in agents + bounded if points)


def printable(value: str) -> str:
    """Make sure that a label can be written as UTF-8: a lone surrogate cannot."""
    return value if value.isascii() else value.encode(errors="replace").decode()


def _consumer(row: MemberRow) -> tuple[str, ...]:
    return (row.app, row.group, row.client_id, row.host, row.cluster)


def _streams(row: MemberRow) -> tuple[str, ...]:
    return (row.group, row.client_id, row.host, row.cluster)


def _group(row: GroupRow | InspectedGroup) -> tuple[str, ...]:
    return (row.group, row.group_type, row.cluster)


def _rebalance(key: RebalanceKey) -> tuple[str, ...]:
    return (key.group, key.status, key.cluster)


def _app(row: AppRow) -> tuple[str, ...]:
    return (row.app, row.cluster)


def _by_status(row: MemberRow, values: Mapping[RebalanceStatus, float]) -> Iterator[Point]:
    """Return a point for each status that has been counted at all."""
    return (Point((*_consumer(row), code.label), n) for code, n in values.items() if n)


def _states(
    labels: tuple[str, ...], held: RebalanceStatus, highest: RebalanceStatus = _HIGHEST
) -> Iterator[Point]:
    codes = (code for code in RebalanceStatus if code <= highest)
    return (Point((*labels, code.label), code is held) for code in codes)


def _coordinator_states(row: InspectedGroup) -> Iterator[Point]:
    """Return a point for each state of the group's type, and for one that is new to us."""
    states = dict.fromkeys((*_COORDINATOR_STATES.get(row.group_type, ()), row.state))
    return (Point((*_group(row), state), state == row.state) for state in states)


def _member_info(live: Live) -> Iterable[Point]:
    labels = {
        (
            row.client_id,
            row.member_id or "",
            row.group_instance_id or "",
            row.group_type,  # as the client's group.protocol has it
            row.assignor or "",
            row.software or "",
            row.cluster,
        )
        for row in live.members
    }
    return [Point(each, 1) for each in labels]


def _counted(word: str) -> Callable[[AgentStats], list[Point]]:
    return lambda agent: [Point((), agent.tracker.get(word, 0))]


_AGENT: dict[Metric, Callable[[AgentStats], Iterable[Point]]] = {
    catalog.BUILD_INFO: lambda a: [Point((a.version, a.python_version), 1)],
    catalog.SOURCE_UP: lambda a: [Point((s.name,), s.up) for s in a.sources],
    catalog.SOURCE_ERRORS: lambda a: [
        Point((s.name, reason), n) for s in a.sources for reason, n in sorted(s.errors.items())
    ],
    catalog.SOURCE_LAG: lambda a: [Point((s.name,), s.lag_s) for s in a.sources],
    catalog.SOURCE_READ: lambda a: [Point((s.name,), s.read_bytes) for s in a.sources],
    catalog.SIGNALS_READ: lambda a: [Point((s.name,), s.signals) for s in a.sources],
    catalog.SIGNALS_UNPARSED: lambda a: [Point((s.name,), s.unparsed) for s in a.sources],
    catalog.SOURCE_MEMBERS: lambda a: [Point((s.name,), s.members) for s in a.sources],
    catalog.SIGNALS_SUPPRESSED: _counted("suppressed"),
    catalog.SIGNALS_LATE: _counted("late"),
    catalog.JOINS_UNEXPLAINED: _counted("unexplained"),
    catalog.STATUSES_LOST: _counted("lost"),
    catalog.MEMBERS_EVICTED: _counted("evicted"),
    catalog.GROUPS_EVICTED: _counted("groups_evicted"),
    catalog.SAMPLES_WRITTEN: lambda a: [Point((s.name,), s.written) for s in a.sinks],
    catalog.SAMPLES_BUFFERED: lambda a: [Point((s.name,), s.buffered) for s in a.sinks],
    catalog.SAMPLES_DROPPED: lambda a: [Point((s.name,), s.dropped) for s in a.sinks],
    catalog.SINK_ERRORS: lambda a: [Point((s.name,), s.errors) for s in a.sinks],
    catalog.RELOADS: lambda a: [Point((o,), n) for o, n in sorted(a.reloads.items())],
}

_LIVE: dict[Metric, Callable[[Live], Iterable[Point]]] = {
    catalog.GROUP_STATUS: lambda v: (Point(_group(r), r.status) for r in v.groups),
    catalog.APP_STATUS: lambda v: (Point(_app(r), r.status) for r in v.apps),
    catalog.GROUP_PEAK: lambda v: (Point(_group(r), r.peak) for r in v.groups),
    catalog.APP_PEAK: lambda v: (Point(_app(r), r.peak) for r in v.apps),
    catalog.STREAMS_STATUS: lambda v: (Point(_streams(r), r.status) for r in v.instances),
    catalog.CONSUMER_STATUS: lambda v: (Point(_consumer(r), r.status) for r in v.consumers),
    catalog.STREAMS_PEAK: lambda v: (Point(_streams(r), r.peak) for r in v.instances),
    catalog.CONSUMER_PEAK: lambda v: (Point(_consumer(r), r.peak) for r in v.consumers),
    catalog.GROUP_MEMBERS: lambda v: (Point(_group(r), r.members) for r in v.inspected),
    catalog.GROUP_GENERATION: lambda v: (
        Point(_group(r), r.generation) for r in v.inspected if r.generation is not None
    ),
    catalog.MEMBERSHIP_CHANGES: lambda v: (Point(_group(r), r.changes) for r in v.inspected),
    catalog.COORDINATOR_STATE: lambda v: (p for r in v.inspected for p in _coordinator_states(r)),
    catalog.REBALANCES: lambda v: (
        p for r in v.consumers for p in _by_status(r, r.counts.rebalances)
    ),
    catalog.TRANSITIONS: lambda v: (
        p for r in v.consumers for p in _by_status(r, r.counts.transitions)
    ),
    catalog.STATUS_SECONDS: lambda v: (
        p for r in v.consumers for p in _by_status(r, r.counts.seconds)
    ),
    catalog.DURATION: lambda v: (
        Point((key.app, key.group, key.cluster), value) for key, value in v.durations.items()
    ),
    catalog.GROUP_REBALANCES: lambda v: (
        Point(_rebalance(key), sum(total.durations.buckets)) for key, total in v.rebalances.items()
    ),
    catalog.GROUP_DURATION: lambda v: (
        Point(_rebalance(key), total.durations, Example(total.last_id, total.last_s, total.last_at))
        for key, total in v.rebalances.items()
    ),
    catalog.MEMBER_INFO: _member_info,
}

_STATE_SETS: dict[Metric, Callable[[Live], Iterable[Point]]] = {
    catalog.GROUP_STATE: lambda v: (p for r in v.groups for p in _states(_group(r), r.status)),
    catalog.APP_STATE: lambda v: (p for r in v.apps for p in _states(_app(r), r.status)),
    catalog.STREAMS_STATE: lambda v: (
        p for r in v.instances for p in _states(_streams(r), r.status)
    ),
    catalog.CONSUMER_STATE: lambda v: (
        p for r in v.consumers for p in _states(_consumer(r), r.status, CONSUMER_MAX)
    ),
}
