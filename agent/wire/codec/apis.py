"""The decoded APIs, and readers of their messages in every version."""

from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from agent.errors import DecodeError
from agent.wire.codec.buffer import Buffer
from agent.wire.codec.kio_import import without_hypothesis
from agent.wire.codec.messages import (
    AuthenticationResult,
    ClientSoftware,
    ClusterMetadata,
    CommitRequest,
    CoordinatorLookup,
    CoordinatorNodes,
    ErrorResponse,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    HeartbeatRequest,
    HostPort,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeavingMember,
    Partitions,
    SyncRequest,
    SyncResponse,
)
from agent.wire.codec.schema import Fields, Layout, request_layout, response_layout
from metrics.model.names import clip_name

with without_hypothesis():
    from kio.schema.errors import ErrorCode

Message = Any
"""A class of `agent.wire.codec.messages`."""
Build = Callable[[Fields, int], Message]


class MessageReader(NamedTuple):
    """One direction of an API: its wanted fields, and the builder of its message."""

    wanted: tuple[str, ...]
    build: Build


class ApiReaders(NamedTuple):
    """An API that is decoded."""

    request: MessageReader | None
    response: MessageReader | None


class UnknownVersionError(DecodeError):
    """An API version without a schema: counted, and passed over."""


def read_request(
    api_key: int, version: int, frame: bytes, counts: Counter[str] | None = None
) -> tuple[str, Message]:
    """Return the client id and the message of a request's frame; count clipped names.

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
        _count_clipped(buffer, counts)
        return client_id, None
    layout = _require_layout(request_layout(api_key, version, half.wanted), api_key, version)
    if layout.flexible:
        buffer.skip_tags()
    message = half.build(layout.read(buffer), version)
    _count_clipped(buffer, counts)
    return client_id, message


def read_response(
    api_key: int, version: int, frame: bytes, counts: Counter[str] | None = None
) -> Message:
    """Return the message of a response's frame; None if no response of the API is wanted.

    Clipped names are counted.

    Raises:
        DecodeError: odd bytes, or (`UnknownVersionError`) an API version without a schema.

    """
    half = APIS[api_key].response
    if half is None:
        return None
    if api_key == METADATA and version >= _FIRST_WITH_TOPIC_IDS and len(frame) <= _TOPICS_BYTES_MAX:
        with suppress(DecodeError):  # the brokers are worth more than the topics behind them
            return _read_message(_METADATA_WITH_TOPICS, api_key, version, frame, counts)
    return _read_message(half, api_key, version, frame, counts)


def _read_message(
    half: MessageReader, api_key: int, version: int, frame: bytes, counts: Counter[str] | None
) -> Message:
    layout = _require_layout(response_layout(api_key, version, half.wanted), api_key, version)
    buffer = Buffer(frame)
    buffer.int32()  # correlation id
    if layout.flexible:
        buffer.skip_tags()
    message = half.build(layout.read(buffer), version)
    _count_clipped(buffer, counts)
    return message


VERSION_MAX = 31
"""Far above any version (Kafka 4.3 has 18 of Fetch): beyond it the bytes are misread."""
METADATA = 3
_GROUP_KEY = 0
"""FindCoordinator's type of key for groups; the others are of transactions and share states."""
_FIRST_WITH_TOPIC_IDS = 10
_TOPICS_BYTES_MAX = 32 << 10
"""A consumer's topics, with 800 partitions. A longer response would hold the proxy up for long."""
_REQUEST_HEAD_BYTES = 8
"""API key, version, correlation id."""


def _count_clipped(buffer: Buffer, counts: Counter[str] | None) -> None:
    if counts is not None and buffer.clipped_names:
        counts["name_clipped"] += buffer.clipped_names


def _require_layout(layout: Layout | None, api_key: int, version: int) -> Layout:
    if layout is None:
        raise UnknownVersionError(f"API {api_key} in version {version} is not known")
    return layout


def _build_software(seen: Fields, _version: int) -> ClientSoftware:
    return ClientSoftware(
        name=seen.get("client_software_name") or "",
        version=seen.get("client_software_version") or "",
    )


def _build_lookup(seen: Fields, _version: int) -> CoordinatorLookup | None:
    keys: list[str] = (
        seen["coordinator_keys"] or [] if "coordinator_keys" in seen else [seen["key"]]
    )
    is_of_group = seen.get("key_type", _GROUP_KEY) == _GROUP_KEY
    return CoordinatorLookup(group=keys[0]) if is_of_group and len(keys) == 1 and keys[0] else None


