"""Batched requests to group coordinators; unknown or moved coordinators are looked up."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from agent.inspection.connection.admin_requests import Api, digest
from agent.inspection.connection.backoff import RETRIABLE, Backoff
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.connection.errors import BrokerError, UnreachableError
from agent.inspection.model import Failure, Node
from agent.inspection.response_cache import ResponseCache
from agent.wire.codec.schema import Fields
from agent.wire.members.error_codes import describe_error as error_name

_T = TypeVar("_T")
BATCH = 50
"""Groups of one request: a large group's description is some 100 KB, and others wait for it."""
_BATCHED_FROM = 4
"""The first version of FindCoordinator that takes many keys (KIP-699); Kafka 3.0."""
UNSUPPORTED = "UNSUPPORTED_VERSION"


class GroupRequest(NamedTuple, Generic[_T]):
    """A request about groups."""

    api: Api
    to_fields: Callable[[Sequence[str]], dict[str, Any]]
    """Returns the request's fields for the groups of a batch."""
    read: Callable[[Node, Fields], _T | Failure]
    """Decodes one group of the response that has no error."""
    cache: ResponseCache[_T]
    batched_from: int = 0
    """The first version of the API that takes more than one group."""


Coordinators = dict[str, Node]


async def send_to_coordinators(
    brokers: BrokerPool,
    request: GroupRequest[_T],
    groups: Collection[str],
    coordinators: Coordinators,
    timeout_s: float,
) -> dict[str, _T | Failure]:
    """Send a request about every group; updates ``coordinators`` with each look-up."""
    requests = _CoordinatorRequests(brokers, request, coordinators)
    backoff = Backoff(timeout_s)
    pending = list(groups)
    while pending:
        await requests.look_up(pending)
        await requests.send(pending)
        pending = requests.groups_to_retry(pending)
        if pending and not await backoff.wait():
            break
    results = requests.results  # an empty result is a result
    return {
        group: results[group] if group in results else _missing_response(group) for group in groups
    }


def _missing_response(group: str) -> Failure:
    return Failure(group=group, code="NO_ANSWER", error="the response does not contain it")


class _CoordinatorRequests(Generic[_T]):
    def __init__(
        self, brokers: BrokerPool, request: GroupRequest[_T], coordinators: Coordinators
    ) -> None:
        self._brokers, self._request = brokers, request
        self._coordinators = coordinators
        self._retry: set[str] = set()
        self.results: dict[str, _T | Failure] = {}

    async def look_up(self, groups: Sequence[str]) -> None:
        """Look up the coordinators that are not known."""
        self._retry.clear()
        for group in groups:
            self.results.pop(group, None)
        unknown = dict.fromkeys(group for group in groups if group not in self._coordinators)
        if not unknown:
            return
        try:
            view = await self._brokers.refresh()
            for each in await find_coordinators(self._brokers, view.responder, tuple(unknown)):
                if each.group in unknown:
                    self._record_coordinator(each)
        except UnreachableError as error:
            for group in unknown:
                self._fail(group, error.reason, str(error), retry=True)

    async def send(self, groups: Sequence[str]) -> None:
        """Send each coordinator its groups, all coordinators at once."""
        by_node: dict[Node, list[str]] = {}
        for group in groups:
            if group in self._coordinators:
                by_node.setdefault(self._coordinators[group], []).append(group)
        await asyncio.gather(*(self._send_to_node(node, names) for node, names in by_node.items()))

    def groups_to_retry(self, groups: Sequence[str]) -> list[str]:
        """Return the groups with an error that a new look-up may resolve."""
        return [group for group in groups if group in self._retry]

    async def _send_to_node(self, node: Node, groups: list[str]) -> None:
        api = self._request.api
        try:
            version = await self._brokers.version(node, api)
            if version is None:
                for group in groups:
                    self._fail(group, UNSUPPORTED, f"{node.address} does not have {api.label}")
                return
            batch = BATCH if version >= self._request.batched_from else 1
            for start in range(0, len(groups), batch):
                await self._send_batch(node, groups[start : start + batch])
        except BrokerError as error:
            for group in groups:
                if group not in self.results:
                    self._record_error(group, error)

    async def _send_batch(self, node: Node, groups: list[str]) -> None:
        request = self._request
        key = (node, request.api, tuple(groups))
        values = request.to_fields(groups)
        async with self._brokers.receive(node, request.api, **values) as response:
            content = digest(response.frame)
            cached = request.cache.find(key, content)
            if cached is not None:
                self.results |= cached
                return
            self._read_batch(node, groups, await response.fields())
        results = {group: self.results[group] for group in groups if group in self.results}
        if not any(isinstance(each, Failure) for each in results.values()):
            request.cache.store(key, content, results)

    def _read_batch(self, node: Node, groups: list[str], fields: Fields) -> None:
        is_batch = "groups" in fields
        for each in (fields["groups"] or ()) if is_batch else [{"group_id": groups[0]} | fields]:
            if each["group_id"] in groups:  # another coordinator's is not this broker's to describe
                self._read_group(node, each)

    def _read_group(self, node: Node, fields: Fields) -> None:
        group, error = fields["group_id"], fields.get("error_code", 0)
        message = fields.get("error_message")
        if not error:
            self.results[group] = self._request.read(node, fields)
        elif error in RETRIABLE:
            self._retry_elsewhere(group, error_name(error), message)
        else:
            self._fail(group, error_name(error), message)

    def _record_coordinator(self, result: "CoordinatorResult") -> None:
        if isinstance(result.node, Node):
            self._coordinators[result.group] = result.node
        else:
            self._fail(
                result.group,
                error_name(result.node),
                result.message,
                retry=result.node in RETRIABLE,
            )

    def _record_error(self, group: str, error: BrokerError) -> None:
        if isinstance(error, UnreachableError):
            self._retry_elsewhere(group, error.reason, str(error))
        else:
            self._fail(group, error.reason, str(error))

    def _retry_elsewhere(self, group: str, code: str, message: str | None) -> None:
        self._coordinators.pop(group, None)
        self._fail(group, code, message, retry=True)

    def _fail(self, group: str, code: str, message: str | None, *, retry: bool = False) -> None:
        self.results[group] = Failure(group=group, code=code, error=message or code)
        if retry:
            self._retry.add(group)


class CoordinatorResult(NamedTuple):
    """A group's coordinator, or the error instead."""

    group: str
    node: Node | int
    message: str | None


async def find_coordinators(
    brokers: BrokerPool, node: Node, groups: Sequence[str]
) -> list[CoordinatorResult]:
    """Look up the coordinators of groups at a broker, in one request if its version allows that.

    Raises:
        BrokerError: the broker cannot be used.

    """
    version = await brokers.version(node, Api.FIND_COORDINATOR)
    if version is not None and version >= _BATCHED_FROM:
        keys = tuple(groups)
        fields = await brokers.send(node, Api.FIND_COORDINATOR, key_type=0, coordinator_keys=keys)
        return [_read_coordinator(each["key"], each) for each in fields["coordinators"] or ()]
    return [
        _read_coordinator(
            group, await brokers.send(node, Api.FIND_COORDINATOR, key_type=0, key=group)
        )
        for group in groups
    ]


def _read_coordinator(group: str, fields: Fields) -> CoordinatorResult:
    error = fields["error_code"]
    node = Node(fields["node_id"], fields["host"], fields["port"])
    return CoordinatorResult(group, error or node, fields.get("error_message"))
