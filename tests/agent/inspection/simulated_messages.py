"""Requests to simulated brokers, and their responses about a group."""

from dataclasses import dataclass, field
from uuid import UUID

from agent.inspection.connection.admin_requests import Api
from agent.wire.codec.buffer import Buffer
from agent.wire.codec.schema import Fields, request_layout
from tests.agent.wire.frames import assignment, subscription

Versions = dict[Api, tuple[int, int]]
KAFKA_43: Versions = {
    Api.FIND_COORDINATOR: (0, 6),
    Api.DESCRIBE_GROUPS: (0, 6),
    Api.LIST_GROUPS: (0, 5),
    Api.SASL_HANDSHAKE: (0, 1),
    Api.API_VERSIONS: (0, 4),
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.SASL_AUTHENTICATE: (0, 2),
    Api.DESCRIBE_CLUSTER: (0, 2),
    Api.CONSUMER_GROUP_DESCRIBE: (0, 1),
    Api.SHARE_GROUP_DESCRIBE: (1, 1),
    Api.STREAMS_GROUP_DESCRIBE: (0, 0),
    Api.LIST_OFFSETS: (1, 11),
    Api.METADATA: (0, 13),
    Api.OFFSET_FETCH: (1, 10),
    Api.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
}
KAFKA_28: Versions = {
    Api.FIND_COORDINATOR: (0, 3),
    Api.DESCRIBE_GROUPS: (0, 5),
    Api.LIST_GROUPS: (0, 4),
    Api.SASL_HANDSHAKE: (0, 1),
    Api.API_VERSIONS: (0, 3),
    Api.SASL_AUTHENTICATE: (0, 2),
    Api.DESCRIBE_CLUSTER: (0, 0),
    Api.LIST_OFFSETS: (0, 6),
    Api.METADATA: (0, 11),
    Api.OFFSET_FETCH: (0, 7),
}
KAFKA_21: Versions = {
    Api.FIND_COORDINATOR: (0, 2),
    Api.DESCRIBE_GROUPS: (0, 2),
    Api.LIST_GROUPS: (0, 2),
    Api.SASL_HANDSHAKE: (0, 1),
    Api.API_VERSIONS: (0, 2),
    Api.SASL_AUTHENTICATE: (0, 0),
    Api.LIST_OFFSETS: (0, 4),
    Api.METADATA: (0, 7),
    Api.OFFSET_FETCH: (0, 5),
}
OF_TYPE = {
    Api.DESCRIBE_GROUPS: "classic",
    Api.CONSUMER_GROUP_DESCRIBE: "consumer",
    Api.SHARE_GROUP_DESCRIBE: "share",
    Api.STREAMS_GROUP_DESCRIBE: "streams",
}
_WANTED = {
    Api.FIND_COORDINATOR: ("key", "coordinator_keys"),
    Api.SASL_HANDSHAKE: ("mechanism",),
    Api.SASL_AUTHENTICATE: ("auth_bytes",),
    Api.DESCRIBE_GROUPS: ("groups",),
    Api.OFFSET_FETCH: ("group_id", "groups"),
    Api.DESCRIBE_SHARE_GROUP_OFFSETS: ("groups",),
    Api.METADATA: ("topics",),
    Api.LIST_OFFSETS: ("topics",),
    Api.DESCRIBE_CONFIGS: ("resources",),
}
_NONE = UUID(int=0)


@dataclass(slots=True)
class Group:
    """The coordinator's state. ``members`` maps member ids to partitions by topic."""

    type: str = "classic"
    node_id: int = 1
    state: str = "Stable"
    protocol: str = "consumer"
    epoch: int = 1
    assignor: str = "range"
    """Of a classic group."""
    members: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    """Offsets by topic and partition; -1: none yet. Of a share group: start offsets."""
    subtopologies: list[Fields] = field(default_factory=list)
    """Of a streams group."""
    lags: dict[tuple[str, int], int] = field(default_factory=dict)
    """Of a share group."""
    metadata: bytes = b""
    """Of a classic group's members, instead of a subscription to what they own."""
    user_data: bytes = b""
    """Of a classic group's assignments."""
    content: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    """Of a classic group's members: metadata and assignment as they are."""
    session_ms: str = "45000"
    """Session timeout that the broker has for a group of a new protocol."""
    garbled: bool = False
    """A classic group whose members wrote nonsense."""


def read_request(api: Api, version: int, frame: bytes) -> Fields:
    layout = request_layout(api, version, _WANTED.get(api, ("group_ids",)))
    assert layout is not None
    buffer = Buffer(frame)
    buffer.take(8)
    buffer.nullable_string()
    if layout.flexible:
        buffer.skip_tags()
    return layout.read(buffer) if api in (*_WANTED, *OF_TYPE) else {}


def member(kind: str, group: Group, member_id: str, owned: dict[str, list[int]]) -> Fields:
    client_id = member_id.rpartition("-")[0]
    common = {"member_id": member_id, "client_id": client_id, "client_host": "/10.0.0.1"}
    if kind == "classic":
        got = group.state == "Stable"
        if member_id in group.content:
            metadata, assigned = group.content[member_id]
            return common | {"member_metadata": metadata, "member_assignment": assigned}
        if group.garbled:
            return common | {"member_metadata": b"x", "member_assignment": b"x"}
        return common | {
            "member_metadata": group.metadata or subscription(list(owned)) if got else b"",
            "member_assignment": assignment(owned, group.user_data) if got else b"",
        }
    if kind == "streams":
        tasks = [{"subtopology_id": name, "partitions": n} for name, n in owned.items()]
        return common | {"assignment": {"active_tasks": tasks}, "process_id": "p"}
    topics = [
        {"topic_id": _NONE, "topic_name": name, "partitions": numbers}
        for name, numbers in owned.items()
    ]
    return common | {
        "member_epoch": group.epoch,
        "subscribed_topic_names": list(owned),
        "assignment": {"topic_partitions": topics},
        "target_assignment": {"topic_partitions": topics},
    }