def _build_coordinators(seen: Fields, _version: int) -> CoordinatorNodes:
    rows = seen["coordinators"] or () if "coordinators" in seen else [seen]
    return CoordinatorNodes(
        nodes=tuple(_build_address(row) for row in rows if not row["error_code"]),
        error=next((row["error_code"] for row in rows if row["error_code"]), 0),
    )


def _build_address(row: Fields) -> HostPort:
    return HostPort(row["host"] or "", row["port"])


def _build_cluster(seen: Fields, _version: int) -> ClusterMetadata:
    brokers = tuple(_build_address(row) for row in seen["brokers"] or ())
    topics = tuple(
        (format_topic_id(each["topic_id"]), clip_name(each["name"]))
        for each in seen.get("topics") or ()
        if each["name"] and any(each["topic_id"])
    )
    refused = tuple(
        clip_name(each["name"])
        for each in seen.get("topics") or ()
        if each["name"] and each["error_code"] == ErrorCode.topic_authorization_failed
    )
    return ClusterMetadata(
        cluster_id=seen.get("cluster_id"), brokers=brokers, topics=topics, refused=refused
    )


def _build_join(seen: Fields, _version: int) -> JoinRequest:
    return JoinRequest(
        **_build_member_fields(seen),
        protocol_type=seen["protocol_type"] or "",
        protocols=tuple((each["name"] or "", each["metadata"]) for each in seen["protocols"] or ()),
        session_timeout_ms=seen.get("session_timeout"),
        rebalance_timeout_ms=seen.get("rebalance_timeout"),
        reason=seen.get("reason") or None,
    )


def _build_join_response(seen: Fields, _version: int) -> JoinResponse:
    return JoinResponse(
        error=seen["error_code"],
        generation=seen["generation_id"],
        protocol=seen["protocol_name"],
        leader=seen["leader"] or "",
        member_id=seen["member_id"] or "",
    )


def _build_member_fields(seen: Fields) -> Fields:
    return {
        "group": seen["group_id"] or "",
        "member_id": seen["member_id"] or "",
        "instance_id": seen.get("group_instance_id"),
    }


def _build_sync(seen: Fields, _version: int) -> SyncRequest:
    return SyncRequest(**_build_member_fields(seen), generation=seen["generation_id"])


def _build_sync_response(seen: Fields, _version: int) -> SyncResponse:
    return SyncResponse(error=seen["error_code"], assignment=seen["assignment"])


def _build_heartbeat(seen: Fields, _version: int) -> HeartbeatRequest:
    return HeartbeatRequest(**_build_member_fields(seen), generation=seen["generation_id"])


def _build_commit(seen: Fields, _version: int) -> CommitRequest:
    return CommitRequest(
        **_build_member_fields(seen), generation=seen["generation_id_or_member_epoch"]
    )


def _build_commit_response(seen: Fields, _version: int) -> ErrorResponse:
    parts = (part for topic in seen["topics"] or () for part in topic["partitions"] or ())
    return ErrorResponse(errors=frozenset(part["error_code"] for part in parts))


def _build_authentication(seen: Fields, _version: int) -> AuthenticationResult:
    return AuthenticationResult(error=seen["error_code"])


def _build_error(seen: Fields, _version: int) -> ErrorResponse:
    return ErrorResponse(errors=frozenset({seen["error_code"]}))


def _build_leave(seen: Fields, _version: int) -> LeaveRequest:
    rows = seen["members"] or () if "members" in seen else [seen]
    leavers = (
        LeavingMember(
            row["member_id"] or "", row.get("group_instance_id"), row.get("reason") or None
        )
        for row in rows
    )
    return LeaveRequest(group=seen["group_id"] or "", members=tuple(leavers))


def _group_heartbeat_builder(group_type: str) -> Build:
    def build(seen: Fields, _version: int) -> GroupHeartbeatRequest:
        endpoint = seen.get("user_endpoint")
        return GroupHeartbeatRequest(
            group_type=group_type,
            group=seen["group_id"] or "",
            member_id=seen["member_id"] or "",
            epoch=seen["member_epoch"],
            instance_id=seen.get("instance_id"),
            rebalance_timeout_ms=seen.get("rebalance_timeout"),
            subscription=_build_subscription(seen),
            owned=_build_owned(seen),
            process_id=seen.get("process_id"),
            endpoint=endpoint and HostPort(endpoint["host"] or "", endpoint["port"]),
        )

    return build


