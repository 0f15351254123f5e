"""Descriptions of groups of any type, from their coordinators."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.coordinator_lookup import (
    UNSUPPORTED,
    Coordinators,
    GroupRequest,
    send_to_coordinators,
)
from agent.inspection.describe_decoders import (
    GroupDecoder,
    read_classic,
    read_consumer,
    read_share,
    read_streams,
)
from agent.inspection.model import Description, Failure, GroupType, Node
from agent.inspection.response_cache import ResponseCache
from agent.wire.codec.schema import Fields

NOT_FOUND = "GROUP_ID_NOT_FOUND"
_HINTS = {
    NOT_FOUND: "Group {group} not found.",
    "GROUP_AUTHORIZATION_FAILED": "an ACL for Describe on it is wanted",
    "TOPIC_AUTHORIZATION_FAILED": "ACLs for Describe on its topics are wanted",
    "INVALID_GROUP_ID": "a name is wanted that is not empty",
}
"""Texts for errors that a broker reports without a message."""


class _DescribeApi(NamedTuple):
    api: Api
    names_field: str
    read: GroupDecoder


DESCRIBE_APIS = {
    GroupType.CONSUMER: _DescribeApi(Api.CONSUMER_GROUP_DESCRIBE, "group_ids", read_consumer),
    GroupType.SHARE: _DescribeApi(Api.SHARE_GROUP_DESCRIBE, "group_ids", read_share),
    GroupType.STREAMS: _DescribeApi(Api.STREAMS_GROUP_DESCRIBE, "group_ids", read_streams),
    GroupType.CLASSIC: _DescribeApi(Api.DESCRIBE_GROUPS, "groups", read_classic),
}
"""In the order of the attempts for a group of unknown type; the last "not found" is reported."""

DescribeResult = Description | Failure
_T = TypeVar("_T")


class Describer(Generic[_T]):
    """Describes groups and reduces each description by ``reduce``."""

    def __init__(
        self,
        brokers: BrokerPool,
        reduce: Callable[[Description], _T | Failure],
        *,
        timeout_s: float,
        authorized_operations: bool = False,
    ) -> None:
        self._brokers, self._reduce, self._timeout_s = brokers, reduce, timeout_s
        self._cache = ResponseCache[_T]()
        self._authorized_operations = authorized_operations

    def start_poll(self) -> None:
        """Start a poll: a response equal to the last poll's is not decoded again."""
        self._cache.start_poll()

    async def describe_as(
        self, group_type: GroupType, groups: Collection[str], coordinators: Coordinators
    ) -> dict[str, _T | Failure]:
        """Describe groups as groups of one type; updates ``coordinators``."""
        kind = DESCRIBE_APIS[group_type]

        def read(node: Node, fields: Fields) -> _T | Failure:
            described = kind.read(node, fields)
            return described if isinstance(described, Failure) else self._reduce(described)

        def to_fields(names: Sequence[str]) -> dict[str, Any]:
            operations = self._authorized_operations
            return {
                kind.names_field: tuple(names),
                "include_authorized_operations": operations,
            }

        request = GroupRequest(kind.api, to_fields, read, self._cache)
        return await send_to_coordinators(
            self._brokers, request, groups, coordinators, self._timeout_s
        )

    async def describe_any(
        self,
        groups: Sequence[str],
        coordinators: Coordinators,
        group_types: Iterable[GroupType] = tuple(DESCRIBE_APIS),
    ) -> dict[str, _T | Failure]:
        """Describe groups, trying one type after another."""
        found: dict[str, _T | Failure] = {}
        for group_type in group_types:
            missing = [name for name in groups if name not in found or is_missing(found[name])]
            if missing:
                found |= await self.describe_as(group_type, missing, coordinators)
        return found


async def describe_groups(
    brokers: BrokerPool,
    groups: Sequence[str],
    group_type: GroupType | None = None,
    *,
    authorized_operations: bool = False,
    timeout_s: float,
) -> list[DescribeResult]:
    """Describe groups, each once, in the given order; ``group_type`` restricts them to one type."""
    names, coordinators = list(dict.fromkeys(groups)), Coordinators()
    describer: Describer[Description] = Describer(
        brokers,
        lambda described: described,
        timeout_s=timeout_s,
        authorized_operations=authorized_operations,
    )
    if group_type is None:
        found = await describer.describe_any(names, coordinators)
        return [_add_hint(found[name]) for name in names]
    found = await describer.describe_as(group_type, names, coordinators)
    missing = [name for name in names if is_missing(found[name])]
    others = [kind for kind in DESCRIBE_APIS if kind is not group_type]
    for name, other in (await describer.describe_any(missing, coordinators, others)).items():
        if not is_missing(other) or _code(found[name]) == UNSUPPORTED:
            found[name] = other
    return [_require_type(group_type, found[name]) for name in names]


def is_missing(answer: object) -> bool:
    """Return whether the coordinator has no such group of the requested type."""
    return _code(answer) in (NOT_FOUND, UNSUPPORTED)


def _code(answer: object) -> str | None:
    return answer.code if isinstance(answer, Failure) else None


def _require_type(group_type: GroupType, answer: DescribeResult) -> DescribeResult:
    if isinstance(answer, Failure) or answer.type is group_type:
        return _add_hint(answer)
    protocol = f"{answer.protocol} " if answer.type is GroupType.CLASSIC and answer.protocol else ""
    error = f"is a {answer.type.lower()} {protocol}group, not a {group_type.lower()} group"
    return Failure(
        group=answer.group, code=NOT_FOUND, error=error, type=answer.type, state=answer.state
    )


def _add_hint(answer: DescribeResult) -> DescribeResult:
    """Return a failure with its code and, if the broker sent no message, a hint."""
    if isinstance(answer, Description):
        return answer
    text = answer.error
    if text == answer.code:
        text = (
            _HINTS.get(answer.code, "").format(group=answer.group) or "no message from the broker"
        )
    return replace(answer, error=f"{answer.code}: {text}")
