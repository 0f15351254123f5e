"""What no broker tells of a classic group and an agent that sees its members does."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from agent.api_client import ask
from agent.groups.model import Description, Failure, GroupType


class _Member(msgspec.Struct):
    group: str
    generation: int | None


def with_generations(
    answers: Sequence[Description | Failure], place: str
) -> list[Description | Failure]:
    """Add the generation that the members of classic groups have at an agent or a hub.

    Raises:
        RebalanceAgentError: it does not answer.

    """
    newest: dict[str, int] = {}
    for member in ask(place, "members", list[_Member]):
        if member.generation is not None:
            newest[member.group] = max(member.generation, newest.get(member.group, 0))
    return [
        replace(each, generation=newest.get(each.group))
        if isinstance(each, Description) and each.type is GroupType.CLASSIC
        else each
        for each in answers
    ]
