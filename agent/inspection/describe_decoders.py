"""Decoders of the four describe APIs' responses into one shape."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from agent.errors import DecodeError
from agent.inspection.model import (
    Assignment,
    Description,
    Failure,
    GroupState,
    GroupType,
    MemberDescription,
    Node,
    parse_state,
)
from agent.wire.codec.connect_protocol import read_worker
from agent.wire.codec.consumer_protocol import read_assignment, read_subscription
from agent.wire.codec.messages import Partitions
from agent.wire.codec.schema import Fields

GroupDecoder = Callable[[Node, Fields], Description | Failure]

_NO_OPERATIONS = -(1 << 31)
_OPERATIONS = {
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
}
"""AclOperation's codes: they are the bits of authorized operations."""
_TEXT_MAX = 255
"""Characters of user data; longer text is shown by its hash."""
_MEMBER_PROTOCOLS = {0: "classic", 1: "consumer"}


class _Leader(NamedTuple):
    """The leader that members of Connect and of a schema registry name."""

    member_id: str | None
    url: str | None


_Content = tuple[dict[str, Any], _Leader | None]
"""Fields of a `MemberDescription` in a member's own words, and the leader that it names."""
_NOTHING: _Content = ({}, None)
_ContentReader = Callable[[bytes, bytes], _Content]
"""Reads metadata and assignment."""


def read_classic(node: Node, fields: Fields) -> Description | Failure:
    """Read DescribeGroups; below v6 a missing group is Dead, without an error."""
    state = _state(fields)
    if state is GroupState.DEAD:
        group = fields["group_id"]
        return Failure(group=group, code="GROUP_ID_NOT_FOUND", error=f"Group {group} not found.")
    protocol = fields["protocol_type"]
    # in other states a broker reports no metadata and no assignment
    read_content = _CONTENT_READERS.get(protocol) if state is GroupState.STABLE else None
    members = [_classic_member(each, read_content) for each in fields["members"] or ()]
    leader = next((each for _, each in members if each is not None), None)
    return Description(
        group=fields["group_id"],
        type=GroupType.CLASSIC,
        protocol=protocol,
        state=state,
        coordinator=node,
        assignor=fields["protocol_data"] or None,
        simple=not protocol,
        authorized_operations=_operations(fields),
        leader=None if leader is None else leader.member_id,
        leader_url=None if leader is None else leader.url,
        members=tuple(member for member, _ in members),
    )


def read_consumer(node: Node, fields: Fields) -> Description:
    """Read ConsumerGroupDescribe (KIP-848)."""
    return _describe_epochs(
        GroupType.CONSUMER, node, fields, (_consumer_member(m) for m in fields["members"] or ())
    )


def read_share(node: Node, fields: Fields) -> Description:
    """Read ShareGroupDescribe (KIP-932); a member shows its last assignment."""
    return _describe_epochs(
        GroupType.SHARE, node, fields, (_share_member(m) for m in fields["members"] or ())
    )


def read_streams(node: Node, fields: Fields) -> Description:
    """Read StreamsGroupDescribe (KIP-1071)."""
    topology = fields["topology"] or {}
    subtopologies = {
        each["subtopology_id"]: _source_topics(each) for each in topology.get("subtopologies") or ()
    }
    topics = {t for each in topology.get("subtopologies") or () for t in each["source_topics"]}
    members = (_streams_member(m, tuple(sorted(topics))) for m in fields["members"] or ())
    group = _describe_epochs(GroupType.STREAMS, node, fields, members, topology.get("epoch"))
    return replace(group, subtopologies=subtopologies)


def _source_topics(subtopology: Fields) -> tuple[str, ...]:
    repartition = [each["name"] for each in subtopology["repartition_source_topics"] or ()]
    return tuple(sorted([*(subtopology["source_topics"] or ()), *repartition]))


def _describe_epochs(
    group_type: GroupType,
    node: Node,
    fields: Fields,
    members: Iterable[MemberDescription],
    topology_epoch: int | None = None,
) -> Description:
    return Description(
        group=fields["group_id"],
        type=group_type,
        protocol=group_type.lower(),
        state=_state(fields),
        coordinator=node,
        assignor=fields.get("assignor_name") or None,
        simple=False,
        epoch=fields["group_epoch"],
        target_epoch=fields["assignment_epoch"],
        topology_epoch=topology_epoch,
        authorized_operations=_operations(fields),
        members=tuple(members),
    )


def _classic_member(
    fields: Fields, read_content: _ContentReader | None
) -> tuple[MemberDescription, _Leader | None]:
    """Return a member, and the leader that it names; an unknown format adds nothing."""
    content, leader = (
        _NOTHING
        if read_content is None
        else read_content(fields["member_metadata"], fields["member_assignment"])
    )
    member = MemberDescription(
        member_id=fields["member_id"],
        instance_id=fields.get("group_instance_id"),
        client_id=fields["client_id"],
        host=fields["client_host"],
        **content,
    )
    return member, leader


def _read_consumer(metadata: bytes, assignment: bytes) -> _Content:
    return _read_subscription(metadata) | _read_assignment(assignment), None