def _build_group_heartbeat_response(seen: Fields, _version: int) -> GroupHeartbeatResponse:
    assignment = seen.get("assignment")
    return GroupHeartbeatResponse(
        error=seen["error_code"],
        member_id=seen.get("member_id"),
        epoch=seen["member_epoch"],
        target=_build_partitions(assignment["topic_partitions"])
        if assignment
        else _build_tasks(seen),
        warmups=bool(seen.get("warmup_tasks")),
        endpoint_epoch=seen.get("endpoint_information_epoch"),
        status=tuple(
            (each["status_code"], each["status_detail"] or "") for each in seen.get("status") or ()
        ),
    )


def _build_subscription(seen: Fields) -> frozenset[str] | None:
    topics, regex = seen.get("subscribed_topic_names"), seen.get("subscribed_topic_regex")
    if topics is None and regex is None:
        return None
    named = (each for each in topics or () if each is not None)  # a null is read as any text is
    return frozenset([*named, *([f"re:{regex}"] if regex else ())])


def _build_owned(seen: Fields) -> Partitions | None:
    return (
        _build_partitions(seen["topic_partitions"])
        if "topic_partitions" in seen
        else _build_tasks(seen)
    )


def _build_partitions(topics: list[Fields] | None) -> Partitions | None:
    if topics is None:
        return None
    return frozenset(
        (format_topic_id(each["topic_id"]), number)
        for each in topics
        for number in each["partitions"] or ()
    )


@lru_cache(maxsize=4096)  # every member of a group has the same topics
def format_topic_id(topic_id: bytes) -> str:
    """Return the text of a topic id, as Kafka's tools and logs print it (Uuid.toString)."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def _build_tasks(seen: Fields) -> Partitions | None:
    kinds = [seen.get(f"{kind}_tasks") for kind in ("active", "standby", "warmup")]
    if all(tasks is None for tasks in kinds):
        return None
    return frozenset(
        ((kind, each["subtopology_id"] or ""), number)
        for kind, tasks in zip("asw", kinds, strict=True)
        for each in tasks or ()
        for number in each["partitions"] or ()
    )


_IN_GROUP = ("group_id", "generation_id", "member_id", "group_instance_id")
_ERROR = MessageReader(("error_code",), _build_error)
_HEARTBEAT_RESPONSE = MessageReader(
    (
        "member_epoch",
        "assignment",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "endpoint_information_epoch",
        "status",
    ),
    _build_group_heartbeat_response,
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

_METADATA_WITH_TOPICS = MessageReader(("cluster_id", "brokers", "topics"), _build_cluster)
APIS: dict[int, ApiReaders] = {
    METADATA: ApiReaders(None, MessageReader(("cluster_id", "brokers"), _build_cluster)),
    8: ApiReaders(  # OffsetCommit
        MessageReader(
            ("generation_id_or_member_epoch", "member_id", "group_instance_id"), _build_commit
        ),
        MessageReader(("topics",), _build_commit_response),
    ),
    10: ApiReaders(  # FindCoordinator
        MessageReader(("key", "key_type", "coordinator_keys"), _build_lookup),
        MessageReader(("error_code", "host", "port", "coordinators"), _build_coordinators),
    ),
    11: ApiReaders(  # JoinGroup
        MessageReader(("protocols", "reason"), _build_join),
        MessageReader(("member_id",), _build_join_response),
    ),
    12: ApiReaders(MessageReader(_IN_GROUP, _build_heartbeat), _ERROR),  # Heartbeat
    13: ApiReaders(MessageReader(("member_id", "members"), _build_leave), None),  # LeaveGroup
    14: ApiReaders(
        MessageReader(_IN_GROUP, _build_sync), MessageReader(("assignment",), _build_sync_response)
    ),  # SyncGroup
    18: ApiReaders(
        MessageReader(("client_software_name", "client_software_version"), _build_software), None
    ),
    36: ApiReaders(None, MessageReader(("error_code",), _build_authentication)),  # SaslAuthenticate
    60: ApiReaders(
        None, MessageReader(("cluster_id", "brokers"), _build_cluster)
    ),  # DescribeCluster
    68: ApiReaders(
        MessageReader(_HEARTBEAT_WANTED, _group_heartbeat_builder("consumer")), _HEARTBEAT_RESPONSE
    ),
    76: ApiReaders(
        MessageReader(_HEARTBEAT_WANTED, _group_heartbeat_builder("share")), _HEARTBEAT_RESPONSE
    ),
    88: ApiReaders(
        MessageReader(_HEARTBEAT_WANTED, _group_heartbeat_builder("streams")), _HEARTBEAT_RESPONSE
    ),
}
"""The APIs that are decoded, by key; all else passes as opaque lengths."""
