"""One poll: every watched group, described at its coordinator."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.coordinator_lookup import Coordinators
from agent.inspection.describe_groups import DESCRIBE_APIS, Describer, is_missing
from agent.inspection.group_configs import GroupSession, SessionReader
from agent.inspection.lag import GroupLag, LagReader
from agent.inspection.list_groups import ListingCache, list_groups
from agent.inspection.membership_diff import GroupSnapshot, snapshot_of
from agent.inspection.model import DownBroker, Failure, GroupType, Listing

RETRY_TIMEOUT_S = 3.0
"""A moved coordinator is retried within the poll; the next poll follows anyway."""


class PollResult(NamedTuple):
    """The result of a poll; a group in neither ``groups`` nor ``gone`` could not be described."""

    cluster_id: str
    groups: tuple[GroupSnapshot, ...]
    gone: frozenset[str]
    down: tuple[DownBroker, ...]
    failures: tuple[Failure, ...]
    undescribed: tuple[Listing, ...] = ()
    """Groups that are listed and could not be described."""


class Poller:
    """Polls one cluster repeatedly."""

    def __init__(
        self, brokers: BrokerPool, is_watched: Callable[[str], bool], *, by_partition: bool = False
    ) -> None:
        self._brokers, self._watched = brokers, is_watched
        self._coordinators: Coordinators = {}
        self._listings: ListingCache = {}
        self._describer: Describer[GroupSnapshot] = Describer(
            brokers, snapshot_of, timeout_s=RETRY_TIMEOUT_S
        )
        self._sessions = SessionReader(brokers)
        self._lags = LagReader(brokers, RETRY_TIMEOUT_S, by_partition=by_partition)

    async def poll(self, known: Collection[str]) -> PollResult:
        """List and describe the groups of every broker; ``known`` unlisted groups may be gone.

        Raises:
            BrokerError: no broker can be used.

        """
        view = await self._brokers.refresh()
        listed = await list_groups(self._brokers, view, RETRY_TIMEOUT_S, self._listings)
        listings = [each for each in listed.groups if self._watched(each.group)]
        coordinators = {each.group: each.coordinator for each in listings}
        unlisted = frozenset(known) - coordinators.keys()
        self._coordinators = coordinators
        self._describer.start_poll()
        results = await self._describe(listings, coordinators)
        results |= await self._describer.describe_any(sorted(unlisted), coordinators)
        gone = frozenset(name for name, result in results.items() if is_missing(result))
        failures = tuple(
            each
            for each in results.values()
            if isinstance(each, Failure) and each.group not in gone
        )
        failed = {each.group for each in failures}
        return PollResult(
            cluster_id=view.cluster_id,
            groups=tuple(each for each in results.values() if isinstance(each, GroupSnapshot)),
            gone=gone,
            down=listed.down,
            failures=failures,
            undescribed=tuple(each for each in listings if each.group in failed),
        )

    async def lags(self, groups: Iterable[GroupSnapshot]) -> dict[str, GroupLag | Failure]:
        """Return the lag of groups of the last poll.

        Raises:
            BrokerError: no broker can be used.

        """
        by_type: dict[GroupType, list[str]] = {}
        for each in groups:
            if each.group in self._coordinators:
                by_type.setdefault(each.type, []).append(each.group)
        return await self._lags.read(by_type, self._coordinators)

    async def sessions(self, groups: Iterable[GroupSnapshot]) -> dict[str, GroupSession]:
        """Return session timeouts at the broker, of those groups that it is time to read."""
        return await self._sessions.read([(each.group, each.type) for each in groups])

    async def _describe(
        self, listings: Iterable[Listing], coordinators: Coordinators
    ) -> dict[str, GroupSnapshot | Failure]:
        by_type: dict[GroupType | None, list[str]] = {}
        for listing in listings:
            by_type.setdefault(listing.type, []).append(listing.group)
        by_type.pop(GroupType.UNKNOWN, None)  # newer than we are
        results = await asyncio.gather(
            *(
                self._describer.describe_any(
                    names, coordinators, DESCRIBE_APIS if kind is None else [kind]
                )
                for kind, names in by_type.items()
            )
        )
        return {name: result for each in results for name, result in each.items()}
