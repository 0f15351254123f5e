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
    """Sorted 8-byte hashes of member and partition; None: the broker reports none."""
    assignor: str | None = None
    """None while a classic group rebalances."""
    protocol: str = ""
    """The type, of a classic group with its protocol type."""
    leader: str | None = None
    """Client id of the leader, if members name it: Connect and schema registries."""
    subscription: tuple[str, ...] | None = None
    """Topics and patterns of all members; None while a classic group rebalances."""


class AttributeChange(NamedTuple):
    """A changed attribute of a group."""

    field: str
    before: str | None
    after: str


class MembershipChange(NamedTuple):
    """A change of a group's membership."""

    group: str
    group_type: str
    joined: frozenset[InspectedMember]
    left: frozenset[InspectedMember]
    moved: int | None = None
    """Partitions with another owner; None: not known yet, while the group rebalances."""
    attributes: tuple[AttributeChange, ...] = ()
    """Another assignor is the end of an upgrade of the strategy."""


_OBJECT_BYTES = 400
"""Of a member with its four texts."""
_TEXT_MAX = 1000
"""Characters of a changed subscription in a record."""
_OWNED = {GroupType.CLASSIC, GroupType.CONSUMER}
"""Types of groups with one owner a partition."""


@dataclass(slots=True)
class TrackedGroup:
    """A group, and its count of membership changes since the first poll."""

    snapshot: GroupSnapshot
    changes: int = 0
    polled: GroupSnapshot | None = None
    """The last poll's own result, without the values kept from before a rebalance.

    If the next response is equal, this object is used again.
    """


def snapshot_of(described: Description) -> GroupSnapshot:
    """Reduce a description to a snapshot: a description is large."""
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
        protocol=_protocol(described),
        leader=_leader(described),
        subscription=_subscription(members),
    )


def size_bytes(snapshot: GroupSnapshot) -> int:
    """Return some size of a snapshot in memory: its texts and objects."""
    texts = sum(map(len, snapshot.subscription or ()))
    for each in snapshot.members or ():
        texts += len(each.member_id) + len(each.client_id) + len(each.host)
    count = len(snapshot.members or ()) + len(snapshot.subscription or ())
    return texts + count * _OBJECT_BYTES + len(snapshot.assignments or b"")


def _protocol(described: Description) -> str:
    kind = described.type.lower()
    is_other = described.type is GroupType.CLASSIC and described.protocol not in {"", "consumer"}
    return intern(f"{kind} {described.protocol}" if is_other else kind)


def _leader(described: Description) -> str | None:
    """Return the leader's client id and host: its member id is another after every start."""
    for member in described.members:
        if member.member_id == described.leader:
            return intern(f"{member.client_id} {member.url or member.host.lstrip('/')}")
    return None


def _subscription(members: Iterable[MemberDescription]) -> tuple[str, ...] | None:
    """Return the subscriptions of all members; equal tuples of groups share their texts."""
    wanted = set[str]()
    is_known = False
    for member in members:
        is_known = is_known or member.subscription is not None
        wanted.update(member.subscription or ())
        if member.subscription_regex:
            wanted.add(f"re:{member.subscription_regex}")
    return tuple(map(intern, sorted(wanted))) if is_known else None


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
                self.groups[snapshot.group] = TrackedGroup(snapshot, polled=snapshot)
                continue
            if known.polled is snapshot:
                continue
            known.polled = snapshot
            before, known.snapshot = known.snapshot, _carry_over(snapshot, known.snapshot)
            if _is_changed(before, known.snapshot):
                known.changes += 1
                yield _membership_change(before, known.snapshot, snapshot.assignments)

    def update_listed(self, listings: Iterable[Listing]) -> None:
        """Update type and state of groups that are listed and could not be described."""
        for listing in listings:
            if listing.type is None or listing.state is None:
                continue
            known = self.groups.get(listing.group)
            if known is not None and known.snapshot.type is listing.type:
                known.snapshot = known.snapshot._replace(state=listing.state)
                known.polled = None
            elif known is None:
                snapshot = GroupSnapshot(
                    listing.group, listing.type, listing.state, None, None, None
                )
                self.groups[listing.group] = TrackedGroup(snapshot)


def _membership_change(
    before: GroupSnapshot, after: GroupSnapshot, assignments: bytes | None
) -> MembershipChange:
    members_before, members = before.members or frozenset(), after.members or frozenset()
    return MembershipChange(
        after.group,
        after.type.lower(),
        members - members_before,
        members_before - members,
        _count_moves(before.assignments, assignments),
        tuple(_attribute_changes(before, after)),
    )


def _attribute_changes(before: GroupSnapshot, after: GroupSnapshot) -> Iterator[AttributeChange]:
    """Return changes between two known values."""
    for field in ("protocol", "assignor", "leader"):
        values = getattr(before, field), getattr(after, field)
        if all(values) and values[0] != values[1]:
            yield AttributeChange(field, *values)
    if None not in (before.subscription, after.subscription):
        topics = _spell_topics(before.subscription), _spell_topics(after.subscription)
        if before.subscription != after.subscription:
            yield AttributeChange("subscription", *topics)


def _spell_topics(topics: tuple[str, ...] | None) -> str:
    """Return topics after commas, as long as a record's text may be."""
    text = ",".join(topics or ())
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}... ({len(topics or ())})"


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
    if snapshot.subscription is None:
        snapshot = snapshot._replace(subscription=before.subscription)
    return snapshot._replace(
        assignor=snapshot.assignor or before.assignor, leader=snapshot.leader or before.leader
    )


def _is_changed(before: GroupSnapshot, after: GroupSnapshot) -> bool:
    is_moved = (before.type, before.epoch, before.members, before.assignments) != (
        after.type,
        after.epoch,
        after.members,
        after.assignments,
    )
    return is_moved or any(True for _ in _attribute_changes(before, after))
