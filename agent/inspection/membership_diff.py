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


class Who(NamedTuple):
    """A member of a group, as its coordinator names it."""

    member_id: str
    client_id: str
    host: str


class Facts(NamedTuple):
    """What is kept of a group from one poll to the next."""

    group: str
    type: GroupType
    state: GroupState
    epoch: int | None
    members: frozenset[Who]
    assignments: bytes | None
    """Who has what: sorted hashes of 8 bytes; None where the broker does not tell it."""


class Change(NamedTuple):
    """The membership of a group changed."""

    group: str
    group_type: str
    joined: frozenset[Who]
    left: frozenset[Who]
    moved: int | None = None
    """Partitions that another member has now; None: not known yet, while the group rebalances."""


_OWNED = {GroupType.CLASSIC, GroupType.CONSUMER}
"""Types of groups whose members have partitions to themselves."""


@dataclass(slots=True)
class Watched:
    """A group, and how often its membership changed since it was first seen."""

    facts: Facts
    changes: int = 0


def facts_of(described: Description) -> Facts:
    """Return what is kept of a description; the rest of it is large."""
    members, assignments = described.members, None
    if described.type in _OWNED and described.state is GroupState.STABLE:
        assignments = array("q", sorted(_owned(members))).tobytes()
    return Facts(
        group=described.group,
        type=described.type,
        state=described.state,
        epoch=described.epoch,
        members=frozenset(
            Who(m.member_id, intern(m.client_id), intern(m.host.lstrip("/"))) for m in members
        ),
        assignments=assignments,
    )


def _owned(members: Iterable[Member]) -> Iterator[int]:
    for member in members:
        for topic, numbers in (member.owned or {}).items():
            for number in numbers:
                yield hash((member.member_id, topic, number))


class Watch:
    """Every group that inspection knows, by name."""

    def __init__(self) -> None:
        self.groups: dict[str, Watched] = {}

    def update(self, polled: Iterable[Facts], gone: Iterable[str]) -> Iterator[Change]:
        """Take a poll's answers; what was not answered stays as it was."""
        for name in gone:
            self.groups.pop(name, None)
        for facts in polled:
            known = self.groups.get(facts.group)
            if known is None:
                self.groups[facts.group] = Watched(facts)
                continue
            before, known.facts = known.facts, _remembering(facts, known.facts)
            if _changed(before, known.facts):
                known.changes += 1
                yield Change(
                    facts.group,
                    facts.type.lower(),
                    facts.members - before.members,
                    before.members - facts.members,
                    _moved(before.assignments, facts.assignments),
                )


def _moved(before: bytes | None, after: bytes | None) -> int | None:
    if before is None or after is None:
        return None
    return len(set(array("q", after)) - set(array("q", before)))


def _remembering(facts: Facts, before: Facts) -> Facts:
    """Keep the last assignments over a rebalance that is still going on, to compare with."""
    if facts.assignments is None and facts.type is before.type and facts.members:
        return facts._replace(assignments=before.assignments)
    return facts


def _changed(before: Facts, after: Facts) -> bool:
    return (before.type, before.epoch, before.members, before.assignments) != (
        after.type,
        after.epoch,
        after.members,
        after.assignments,
    )
