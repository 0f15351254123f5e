"""Which APIs are decoded, and how their messages are read in every version."""

from collections.abc import Callable
from typing import Any, NamedTuple

from agent.errors import DecodeError
from agent.wire.codec.buffer import Buffer
from agent.wire.codec.messages import (
    ClientSoftware,
    Cluster,
    Commit,
    Coordinators,
    Errors,
    GroupHeartbeat,
    GroupHeartbeatAnswer,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    Leaver,
    Node,
    Partitions,
    Sync,
    SyncAnswer,
)
from agent.wire.codec.schema import Fields, Layout, request_layout, response_layout

Message = Any
"""A class of `agent.wire.codec.messages`."""
Build = Callable[[Fields, int], Message]


class Half(NamedTuple):
    """One direction of an API: the fields that are wanted, and what is made of them."""

    wanted: tuple[str, ...]
    build: Build


class Api(NamedTuple):
    """An API that is decoded."""

    request: Half | None
    answer: Half | None


class UnknownVersionError(DecodeError):
    """The peers speak a version that we have no schema of: counted, and passed over."""


def read_request(api_key: int, version: int, frame: bytes) -> tuple[str, Message]:
    """Return the client id and the message of a request's frame.

    Raises:
        DecodeError: odd bytes, or (`UnknownVersionError`) an API version without a schema.

    """
    if not 0 <= version <= VERSION_MAX:
        raise DecodeError(f"API {api_key} in version {version}")
    half = APIS[api_key].request
    buffer = Buffer(frame)
    buffer.take(_REQUEST_HEAD_BYTES)
    client_id = buffer.nullable_string() or ""
    if half is None:
        return client_id, None
    layout = _known(request_layout(api_key, version, half.wanted), api_key, version)
    if layout.flexible:
        buffer.skip_tags()
    return client_id, half.build(layout.read(buffer), version)


def read_answer(api_key: int, version: int, frame: bytes) -> Message:
    """Return the message of an answer's frame; None where nobody wants it.

    Raises:
        DecodeError: odd bytes, or (`UnknownVersionError`) an API version without a schema.

    """
    half = APIS[api_key].answer
    if half is None:
        return None
    layout = _known(response_layout(api_key, version, half.wanted), api_key, version)
    buffer = Buffer(frame)
    buffer.int32()  # correlation id
    if layout.flexible:
        buffer.skip_tags()
    return half.build(layout.read(buffer), version)


VERSION_MAX = 31
"""Far above any version (Kafka 4.3 has 18 of Fetch): beyond it the bytes are misread."""
_REQUEST_HEAD_BYTES = 8
"""API key, version, correlation id."""


def _known(layout: Layout | None, api_key: int, version: int) -> Layout:
    if layout is None:
        raise UnknownVersionError(f"API {api_key} in version {version} is not known")
    return layout


def _software(seen: Fields, _version: int) -> ClientSoftware:
    return ClientSoftware(
        name=seen.get("client_software_name") or "",
        version=seen.get("client_software_version") or "",
    )


def _coordinators(seen: Fields, _version: int) -> Coordinators:
    rows = seen["coordinators"] or () if "coordinators" in seen else [seen]
    return Coordinators(nodes=tuple(_node(row) for row in rows if not row["error_code"]))


def _node(row: Fields) -> Node:
    return Node(row["host"] or "", row["port"])


def _cluster(seen: Fields, _version: int) -> Cluster:
    brokers = tuple(_node(row) for row in seen["brokers"] or ())
    return Cluster(cluster_id=seen.get("cluster_id"), brokers=brokers)


def _join(seen: Fields, _version: int) -> Join:
    return Join(
        **_who(seen),
        protocol_type=seen["protocol_type"] or "",
        protocols=tuple((each["name"] or "", each["metadata"]) for each in seen["protocols"] or ()),
        rebalance_timeout_ms=seen.get("rebalance_timeout"),
        reason=seen.get("reason") or None,
    )


def _join_answer(seen: Fields, _version: int) -> JoinAnswer:
    return JoinAnswer(
        error=seen["error_code"],
        generation=seen["generation_id"],
        protocol=seen["protocol_name"],
        leader=seen["leader"] or "",
        member_id=seen["member_id"] or "",
    )


def _who(seen: Fields) -> Fields:
    return {
        "group": seen["group_id"] or "",
        "member_id": seen["member_id"] or "",
        "instance_id": seen.get("group_instance_id"),
    }


def _sync(seen: Fields, _version: int) -> Sync:
    return Sync(**_who(seen), generation=seen["generation_id"])


def _sync_answer(seen: Fields, _version: int) -> SyncAnswer:
    return SyncAnswer(error=seen["error_code"], assignment=seen["assignment"])


def _heartbeat(seen: Fields, _version: int) -> Heartbeat:
    return Heartbeat(**_who(seen), generation=seen["generation_id"])


def _commit(seen: Fields, _version: int) -> Commit:
    return Commit(**_who(seen), generation=seen["generation_id_or_member_epoch"])


