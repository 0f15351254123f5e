"""Live max: consumers and Streams instances, aggregated to applications and groups, for export.

A plain max of the exported rows, at every instant (semantics.md 2): Python's ``max``, PromQL's
``max by`` and Spark's ``max`` over the same rows agree. Members with equal labels become one row:
their max, with the counters summed.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import NamedTuple, TypeVar

from metrics.exporters.exposition import AppRow, DurationKey, GroupRow, Live
from metrics.model.snapshot import (
    Durations,
    GroupKey,
    InspectedGroup,
    MemberRow,
    Snapshot,
    StatusCounts,
)
from metrics.model.status import RebalanceStatus

NONE = RebalanceStatus.NONE


class _GroupLabels(NamedTuple):
    cluster: str
    group: str
    group_type: str


_Key = TypeVar("_Key", bound=Hashable)
_Item = TypeVar("_Item")


def live(snapshot: Snapshot, *, members: bool = True) -> Live:
    """Return every exported row of the snapshot; without ``members`` only groups and apps."""
    rows = snapshot.consumers + snapshot.instances
    hidden = snapshot.unseen
    if hidden:
        hidden -= {(row.cluster, row.group) for row in rows}
    known = tuple(key for key in snapshot.groups if (key.cluster, key.group) not in hidden)
    unseen = tuple(key for key in snapshot.groups if (key.cluster, key.group) in hidden)
    found = Live(
        consumers=_merge_rows(snapshot.consumers, _consumer_labels),
        instances=_merge_rows(snapshot.instances, _instance_labels),
        members=snapshot.consumers,
        groups=_groups(rows, known),
        unseen=unseen,
        apps=_apps(rows, known),
        inspected=_add_generations(snapshot),
        durations=_durations(snapshot.durations),
        rebalances=snapshot.rebalances,
        incidents=snapshot.incidents,
    )
    return found if members else replace(found, consumers=(), instances=(), members=())


def _group_by(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    out = defaultdict[_Key, list[_Item]](list)
    for item in items:
        out[key(item)].append(item)
    return out


def _consumer_labels(row: MemberRow) -> tuple[str, ...]:
    return (row.cluster, row.app, row.group, row.client_id, row.host)


def _instance_labels(row: MemberRow) -> tuple[str, ...]:
    return (row.cluster, row.group, row.client_id, row.host)


def _merge_rows(
    rows: tuple[MemberRow, ...], labels: Callable[[MemberRow], tuple[str, ...]]
) -> tuple[MemberRow, ...]:
    return tuple(_merge(equals) for equals in _group_by(rows, labels).values())


def _merge(rows: list[MemberRow]) -> MemberRow:
    """Return the row with the highest status, for the longest time, and all rows' counts."""
    if len(rows) == 1:
        return rows[0]
    highest = max(rows, key=lambda row: (row.status, -row.since_at))
    counts = [row.counts for row in rows]
    return replace(
        highest,
        peak=_peak(rows),
        counts=StatusCounts(
            _sum_counts(count.rebalances for count in counts),
            _sum_counts(count.transitions for count in counts),
            _sum_counts(count.seconds for count in counts),
        ),
    )


_Number = TypeVar("_Number", int, float)


def _sum_counts(counts: Iterable[dict[RebalanceStatus, _Number]]) -> dict[RebalanceStatus, _Number]:
    out: dict[RebalanceStatus, _Number] = {}
    for count in counts:
        for status, number in count.items():
            out[status] = out.get(status, 0) + number
    return out


def _status(rows: Iterable[MemberRow]) -> RebalanceStatus:
    return max((row.status for row in rows), default=NONE)


def _peak(rows: Iterable[MemberRow]) -> RebalanceStatus:
    return max((row.peak for row in rows), default=NONE)


def _groups(rows: tuple[MemberRow, ...], known: tuple[GroupKey, ...]) -> tuple[GroupRow, ...]:
    """Return one row per group; a known group without members stays, at 0."""
    by_group: dict[_GroupLabels, list[MemberRow]] = {
        _GroupLabels(key.cluster, key.group, key.group_type): [] for key in known
    }
    by_group |= _group_by(rows, lambda row: _GroupLabels(row.cluster, row.group, row.group_type))
    return tuple(
        GroupRow(**key._asdict(), status=_status(rows), peak=_peak(rows))
        for key, rows in by_group.items()
    )


def _apps(rows: tuple[MemberRow, ...], known: tuple[GroupKey, ...]) -> tuple[AppRow, ...]:
    """Return one row per application; it stays at 0 as long as its groups are known."""
    newest = {(key.cluster, key.group, key.group_type): key.app for key in known}
    by_app: dict[tuple[str, str], list[MemberRow]] = {
        (cluster, app): [] for (cluster, _, _), app in newest.items()
    }
    by_app |= _group_by(rows, lambda row: (row.cluster, row.app))
    return tuple(
        AppRow(cluster=cluster, app=app, status=_status(rows), peak=_peak(rows))
        for (cluster, app), rows in by_app.items()
    )


def _add_generations(snapshot: Snapshot) -> tuple[InspectedGroup, ...]:
    """Add generations of classic groups from observed members: brokers do not report them."""
    newest: dict[tuple[str, str], int] = {}
    for row in snapshot.consumers if snapshot.inspected else ():
        if row.generation is not None:
            key = (row.cluster, row.group)
            newest[key] = max(row.generation, newest.get(key, row.generation))
    return tuple(
        replace(group, generation=newest[group.cluster, group.group])
        if group.generation is None and (group.cluster, group.group) in newest
        else group
        for group in snapshot.inspected
    )


def _durations(by_group: dict[GroupKey, Durations]) -> dict[DurationKey, Durations]:
    """Sum the histograms of a group that changed its type: its series has no such label."""
    by_labels = _group_by(by_group, lambda key: DurationKey(key.cluster, key.app, key.group))
    return {labels: _total([by_group[key] for key in keys]) for labels, keys in by_labels.items()}


def _total(histograms: list[Durations]) -> Durations:
    buckets = zip(*(each.buckets for each in histograms), strict=True)
    return Durations(tuple(map(sum, buckets)), sum(each.sum_s for each in histograms))
