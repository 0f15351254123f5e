"""Differences of groups between two polls.

Theory of operation. A rebalance can begin and end between two polls, and the state is Stable in
both. It leaves traces: another epoch or other member ids. A classic group has no epoch, and no
broker reports its generation: its traces are other member ids (new with every start of a dynamic
member) or other assignments. A classic rebalance that changes neither leaves no trace.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from sys import intern
from typing import NamedTuple

from agent.inspection.model import (
    Description,
    GroupState,
    GroupType,
    Listing,
    MemberDescription,
)
from metrics.model.snapshot import InspectedMember


class GroupSnapshot(NamedTuple):
    """One group at one poll, reduced to the fields that the next poll is compared with."""

    group: str
    type: GroupType
    state: GroupState
    epoch: int | None
    members: frozenset[InspectedMember] | None
    """None: the group is listed, and could not be described so far."""
    assignments: bytes | None
    """Sorted 8-byte hashes of member and partition; None where the broker reports none."""
    assignor: str | None = None
    """None while a classic group rebalances."""


class MembershipChange(NamedTuple):
    """A change of a group's membership."""

    group: str
    group_type: str
    joined: frozenset[InspectedMember]
    left: frozenset[InspectedMember]
    moved: int | None = None
    """Partitions with another owner; None: not known yet, while the group rebalances."""
    assignors: tuple[str, str] | None = None
    """The assignor before and after, where it changed: an upgrade of the strategy has ended."""


_OWNED = {GroupType.CLASSIC, GroupType.CONSUMER}
"""Types of groups with one owner a partition."""


@dataclass(slots=True)
class TrackedGroup:
    """A group, and its count of membership changes since the first poll."""

    snapshot: GroupSnapshot
    changes: int = 0


def snapshot_of(described: Description) -> GroupSnapshot:
    """Reduce a description, which is large, to a snapshot."""
    members, assignments = described.members, None
    if described.type in _OWNED and described.state is GroupState.STABLE:
        assignments = array("q", sorted(_hash_assignments(members))).tobytes()
    return GroupSnapshot(
        group=described.group,
        type=described.type,
        state=described.state,
        epoch=described.epoch,
        members=frozenset(
            InspectedMember(
                m.member_id, intern(m.client_id), intern(m.host.lstrip("/")), m.instance_id
            )
            for m in members
        ),
        assignments=assignments,
        assignor=intern(described.assignor) if described.assignor else None,
    )


def _hash_assignments(members: Iterable[MemberDescription]) -> Iterator[int]:
    for member in members:
        for topic, numbers in (member.owned or {}).items():
            for number in numbers:
                yield hash((member.member_id, topic, number))


class MembershipTracker:
    """Tracks every group that inspection knows, by name."""

    def __init__(self) -> None:
        self.groups: dict[str, TrackedGroup] = {}

    def update(
        self, polled: Iterable[GroupSnapshot], gone: Iterable[str]
    ) -> Iterator[MembershipChange]:
        """Compare a poll with the last one; groups that were not polled stay as they are."""
        for name in gone:
            self.groups.pop(name, None)
        for snapshot in polled:
            known = self.groups.get(snapshot.group)
            if known is None or known.snapshot.members is None:
                self.groups[snapshot.group] = TrackedGroup(snapshot)
                continue
            before, known.snapshot = known.snapshot, _carry_over(snapshot, known.snapshot)
            if _is_changed(before, known.snapshot):
                known.changes += 1
                yield _membership_change(before, snapshot)

    def update_listed(self, listings: Iterable[Listing]) -> None:
        """Update type and state of groups that are listed and could not be described."""
        for listing in listings:
            if listing.type is None or listing.state is None:
                continue
            known = self.groups.get(listing.group)
            if known is not None and known.snapshot.type is listing.type:
                known.snapshot = known.snapshot._replace(state=listing.state)
            elif known is None:
                snapshot = GroupSnapshot(
                    listing.group, listing.type, listing.state, None, None, None
                )
                self.groups[listing.group] = TrackedGroup(snapshot)


def _membership_change(before: GroupSnapshot, after: GroupSnapshot) -> MembershipChange:
    members_before, members = before.members or frozenset(), after.members or frozenset()
    return MembershipChange(
        after.group,
        after.type.lower(),
        members - members_before,
        members_before - members,
        _count_moves(before.assignments, after.assignments),
        _assignor_change(before, after),
    )


def _assignor_change(before: GroupSnapshot, after: GroupSnapshot) -> tuple[str, str] | None:
    if before.assignor is None or after.assignor is None or before.assignor == after.assignor:
        return None
    return before.assignor, after.assignor


def _count_moves(before: bytes | None, after: bytes | None) -> int | None:
    if before is None or after is None:
        return None
    return len(set(array("q", after)) - set(array("q", before)))


def _carry_over(snapshot: GroupSnapshot, before: GroupSnapshot) -> GroupSnapshot:
    """Keep the last assignments and assignor while a rebalance is in progress, to compare with."""
    if snapshot.type is not before.type or not snapshot.members:
        return snapshot
    if snapshot.assignments is None:
        snapshot = snapshot._replace(assignments=before.assignments)
    return snapshot._replace(assignor=snapshot.assignor or before.assignor)


def _is_changed(before: GroupSnapshot, after: GroupSnapshot) -> bool:
    is_moved = (before.type, before.epoch, before.members, before.assignments) != (
        after.type,
        after.epoch,
        after.members,
        after.assignments,
    )
    return is_moved or _assignor_change(before, after) is not None
