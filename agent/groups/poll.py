"""One poll: every watched group, described at its coordinator."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from agent.groups.brokers import Brokers
from agent.groups.coordinators import Coordinators
from agent.groups.describing import KINDS, Describer, is_missing
from agent.groups.listing import list_groups
from agent.groups.model import Down, Failure, GroupType, Listing
from agent.groups.watch import Facts, facts_of

PATIENCE_S = 3.0
"""A coordinator that moves is asked again within the poll; the next poll comes anyway."""


class Polled(NamedTuple):
    """What a poll has found; groups that are neither polled nor gone could not be asked."""

    cluster_id: str
    groups: tuple[Facts, ...]
    gone: frozenset[str]
    down: tuple[Down, ...]
    failures: tuple[Failure, ...]


async def poll(brokers: Brokers, watched: Callable[[str], bool], known: Collection[str]) -> Polled:
    """Ask every broker; of ``known`` groups that none lists, tell whether they are gone.

    Raises:
        BrokerError: no broker can be used.

    """
    view = await brokers.refresh()
    listed = await list_groups(brokers, view, PATIENCE_S)
    listings = [each for each in listed.groups if watched(each.group)]
    coordinators = {each.group: each.coordinator for each in listings}
    describer: Describer[Facts] = Describer(brokers, facts_of, patience_s=PATIENCE_S)
    unlisted = frozenset(known) - coordinators.keys()
    answers = await _describe(describer, listings, coordinators)
    answers |= await describer.any(sorted(unlisted), coordinators)
    gone = frozenset(name for name, answer in answers.items() if is_missing(answer))
    return Polled(
        cluster_id=view.cluster_id,
        groups=tuple(each for each in answers.values() if isinstance(each, Facts)),
        gone=gone,
        down=listed.down,
        failures=tuple(
            each
            for each in answers.values()
            if isinstance(each, Failure) and each.group not in gone
        ),
    )


async def _describe(
    describer: Describer[Facts], listings: Iterable[Listing], coordinators: Coordinators
) -> dict[str, Facts | Failure]:
    by_type: dict[GroupType | None, list[str]] = {}
    for listing in listings:
        by_type.setdefault(listing.type, []).append(listing.group)
    by_type.pop(GroupType.UNKNOWN, None)  # newer than we are
    answers = await asyncio.gather(
        *(
            describer.any(names, coordinators, KINDS if kind is None else [kind])
            for kind, names in by_type.items()
        )
    )
    return {name: answer for each in answers for name, answer in each.items()}