def _commit_answer(seen: Fields, _version: int) -> Errors:
    parts = (part for topic in seen["topics"] or () for part in topic["partitions"] or ())
    return Errors(errors=frozenset(part["error_code"] for part in parts))


def _error(seen: Fields, _version: int) -> Errors:
    return Errors(errors=frozenset({seen["error_code"]}))


def _leave(seen: Fields, _version: int) -> Leave:
    rows = seen["members"] or () if "members" in seen else [seen]
    leavers = (
        Leaver(row["member_id"] or "", row.get("group_instance_id"), row.get("reason") or None)
        for row in rows
    )
    return Leave(group=seen["group_id"] or "", leavers=tuple(leavers))


def _group_heartbeat(group_type: str) -> Build:
    def build(seen: Fields, _version: int) -> GroupHeartbeat:
        endpoint = seen.get("user_endpoint")
        return GroupHeartbeat(
            group_type=group_type,
            group=seen["group_id"] or "",
            member_id=seen["member_id"] or "",
            epoch=seen["member_epoch"],
            instance_id=seen.get("instance_id"),
            rebalance_timeout_ms=seen.get("rebalance_timeout"),
            subscription=_subscription(seen),
            owned=_owned(seen),
            process_id=seen.get("process_id"),
            endpoint=endpoint and Node(endpoint["host"] or "", endpoint["port"]),
        )

    return build


def _group_heartbeat_answer(seen: Fields, _version: int) -> GroupHeartbeatAnswer:
    assignment = seen.get("assignment")
    return GroupHeartbeatAnswer(
        error=seen["error_code"],
        member_id=seen.get("member_id"),
        epoch=seen["member_epoch"],
        target=_partitions(assignment["topic_partitions"]) if assignment else _tasks(seen),
        warmups=bool(seen.get("warmup_tasks")),
        endpoint_epoch=seen.get("endpoint_information_epoch"),
    )


def _subscription(seen: Fields) -> frozenset[str] | None:
    topics, regex = seen.get("subscribed_topic_names"), seen.get("subscribed_topic_regex")
    if topics is None and regex is None:
        return None
    return frozenset([*(topics or ()), *([f"re:{regex}"] if regex else ())])


def _owned(seen: Fields) -> Partitions | None:
    return _partitions(seen["topic_partitions"]) if "topic_partitions" in seen else _tasks(seen)


def _partitions(topics: list[Fields] | None) -> Partitions | None:
    if topics is None:
        return None
    return frozenset(
        (each["topic_id"], number) for each in topics for number in each["partitions"] or ()
    )


def _tasks(seen: Fields) -> Partitions | None:
    kinds = [seen.get(f"{kind}_tasks") for kind in ("active", "standby", "warmup")]
    if all(tasks is None for tasks in kinds):
        return None
    return frozenset(
        ((kind, each["subtopology_id"]), number)
        for kind, tasks in zip("asw", kinds, strict=True)
        for each in tasks or ()
        for number in each["partitions"] or ()
    )


_IN_GROUP = ("group_id", "generation_id", "member_id", "group_instance_id")
_ERROR = Half(("error_code",), _error)
_HEARTBEAT_ANSWER = Half(
    (
        "member_epoch",
        "assignment",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "endpoint_information_epoch",
    ),
    _group_heartbeat_answer,
)
_HEARTBEAT_WANTED = (
    "subscribed_topic_names",
    "subscribed_topic_regex",
    "topic_partitions",
    "active_tasks",
    "standby_tasks",
    "warmup_tasks",
    "process_id",
    "user_endpoint",
)

APIS: dict[int, Api] = {
    3: Api(None, Half(("cluster_id", "brokers"), _cluster)),  # Metadata
    8: Api(  # OffsetCommit
        Half(("generation_id_or_member_epoch", "member_id", "group_instance_id"), _commit),
        Half(("topics",), _commit_answer),
    ),
    10: Api(  # FindCoordinator
        None,
        Half(("error_code", "host", "port", "coordinators"), _coordinators),
    ),
    11: Api(  # JoinGroup
        Half(("protocols", "reason"), _join), Half(("member_id",), _join_answer)
    ),
    12: Api(Half(_IN_GROUP, _heartbeat), _ERROR),  # Heartbeat
    13: Api(Half(("member_id", "members"), _leave), None),  # LeaveGroup
    14: Api(Half(_IN_GROUP, _sync), Half(("assignment",), _sync_answer)),  # SyncGroup
    18: Api(Half(("client_software_name", "client_software_version"), _software), None),
    60: Api(None, Half(("cluster_id", "brokers"), _cluster)),  # DescribeCluster
    68: Api(Half(_HEARTBEAT_WANTED, _group_heartbeat("consumer")), _HEARTBEAT_ANSWER),
    76: Api(Half(_HEARTBEAT_WANTED, _group_heartbeat("share")), _HEARTBEAT_ANSWER),
    88: Api(Half(_HEARTBEAT_WANTED, _group_heartbeat("streams")), _HEARTBEAT_ANSWER),
}
"""The APIs that are decoded, by key; all else passes as opaque lengths."""
