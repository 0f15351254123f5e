"""Admin client of `groups list` and `groups describe`, from connecting to closing."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from agent.inspection.connection.broker_pool import BrokerPool, ClusterView
from agent.inspection.connection.errors import RefusedError
from agent.inspection.connection.security import Security
from agent.inspection.describe_groups import DescribeResult, describe_groups, is_missing
from agent.inspection.filters import GroupFilter
from agent.inspection.group_offsets import add_offsets
from agent.inspection.list_groups import ClusterListing, list_groups
from agent.inspection.model import Description, Failure, GroupType, Listing

RETRY_TIMEOUT_S = 15.0
"""A broker that died is fenced after 9 s by default; then its groups get another coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Address and credentials of a cluster."""

    bootstrap: tuple[tuple[str, int], ...]
    security: Callable[[], Security]
    timeout_s: float


class ListingResult(NamedTuple):
    """The groups that pass the filter; ``is_denied``: ACLs may hide others."""

    listed: ClusterListing
    is_denied: bool


async def list_matching_groups(access: Access, chosen: GroupFilter) -> ListingResult:
    """List the groups that pass the filter.

    Raises:
        BrokerError: no broker can be used.

    """
    async with _open(access) as brokers:
        view = await brokers.refresh()
        listed = await list_groups(brokers, view, RETRY_TIMEOUT_S)
        named = [each for each in listed.groups if chosen.has_name(each.group)]
        groups = await _complete_listings(brokers, named, chosen)
        if view.is_denied and not listed.groups:
            raise RefusedError(
                "no group is visible: an ACL for Describe on the cluster, or on groups, is wanted",
                "denied",
            )
    return ListingResult(listed._replace(groups=tuple(chosen.choose(groups))), view.is_denied)


class Extras(NamedTuple):
    """Details of a description that cost requests. ``time_lag`` has the offsets with it."""

    authorized_operations: bool = False
    offsets: bool = False
    time_lag: bool = False


async def describe(
    access: Access,
    groups: Sequence[str],
    group_type: GroupType | None,
    wanted: Extras,
) -> list[Description | Failure]:
    """Describe the groups, in this order.

    Raises:
        BrokerError: no broker can be used.

    """
    async with _open(access) as brokers:
        view = await brokers.refresh()  # if no broker responds, nothing is retried
        results = await describe_groups(
            brokers,
            groups,
            group_type,
            authorized_operations=wanted.authorized_operations,
            timeout_s=RETRY_TIMEOUT_S,
        )
        if wanted.offsets or wanted.time_lag:
            results = await add_offsets(brokers, results, RETRY_TIMEOUT_S, time_lag=wanted.time_lag)
        return await _add_listed_states(brokers, view, results)


async def _add_listed_states(
    brokers: BrokerPool, view: ClusterView, results: Sequence[DescribeResult]
) -> list[DescribeResult]:
    """Add type and state from the list to groups that exist and cannot be described."""
    if not any(isinstance(each, Failure) and not is_missing(each) for each in results):
        return list(results)
    listed = {g.group: g for g in (await list_groups(brokers, view, RETRY_TIMEOUT_S)).groups}
    return [
        replace(each, type=listed[each.group].type, state=listed[each.group].state)
        if isinstance(each, Failure) and each.group in listed and each.state is None
        else each
        for each in results
    ]


@asynccontextmanager
async def _open(access: Access) -> AsyncIterator[BrokerPool]:
    brokers = BrokerPool(access.bootstrap, access.security, timeout_s=access.timeout_s)
    try:
        yield brokers
    finally:
        await brokers.close()


async def _complete_listings(
    brokers: BrokerPool, groups: Sequence[Listing], chosen: GroupFilter
) -> list[Listing]:
    """Describe groups if the filter needs a type or state that an older broker's list lacks."""
    unclear = [g.group for g in groups if chosen.needs_type(g) or chosen.needs_state(g)]
    answers = await describe_groups(brokers, unclear, timeout_s=RETRY_TIMEOUT_S)
    described = {each.group: each for each in answers if isinstance(each, Description)}
    return [
        replace(g, type=described[g.group].type, state=described[g.group].state)
        if g.group in described
        else g
        for g in groups
    ]
