"""Generation, leader and votes of classic groups, from an agent, a hub or records.

No broker reports them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from agent.client.api_client import ask
from agent.client.record_files import read_records
from agent.errors import RecordsError
from agent.inspection.assignor_votes import count_votes
from agent.inspection.model import Description, Failure, GroupType


class _ObservedMember(msgspec.Struct):
    """A member as an agent, a hub or a record reports it."""

    member_id: str | None
    generation: int | None
    leader: str | None = None
    """The member id of the group's leader; records have none."""
    client_id: str = ""
    assignors: tuple[str, ...] | None = None
    """The assignors that it supports; records have none."""


def add_generations(
    answers: Sequence[Description | Failure], place: str
) -> list[Description | Failure]:
    """Add the members' generation and assignors to descriptions of classic groups.

    ``place`` is the URL of an agent, a spool, or tables. Only the members in the coordinator's
    description count: others are of another time or cluster.

    Raises:
        RebalanceAgentError: ``place`` cannot be read.

    """
    return [
        _add_generation(each, _find_members(place, each.group))
        if isinstance(each, Description) and each.type is GroupType.CLASSIC
        else each
        for each in answers
    ]


def _find_members(place: str, group: str) -> Sequence[_ObservedMember]:
    if place.startswith(("http://", "https://")):
        return list(ask(place, "members", list[_ObservedMember], group=group))
    found = read_records(place, group)
    if found.faults:
        raise RecordsError("; ".join(found.faults))
    return [_ObservedMember(each.member_id, each.generation) for each in found.records]


def _add_generation(described: Description, seen: Iterable[_ObservedMember]) -> Description:
    member_ids = {member.member_id for member in described.members}
    known = [each for each in seen if each.member_id in member_ids and each.generation is not None]
    if not known:
        return described
    newest = max(known, key=lambda each: (each.generation or 0, each.leader is not None))
    leader = newest.leader if newest.leader in member_ids else described.leader
    described = replace(described, generation=newest.generation, leader=leader)
    return _add_votes(
        described, {each.member_id: each.assignors for each in known if each.assignors}
    )


def _add_votes(
    described: Description, assignors: Mapping[str | None, tuple[str, ...]]
) -> Description:
    """Add each member's assignors; count the votes if the assignors of all members are known."""
    members = tuple(
        replace(member, assignors=assignors.get(member.member_id)) for member in described.members
    )
    supported = {each.member_id: each.assignors for each in members if each.assignors}
    votes = None
    if len(supported) == len(members):
        votes = count_votes(supported, described.assignor)
    return replace(described, members=members, assignor_votes=votes)
