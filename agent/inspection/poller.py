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
from agent.inspection.membership_diff import GroupSnapshot, size_bytes, snapshot_of
from agent.inspection.model import Description, DownBroker, Failure, GroupType, Listing

RETRY_TIMEOUT_S = 3.0
"""A moved coordinator is retried within the poll; the next poll follows anyway."""


class PollLimits(NamedTuple):
    """What a poller keeps from one poll to the next, at most."""

    groups: int = 1_000_000
    snapshot_bytes: int = 1 << 30
    """Of all groups."""


class PollResult(NamedTuple):
    """The result of a poll; a group in neither ``groups`` nor ``gone`` could not be described."""

    cluster_id: str
    groups: tuple[GroupSnapshot, ...]
    gone: frozenset[str]
    down: tuple[DownBroker, ...]
    failures: tuple[Failure, ...]
    undescribed: tuple[Listing, ...] = ()
    """Groups that are listed and could not be described."""
    excess: int = 0
    """Groups beyond the limit: none of them was described."""


class Poller:
    """Polls one cluster repeatedly."""

    def __init__(
        self,
        brokers: BrokerPool,
        is_watched: Callable[[str], bool],
        *,
        by_partition: bool = False,
        limits: PollLimits | None = None,
    ) -> None:
        self._brokers, self._watched = brokers, is_watched
        self._limits = PollLimits() if limits is None else limits
        self._sizes: dict[str, int] = {}
        """Bytes of each group's snapshot."""
        self._total_bytes = 0
        self._coordinators: Coordinators = {}
        self._listings: ListingCache = {}
        self._describer: Describer[GroupSnapshot] = Describer(
            brokers, self._reduce, timeout_s=RETRY_TIMEOUT_S
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
        watched = [each for each in listed.groups if self._watched(each.group)]
        listings = self._within_limit(watched, known)
        coordinators = {each.group: each.coordinator for each in listings}
        unlisted = frozenset(known) - coordinators.keys()
        self._forget_sizes(coordinators.keys() | unlisted)
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
            excess=len(watched) - len(listings),
        )

    def _within_limit(self, watched: list[Listing], known: Collection[str]) -> list[Listing]:
        """Return as many groups as the limit allows, the known ones first."""
        if len(watched) <= self._limits.groups:
            return watched
        watched = sorted(watched, key=lambda each: (each.group not in known, each.group))
        return watched[: self._limits.groups]

    def _reduce(self, described: Description) -> GroupSnapshot | Failure:
        """Return a group's snapshot; a failure if all together become too large."""
        snapshot = snapshot_of(described)
        group, size = snapshot.group, size_bytes(snapshot)
        total = self._total_bytes - self._sizes.get(group, 0) + size
        if total > self._limits.snapshot_bytes:
            text = "its members and those of other groups are too many for limits.memory"
            return Failure(group=group, code="TOO_LARGE", error=text)
        self._sizes[group], self._total_bytes = size, total
        return snapshot

    def _forget_sizes(self, kept: Collection[str]) -> None:
        for group in self._sizes.keys() - kept:
            self._total_bytes -= self._sizes.pop(group)

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
