"""ListGroups at every broker, combined: each broker lists the groups that it coordinates."""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from agent.inspection.connection.admin_requests import STRUCT_WEIGHT, Api, digest
from agent.inspection.connection.backoff import RETRIABLE, Backoff
from agent.inspection.connection.broker_pool import BrokerPool, ClusterView, down_broker
from agent.inspection.connection.errors import BrokerError, RefusedError, UnreachableError
from agent.inspection.model import DownBroker, Listing, Node, parse_state, parse_type
from agent.wire.codec.schema import Fields
from agent.wire.members.error_codes import describe_error as error_name


class ClusterListing(NamedTuple):
    """All groups by name, and the brokers that are missing."""

    groups: tuple[Listing, ...]
    down: tuple[DownBroker, ...]


class CachedListing(NamedTuple):
    """A broker's last response, by its digest, and its groups."""

    digest: bytes
    groups: tuple[Listing, ...]


ListingCache = dict[Node, CachedListing]


async def list_groups(
    brokers: BrokerPool, view: ClusterView, timeout_s: float, cache: ListingCache | None = None
) -> ClusterListing:
    """List the groups of every broker of the view; a broker that fails is in ``down``.

    ``cache`` holds each broker's last response: an equal one is not decoded again.
    """
    known = ListingCache() if cache is None else cache
    for node in known.keys() - set(view.nodes):
        del known[node]
    answers = await asyncio.gather(
        *(_list_at(brokers, node, timeout_s, known) for node in view.nodes)
    )
    down = [answer for answer in answers if isinstance(answer, DownBroker)]
    groups: dict[str, Listing] = {}
    for answer in answers:
        if not isinstance(answer, DownBroker):
            groups |= {listing.group: listing for listing in answer}
    return ClusterListing(
        groups=tuple(groups[name] for name in sorted(groups)), down=(*view.down, *down)
    )


def max_groups(brokers: BrokerPool) -> int:
    """Return the limit of groups of all brokers: as many as one response may have."""
    return brokers.limits.elements // STRUCT_WEIGHT


async def _list_at(
    brokers: BrokerPool, node: Node, patience_s: float, cache: ListingCache
) -> tuple[Listing, ...] | DownBroker:
    backoff = Backoff(patience_s)
    while True:
        try:
            # no filter: older brokers have none, so every listing is filtered here
            async with brokers.receive(
                node, Api.LIST_GROUPS, states_filter=(), types_filter=()
            ) as response:
                content = digest(response.frame)
                if node in cache and cache[node].digest == content:
                    return cache[node].groups
                code, listings = await response.decode(partial(_read_listings, node=node))
        except BrokerError as error:
            return down_broker(node, error)
        if not code:
            others = sum(len(each.groups) for other, each in cache.items() if other != node)
            if others + len(listings) > max_groups(brokers):
                cache.pop(node, None)
                text = f"{node.address}: ListGroups: a cluster of more than {max_groups(brokers)}"
                return down_broker(node, RefusedError(f"{text} groups", "too_many"))
            cache[node] = CachedListing(content, listings)
            return cache[node].groups
        if code not in RETRIABLE or not await backoff.wait():
            text = f"{node.address}: ListGroups: {error_name(code)}"
            return down_broker(node, UnreachableError(text, "list_groups"))


def _read_listings(fields: Fields, node: Node) -> tuple[int, tuple[Listing, ...]]:
    """Return a response's error code and its groups."""
    return fields["error_code"], tuple(_listings(fields, node))


def _listings(fields: Fields, node: Node) -> Iterable[Listing]:
    for each in fields["groups"] or ():
        yield Listing(
            group=each["group_id"],
            type=parse_type(each.get("group_type", "")),
            protocol=each["protocol_type"],
            state=parse_state(each.get("group_state", "")),
            coordinator=node,
        )