def _read_worker(metadata: bytes, assignment: bytes) -> _Content:
    """Read the report of a Connect worker."""
    try:
        worker = read_worker(metadata, assignment)
    except DecodeError:
        return _NOTHING
    if not worker.url:  # a worker always has one
        return _NOTHING
    content = {"url": worker.url, "connectors": worker.connectors, "owned": worker.tasks}
    return content, _Leader(worker.leader, worker.leader_url) if worker.leader else None


def _read_registry(metadata: bytes, assignment: bytes) -> _Content:
    """Read the metadata and assignment of a schema registry: JSON, also Karapace's."""
    content = {"url": _registry_url(_read_json(metadata))}
    assigned = _read_json(assignment)
    leader = assigned.get("master") or assigned.get("leader")
    if not isinstance(leader, str):
        return content, None
    identity = assigned.get("master_identity") or assigned.get("leader_identity")
    return content, _Leader(leader, _registry_url(identity if isinstance(identity, dict) else {}))


def _read_json(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _registry_url(identity: dict[str, Any]) -> str | None:
    host, port = identity.get("host"), identity.get("port")
    return f"{identity.get('scheme') or 'http'}://{host}:{port}" if host and port else None


def _read_subscription(metadata: bytes) -> dict[str, Any]:
    """Return the fields of a consumer's subscription; empty for other formats."""
    try:
        subscription = read_subscription(metadata)
    except DecodeError:
        return {}
    return {
        "subscription": tuple(sorted(subscription.topics)),
        "rack": subscription.rack,
        "claimed": _by_topic(subscription.owned),
        "claimed_generation": subscription.generation,
        "user_data": _spell_data(subscription.user_data),
    }


def _read_assignment(data: bytes) -> dict[str, Any]:
    """Return the fields of a consumer's assignment by the leader; empty for other formats."""
    try:
        assignment = read_assignment(data)
    except DecodeError:
        return {}
    return {
        "owned": _by_topic(assignment.partitions),
        "assignment_user_data": _spell_data(assignment.user_data),
    }


def _spell_data(data: bytes) -> str | None:
    """Return user data as text if it is printable, else its size and hash; None: there is none."""
    if not data:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and text and len(text) <= _TEXT_MAX:
        return text
    return f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:16]}"


def _consumer_member(fields: Fields) -> MemberDescription:
    return MemberDescription(
        member_id=fields["member_id"],
        instance_id=fields["instance_id"],
        client_id=fields["client_id"],
        host=fields["client_host"],
        rack=fields["rack_id"],
        epoch=fields["member_epoch"],
        protocol=_MEMBER_PROTOCOLS.get(fields.get("member_type", -1)),
        subscription=tuple(sorted(fields["subscribed_topic_names"] or ())),
        subscription_regex=fields["subscribed_topic_regex"] or None,
        owned=_partitions(fields["assignment"]),
        target=_partitions(fields["target_assignment"]),
    )


def _share_member(fields: Fields) -> MemberDescription:
    return MemberDescription(
        member_id=fields["member_id"],
        instance_id=None,
        client_id=fields["client_id"],
        host=fields["client_host"],
        rack=fields["rack_id"],
        epoch=fields["member_epoch"],
        subscription=tuple(sorted(fields["subscribed_topic_names"] or ())),
        owned=_partitions(fields["assignment"]),
    )


def _streams_member(fields: Fields, topics: tuple[str, ...]) -> MemberDescription:
    endpoint = fields["user_endpoint"]
    return MemberDescription(
        member_id=fields["member_id"],
        instance_id=fields["instance_id"],
        client_id=fields["client_id"],
        host=fields["client_host"],
        rack=fields["rack_id"],
        epoch=fields["member_epoch"],
        protocol="classic" if fields["is_classic"] else "streams",
        subscription=topics,
        owned=_tasks(fields["assignment"]),
        target=_tasks(fields["target_assignment"]),
        process_id=fields["process_id"],
        endpoint=endpoint and f"{endpoint['host']}:{endpoint['port']}",
        topology_epoch=fields["topology_epoch"],
        client_tags={each["key"]: each["value"] for each in fields["client_tags"] or ()},
    )


def _state(fields: Fields) -> GroupState:
    return parse_state(fields["group_state"]) or GroupState.UNKNOWN


def _operations(fields: Fields) -> tuple[str, ...] | None:
    bits = fields.get("authorized_operations", _NO_OPERATIONS)
    if bits == _NO_OPERATIONS:
        return None
    return tuple(name for bit, name in _OPERATIONS.items() if bits >> bit & 1)


def _partitions(assignment: Fields) -> Assignment:
    return {
        each["topic_name"]: tuple(sorted(each["partitions"] or ()))
        for each in assignment["topic_partitions"] or ()
    }


def _tasks(assignment: Fields) -> dict[str, Assignment]:
    return {
        kind: {
            each["subtopology_id"]: tuple(sorted(each["partitions"] or ()))
            for each in assignment[f"{kind}_tasks"] or ()
        }
        for kind in ("active", "standby", "warmup")
    }


def _by_topic(partitions: Partitions) -> Assignment:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return {topic: tuple(numbers) for topic, numbers in topics.items()}


_CONTENT_READERS: dict[str, _ContentReader] = {
    "consumer": _read_consumer,
    "connect": _read_worker,
    "sr": _read_registry,
}
"""By a classic group's protocol type."""
