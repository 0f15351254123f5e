"""Connections to all brokers of a cluster: one connection each, one request at a time."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_connection import BrokerResponse, Connection
from agent.inspection.connection.errors import BrokerError, RefusedError, UnreachableError
from agent.inspection.connection.response_room import ResponseLimits, ResponseRoom
from agent.inspection.connection.security import Security
from agent.inspection.model import DownBroker, Node
from agent.wire.codec.schema import Fields
from agent.wire.members.error_codes import describe_error as error_name

MAX_BROKERS = 2_000
"""Brokers of a cluster, and open connections: each takes a descriptor."""
_AT_ONCE = 256
"""Brokers with a request at the same time: opening 2,000 connections stops pages for seconds."""
_OTHERS = 10
"""Brokers without a connection that are tried after the bootstrap servers: each may take as long as
its timeout, and a cluster may name thousands that are not there."""
_DESCRIBE = 1 << 8
"""AclOperation.DESCRIBE, as a bit of authorized operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster as one of its brokers reports it."""

    cluster_id: str
    responder: Node
    """The broker that reported it; its id is not known."""
    nodes: tuple[Node, ...]
    """The brokers that are up."""
    down: tuple[DownBroker, ...]
    """Brokers that the cluster fences (reported since Kafka 4.0), and silent bootstrap servers."""
    is_denied: bool
    """No ACL for Describe on the cluster: brokers leave out groups that we may not describe."""


class BrokerPool:
    """Connections to all brokers of a cluster; the caller closes it."""

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        security: Callable[[], Security],
        *,
        timeout_s: float = 10.0,
        limits: ResponseLimits | None = None,
    ) -> None:
        """Open nothing yet; ``security`` is called for each connection, as files can change."""
        self._bootstrap, self._security, self._timeout_s = bootstrap, security, timeout_s
        self._connections: dict[tuple[str, int], Connection] = {}
        self._locks: dict[tuple[str, int], asyncio.Lock] = {}
        self._nodes: tuple[Node, ...] = ()
        self._closed_bytes = 0
        self._room, self._turns = ResponseRoom(limits), asyncio.Semaphore(_AT_ONCE)

    @property
    def limits(self) -> ResponseLimits:
        """Limits of a response."""
        return self._room.limits

    @property
    def read_bytes(self) -> int:
        """Bytes of all responses so far."""
        return self._closed_bytes + sum(each.read_bytes for each in self._connections.values())

    async def refresh(self) -> ClusterView:
        """Fetch the list of brokers from any of them, the connected ones first.

        Raises:
            RefusedError: the first broker that responds refuses us, as the others would.
            UnreachableError: no broker responds.

        """
        down: list[DownBroker] = []
        for address in self._addresses():
            try:
                fields = await self._describe_cluster(address)
            except UnreachableError as error:
                down.append(DownBroker(Node(-1, *address).address, None, str(error), error.reason))
                continue
            view = self._view(fields, Node(-1, *address), down)
            await self._forget_others(address)
            return view
        text = "; ".join(each.error for each in down)
        raise UnreachableError(f"no broker responds: {text}", down[0].reason)

    async def _describe_cluster(self, address: tuple[str, int]) -> Fields:
        """Return DescribeCluster's fields; a broker below Kafka 2.8 has Metadata alone."""
        if await self._version(address, Api.DESCRIBE_CLUSTER) is None:
            values = {"topics": [], "allow_auto_topic_creation": False}
            async with self._receive(address, Api.METADATA, **values) as response:
                return _as_described(await response.fields())
        values = {
            "include_cluster_authorized_operations": True,
            "endpoint_type": 1,
            "include_fenced_brokers": True,
        }
        async with self._receive(address, Api.DESCRIBE_CLUSTER, **values) as response:
            return await response.fields()

    async def send(self, node: Node, api: Api, **values: Any) -> Fields:
        """Send a request to a broker and return the fields; callers wait for each other.

        Raises:
            BrokerError: the broker cannot be used, or lacks the API.

        """
        async with self.receive(node, api, **values) as response:
            return await response.fields()

    @asynccontextmanager
    async def receive(self, node: Node, api: Api, **values: Any) -> AsyncIterator[BrokerResponse]:
        """Send a request to a broker; give the response as bytes: the caller may know them.

        Raises:
            BrokerError: the broker cannot be used, or lacks the API.

        """
        async with self._receive((node.host, node.port), api, **values) as response:
            yield response

    async def send_any(self, api: Api, **values: Any) -> Fields:
        """Send a request to any broker, the connected ones first, and return the fields.

        Raises:
            UnreachableError: no broker responds.

        """
        error = UnreachableError("no broker is known", "unreachable")
        for address in self._addresses():
            try:
                async with self._receive(address, api, **values) as response:
                    return await response.fields()
            except UnreachableError as unreachable:
                error = unreachable
        raise error

    async def version(self, node: Node, api: Api) -> int | None:
        """Return the newest common version of an API, or None if the broker lacks it.

        Raises:
            BrokerError: the broker cannot be used.

        """
        return await self._version((node.host, node.port), api)

    async def close(self) -> None:
        """Close every connection."""
        await self._close(list(self._connections))

    def _addresses(self) -> list[tuple[str, int]]:
        """Return the brokers to try, in this order: connected ones, bootstrap servers, others."""
        known = dict.fromkeys((node.host, node.port) for node in self._nodes)
        first = [*(each for each in known if each in self._connections), *self._bootstrap]
        others = list(known.keys() - set(first))
        random.shuffle(others)
        return list(dict.fromkeys([*first, *others[:_OTHERS]]))

    async def _version(self, address: tuple[str, int], api: Api) -> int | None:
        async with self._lock(address), self._turns:
            return (await self._connection(address)).version(api)

    @asynccontextmanager
    async def _receive(
        self, address: tuple[str, int], api: Api, **values: Any
    ) -> AsyncIterator[BrokerResponse]:
        """Give a response; its room is taken until the caller has read it."""
        async with self._lock(address), self._turns:
            connection = await self._connection(address)
            response = await connection.send(api, **values)
        try:
            yield response
        finally:
            self._room.leave(len(response.frame))

    async def _connection(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is not None and connection.is_usable:
            return connection
        if connection is not None:
            self._closed_bytes += connection.read_bytes
            del self._connections[address]
            await connection.close()
        if len(self._connections) >= MAX_BROKERS:
            text = f"{Node(-1, *address).address}: {MAX_BROKERS} brokers are connected already"
            raise UnreachableError(text, "too_many")
        opened = await Connection.open(
            *address, self._security(), timeout_s=self._timeout_s, room=self._room
        )
        self._connections[address] = opened
        return opened

    async def _forget_others(self, responder: tuple[str, int]) -> None:
        """Close connections to addresses that the cluster does not name any more."""
        kept = {(node.host, node.port) for node in self._nodes} | {*self._bootstrap, responder}
        free = [each for each, lock in self._locks.items() if not lock.locked()]
        gone = [each for each in free if each not in kept]
        for each in gone:
            del self._locks[each]
        await self._close(gone)

    async def _close(self, addresses: Sequence[tuple[str, int]]) -> None:
        found = [self._connections.pop(each) for each in addresses if each in self._connections]
        self._closed_bytes += sum(each.read_bytes for each in found)
        await asyncio.gather(*(each.close() for each in found))

    def _lock(self, address: tuple[str, int]) -> asyncio.Lock:
        return self._locks.setdefault(address, asyncio.Lock())

    def _view(self, fields: Fields, responder: Node, down: list[DownBroker]) -> ClusterView:
        if fields["error_code"]:
            said = fields["error_message"] or error_name(fields["error_code"])
            raise RefusedError(f"DescribeCluster: {said}", "denied")
        if len(fields["brokers"] or ()) > MAX_BROKERS:
            count = len(fields["brokers"])
            text = f"the cluster names {count} brokers, of which {MAX_BROKERS} are the limit"
            raise RefusedError(text, "too_many")
        brokers = {
            Node(each["broker_id"], each["host"], each["port"]): each.get("is_fenced", False)
            for each in fields["brokers"] or ()
        }
        nodes = [node for node, is_fenced in brokers.items() if not is_fenced]
        fenced = [node for node, is_fenced in brokers.items() if is_fenced]
        self._nodes = tuple(nodes)
        text = "the cluster has fenced it: it is down or starting"
        named = {node.address for node in brokers}
        down = [each for each in down if each.address not in named]  # requests will reach it
        down += [DownBroker(n.address, n.node_id, f"{n.address}: {text}", "fenced") for n in fenced]
        return ClusterView(
            cluster_id=fields["cluster_id"],
            responder=responder,
            nodes=self._nodes,
            down=tuple(down),
            is_denied=not fields["cluster_authorized_operations"] & _DESCRIBE,
        )


def _as_described(metadata: Fields) -> Fields:
    """Return Metadata as DescribeCluster has it; whether ACLs hide groups is not known."""
    return {
        "error_code": 0,
        "cluster_id": metadata["cluster_id"] or "",
        "brokers": [{"broker_id": each["node_id"], **each} for each in metadata["brokers"] or ()],
        "cluster_authorized_operations": _DESCRIBE,
    }


def down_broker(node: Node, error: BrokerError) -> DownBroker:
    """Return a broker's fault as a partial result carries it."""
    return DownBroker(node.address, node.node_id, str(error), error.reason)
