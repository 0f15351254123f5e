"""Views of groups: members' own traces and the coordinator's description as one row."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from metrics.exporters.exposition import GroupRow, Live
from metrics.model.snapshot import InspectedGroup, InspectedMember, MemberRow
from metrics.model.status import RebalanceStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group. A field that neither members nor coordinator report is None."""

    cluster: str
    group: str
    group_type: str
    status: RebalanceStatus | None = None
    """None: no member was seen."""
    peak: RebalanceStatus | None = None
    highest_member: MemberRow | None = None
    """The member with the group's status, if it is not 0."""
    members: int = 0
    """Number in the coordinator's description, else of the members seen."""
    state: str | None = None
    """The coordinator's state, such as Stable."""
    generation: int | None = None
    observed_members: tuple[MemberRow, ...] = ()
    inspected_members: frozenset[InspectedMember] = frozenset()

    @property
    def is_stable(self) -> bool:
        """Whether neither the members nor the coordinator report a rebalance."""
        return not self.status and self.state not in UNSTABLE_STATES


UNSTABLE_STATES = {
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
}
"""States of a coordinator in which a group rebalances."""


def group_views(live: Live) -> list[GroupView]:
    """Return every group that was seen or inspected.

    Groups that are not stable come first, then those with the highest status.
    """
    consumers, instances = _by_group(live.consumers), _by_group(live.instances)
    found = dict[tuple[str, str], GroupView]()
    for row in live.groups:
        key = (row.cluster, row.group)
        found[key] = _from_members(row, consumers[key], instances[key])
    for hidden in live.unseen:
        found[hidden.cluster, hidden.group] = GroupView(
            cluster=hidden.cluster, group=hidden.group, group_type=hidden.group_type
        )
    for inspected in live.inspected:
        # a row without a cluster belongs to the inspected one
        key = next(
            (k for k in _keys(inspected) if k in found), (inspected.cluster, inspected.group)
        )
        found[key] = _add_inspection(inspected, found.get(key))
    return sorted(found.values(), key=_order)


def _by_group(rows: Iterable[MemberRow]) -> dict[tuple[str, str], list[MemberRow]]:
    found = defaultdict[tuple[str, str], list[MemberRow]](list)
    for row in rows:
        found[row.cluster, row.group].append(row)
    return found


def _keys(inspected: InspectedGroup) -> tuple[tuple[str, str], ...]:
    return (inspected.cluster, inspected.group), ("", inspected.group)


def _from_members(
    row: GroupRow, consumers: Sequence[MemberRow], instances: Sequence[MemberRow]
) -> GroupView:
    raised = [member for member in (*instances, *consumers) if member.status]
    generations = (member.generation for member in consumers if member.generation is not None)
    return GroupView(
        cluster=row.cluster,
        group=row.group,
        group_type=row.group_type,
        status=row.status,
        peak=row.peak,
        highest_member=max(raised, key=lambda member: member.status, default=None),
        members=len(consumers),
        generation=max(generations, default=None),
        observed_members=(*instances, *consumers),
    )


def _add_inspection(inspected: InspectedGroup, seen: GroupView | None) -> GroupView:
    view = seen or GroupView(
        cluster=inspected.cluster, group=inspected.group, group_type=inspected.group_type
    )
    return replace(
        view,
        group_type=inspected.group_type,
        members=view.members if inspected.members is None else inspected.members,
        state=inspected.state,
        generation=view.generation if inspected.generation is None else inspected.generation,
        inspected_members=inspected.who,
    )


def _order(view: GroupView) -> tuple[bool, int, str, str]:
    status = -1 if view.status is None else view.status
    return view.is_stable, -status, view.cluster, view.group
