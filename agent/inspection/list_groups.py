"""ListGroups at every broker, combined: each broker lists the groups that it coordinates."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from agent.inspection.admin_requests import Api
from agent.inspection.backoff import RETRIABLE, Backoff
from agent.inspection.broker_pool import Brokers, ClusterView, told
from agent.inspection.errors import BrokerError, UnreachableError
from agent.inspection.model import Down, Listing, Node, parse_state, parse_type
from agent.wire.codec.schema import Fields
from agent.wire.members.error_codes import describe_error as error_name


class Listed(NamedTuple):
    """All groups by name, and what may be missing."""

    groups: tuple[Listing, ...]
    down: tuple[Down, ...]


async def list_groups(brokers: Brokers, view: ClusterView, patience_s: float) -> Listed:
    """Ask every broker of the view; one that fails is told, and the others' groups are returned."""
    answers = await asyncio.gather(*(_list_at(brokers, node, patience_s) for node in view.nodes))
    down = [answer for answer in answers if isinstance(answer, Down)]
    groups: dict[str, Listing] = {}
    for answer in answers:
        if not isinstance(answer, Down):
            groups |= {listing.group: listing for listing in answer}
    return Listed(groups=tuple(groups[name] for name in sorted(groups)), down=(*view.down, *down))


async def _list_at(brokers: Brokers, node: Node, patience_s: float) -> list[Listing] | Down:
    backoff = Backoff(patience_s)
    while True:
        try:
            # no filter: what an older broker cannot filter is filtered by us, so all is
            fields = await brokers.ask(node, Api.LIST_GROUPS, states_filter=(), types_filter=())
        except BrokerError as error:
            return told(node, error)
        code = fields["error_code"]
        if not code:
            return list(_listings(fields, node))
        if code not in RETRIABLE or not await backoff.wait():
            text = f"{node.address}: ListGroups: {error_name(code)}"
            return told(node, UnreachableError(text, "list_groups"))


def _listings(fields: Fields, node: Node) -> Iterable[Listing]:
    for each in fields["groups"] or ():
        yield Listing(
            group=each["group_id"],
            type=parse_type(each.get("group_type", "")),
            protocol=each["protocol_type"],
            state=parse_state(each.get("group_state", "")),
            coordinator=node,
        )
