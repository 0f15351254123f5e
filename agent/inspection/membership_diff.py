"""What changed in groups between two polls.

Theory of operation. A rebalance can begin and end between two polls, and the state is Stable in
both. What it leaves behind tells: another epoch, or other member ids; in a classic group, whose
generation no broker tells, other member ids or assignments (a member id is new with every start of
a dynamic member). A classic rebalance that gives everyone the same again leaves nothing behind.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from sys import intern
from typing import NamedTuple

from agent.inspection.model import Description, GroupState, GroupType, Member


class MemberRef(NamedTuple):
    """A member of a group, as its coordinator names it."""

    member_id: str
    client_id: str
    host: str


class GroupSnapshot(NamedTuple):
    """What is kept of a group from one poll to the next."""

    group: str
    type: GroupType
    state: GroupState
    epoch: int | None
    members: frozenset[MemberRef]
    assignments: bytes | None
    """Who has what: sorted hashes of 8 bytes; None where the broker does not tell it."""


class MembershipChange(NamedTuple):
    """The membership of a group changed."""

    group: str
    group_type: str
    joined: frozenset[MemberRef]
    left: frozenset[MemberRef]
    moved: int | None = None
    """Partitions that another member has now; None: not known yet, while the group rebalances."""


_OWNED = {GroupType.CLASSIC, GroupType.CONSUMER}
"""Types of groups whose members have partitions to themselves."""


@dataclass(slots=True)
class TrackedGroup:
    """A group, and how often its membership changed since it was first seen."""

    snapshot: GroupSnapshot
    changes: int = 0


def snapshot_of(described: Description) -> GroupSnapshot:
    """Return what is kept of a description; the rest of it is large."""
    members, assignments = described.members, None
    if described.type in _OWNED and described.state is GroupState.STABLE:
        assignments = array("q", sorted(_hash_assignments(members))).tobytes()
    return GroupSnapshot(
        group=described.group,
        type=described.type,
        state=described.state,
        epoch=described.epoch,
        members=frozenset(
            MemberRef(m.member_id, intern(m.client_id), intern(m.host.lstrip("/"))) for m in members
        ),
        assignments=assignments,
    )


def _hash_assignments(members: Iterable[Member]) -> Iterator[int]:
    for member in members:
        for topic, numbers in (member.owned or {}).items():
            for number in numbers:
                yield hash((member.member_id, topic, number))


class MembershipTracker:
    """Every group that inspection knows, by name."""

    def __init__(self) -> None:
        self.groups: dict[str, TrackedGroup] = {}

    def update(
        self, polled: Iterable[GroupSnapshot], gone: Iterable[str]
    ) -> Iterator[MembershipChange]:
        """Take a poll's answers; what was not answered stays as it was."""
        for name in gone:
            self.groups.pop(name, None)
        for facts in polled:
            known = self.groups.get(facts.group)
            if known is None:
                self.groups[facts.group] = TrackedGroup(facts)
                continue
            before, known.snapshot = known.snapshot, _carry_assignments(facts, known.snapshot)
            if _is_changed(before, known.snapshot):
                known.changes += 1
                yield MembershipChange(
                    facts.group,
                    facts.type.lower(),
                    facts.members - before.members,
                    before.members - facts.members,
                    _count_moves(before.assignments, facts.assignments),
                )


def _count_moves(before: bytes | None, after: bytes | None) -> int | None:
    if before is None or after is None:
        return None
    return len(set(array("q", after)) - set(array("q", before)))


def _carry_assignments(facts: GroupSnapshot, before: GroupSnapshot) -> GroupSnapshot:
    """Keep the last assignments over a rebalance that is still going on, to compare with."""
    if facts.assignments is None and facts.type is before.type and facts.members:
        return facts._replace(assignments=before.assignments)
    return facts


def _is_changed(before: GroupSnapshot, after: GroupSnapshot) -> bool:
    return (before.type, before.epoch, before.members, before.assignments) != (
        after.type,
        after.epoch,
        after.members,
        after.assignments,
    )
