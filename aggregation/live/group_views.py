"""What is known of each group, by its members' own words and by its coordinator's, as one row."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from metrics.exporters.exposition import GroupRow, Live
from metrics.model.snapshot import InspectedGroup, MemberRow
from metrics.model.status import RebalanceStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group. What neither its members nor its coordinator tell is None."""

    cluster: str
    group: str
    group_type: str
    status: RebalanceStatus | None = None
    """None: no member was seen."""
    peak: RebalanceStatus | None = None
    highest_member: MemberRow | None = None
    """Who holds the status, where it is not 0."""
    members: int = 0
    """As many as the coordinator has, or else as were seen."""
    state: str | None = None
    """The coordinator's word, such as Stable."""
    generation: int | None = None


def group_views(live: Live) -> list[GroupView]:
    """Return every group that was seen or inspected, the gravest status first."""
    consumers, instances = _by_group(live.consumers), _by_group(live.instances)
    found = dict[tuple[str, str], GroupView]()
    for row in live.groups:
        key = (row.cluster, row.group)
        found[key] = _from_members(row, consumers[key], instances[key])
    for told in live.inspected:
        # what names no cluster is of the one that is inspected
        key = next((k for k in _keys(told) if k in found), (told.cluster, told.group))
        found[key] = _add_inspection(told, found.get(key))
    return sorted(found.values(), key=_order)


def _by_group(rows: Iterable[MemberRow]) -> dict[tuple[str, str], list[MemberRow]]:
    found = defaultdict[tuple[str, str], list[MemberRow]](list)
    for row in rows:
        found[row.cluster, row.group].append(row)
    return found


def _keys(told: InspectedGroup) -> tuple[tuple[str, str], ...]:
    return (told.cluster, told.group), ("", told.group)


def _from_members(
    row: GroupRow, consumers: Sequence[MemberRow], instances: Sequence[MemberRow]
) -> GroupView:
    held = [each for each in (*instances, *consumers) if each.status]
    told = (each.generation for each in consumers if each.generation is not None)
    return GroupView(
        cluster=row.cluster,
        group=row.group,
        group_type=row.group_type,
        status=row.status,
        peak=row.peak,
        highest_member=max(held, key=lambda each: each.status, default=None),
        members=len(consumers),
        generation=max(told, default=None),
    )


def _add_inspection(told: InspectedGroup, seen: GroupView | None) -> GroupView:
    view = seen or GroupView(cluster=told.cluster, group=told.group, group_type=told.group_type)
    return replace(
        view,
        group_type=told.group_type,
        members=told.members,
        state=told.state,
        generation=view.generation if told.generation is None else told.generation,
    )


def _order(view: GroupView) -> tuple[int, str, str]:
    gravity = -1 if view.status is None else view.status
    return -gravity, view.cluster, view.group
