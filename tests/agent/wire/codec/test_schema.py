"""Every version of every decoded message reads the bytes of kio's writers."""

import struct
import sys
from typing import Any
from uuid import UUID

import pytest
from kio.schema.index import api_key_map, schema_name_map

from agent.wire.codec import messages as m
from agent.wire.codec.apis import APIS, read_request, read_response
from agent.wire.codec.schema import request_layout, response_layout
from tests.agent.wire import frames as f

TOPIC = UUID(int=3)
TOPIC_ID = "A" * 21 + "w"
"""Its text, as Kafka prints it."""
JOIN = {
    "group_id": "g",
    "member_id": "a",
    "protocol_type": "consumer",
    "protocols": ({"name": "range", "metadata": b"\1"}, {"name": "x", "metadata": b""}),
    "reason": "because",
}
_SLOW = (pytest.mark.slow,)  # a version's schemas take 50 ms to load
IN_GROUP = {"group_id": "g", "member_id": "a", "generation_id": 4, "group_instance_id": "i"}


def versions(api_key: int) -> list[int]:
    return sorted(schema_name_map[api_key_map[api_key]])


def each(*api_keys: int) -> pytest.MarkDecorator:
    """All versions; `make unit` is content with the first and the last of them."""
    return pytest.mark.parametrize(
        ("api_key", "version"),
        [
            pytest.param(key, v, marks=() if v in {versions(key)[0], versions(key)[-1]} else _SLOW)
            for key in api_keys
            for v in versions(key)
        ],
    )


def ask(api_key: int, version: int, **values: Any) -> Any:
    return read_request(api_key, version, f.request(api_key, version, 1, "me", **values)[4:])


def tell(api_key: int, version: int, **values: Any) -> Any:
    return read_response(api_key, version, f.answer(api_key, version, 1, **values)[4:])


@pytest.mark.slow  # it loads all schemas there are
@each(*APIS)
def test_an_empty_message_is_read(api_key: int, version: int) -> None:
    client_id, _ = ask(api_key, version)
    tell(api_key, version)

    assert client_id == "me"


@each(f.JOIN_GROUP)
def test_join(api_key: int, version: int) -> None:
    joined = tell(
        api_key, version, error_code=27, generation_id=3, protocol_name="p", member_id="a"
    )

    assert ask(api_key, version, **JOIN)[1] == m.JoinRequest(
        group="g",
        member_id="a",
        instance_id=None,
        protocol_type="consumer",
        protocols=(("range", b"\1"), ("x", b"")),
        session_timeout_ms=0,
        rebalance_timeout_ms=0 if version >= 1 else None,
        reason="because" if version >= 8 else None,
    )
    assert joined == m.JoinResponse(error=27, generation=3, protocol="p", leader="", member_id="a")


@each(f.SYNC_GROUP, f.HEARTBEAT, f.OFFSET_COMMIT)
def test_in_group(api_key: int, version: int) -> None:
    message = ask(api_key, version, **IN_GROUP, generation_id_or_member_epoch=4)[1]

    first_with_instance = {f.SYNC_GROUP: 3, f.HEARTBEAT: 3, f.OFFSET_COMMIT: 7}[api_key]
    assert (message.group, message.generation, message.member_id) == ("g", 4, "a")
    assert message.instance_id == ("i" if version >= first_with_instance else None)


@each(f.SYNC_GROUP)
def test_sync_answer(api_key: int, version: int) -> None:
    assert tell(api_key, version, error_code=25, assignment=b"abc") == m.SyncResponse(
        error=25, assignment=b"abc"
    )


@each(f.OFFSET_COMMIT)
def test_commit_answer(api_key: int, version: int) -> None:
    parts = ({"partition_index": 0, "error_code": 0}, {"partition_index": 1, "error_code": 25})
    topics = ({"name": "t", "topic_id": TOPIC, "partitions": parts},)

    assert tell(api_key, version, topics=topics) == m.ErrorResponse(errors=frozenset({0, 25}))


@each(f.LEAVE_GROUP)
def test_leave(api_key: int, version: int) -> None:
    member = {"member_id": "a", "group_instance_id": "i", "reason": "bye"}
    message = ask(api_key, version, group_id="g", member_id="a", members=(member,))[1]

    assert message == m.LeaveRequest(
        group="g",
        members=(
            m.LeavingMember("a", "i" if version >= 3 else None, "bye" if version >= 5 else None),
        ),
    )


@each(f.FIND_COORDINATOR)
def test_find_coordinator(api_key: int, version: int) -> None:
    found = {"host": "h", "port": 9}
    rows = ({"key": "g", **found}, {"key": "x", "error_code": 15})
    answer = tell(api_key, version, **found, coordinators=rows)

    error = 15 if version >= 4 else 0
    assert answer == m.CoordinatorNodes(nodes=(m.HostPort("h", 9),), error=error)


@each(f.FIND_COORDINATOR)
def test_lookup(api_key: int, version: int) -> None:
    assert ask(api_key, version, key="g", coordinator_keys=("g",))[1] == m.CoordinatorLookup(
        group="g"
    )


@each(f.METADATA, f.DESCRIBE_CLUSTER)
def test_cluster(api_key: int, version: int) -> None:
    answer = tell(
        api_key, version, cluster_id="c", brokers=({"host": "h", "port": 1, "rack": "r"},)
    )

    knows = api_key == f.DESCRIBE_CLUSTER or version >= 2
    brokers = (m.HostPort("h", 1),)
    assert answer == m.ClusterMetadata(cluster_id="c" if knows else None, brokers=brokers)


@each(f.METADATA)
def test_topics_of_metadata(api_key: int, version: int) -> None:
    rows = ({"name": "t", "topic_id": TOPIC, "partitions": ({"replica_nodes": (1, 2)},)},)
    found = tell(api_key, version, cluster_id="c", brokers=(), topics=rows)

    assert [name for _, name in found.topics] == (["t"] if version >= 10 else [])


@pytest.mark.parametrize("number", [1, 3_000])
def test_metadata_with_bad_or_many_topics_is_read_up_to_the_cluster(number: int) -> None:
    rows = ({"name": "t", "topic_id": TOPIC, "partitions": ()},) * number
    frame = f.answer(f.METADATA, 12, 1, cluster_id="c", brokers=(), topics=rows)[4:]
    for size in (len(frame), len(frame) - 3 * number):  # 3 bytes a topic less: cut within topics
        found = read_response(f.METADATA, 12, frame[:size])
        whole = number == 1 and size == len(frame)
        assert found.cluster_id == "c"
        assert len(found.topics) == (1 if whole else 0)


@each(f.CONSUMER_HEARTBEAT)
def test_consumer_group_heartbeat(api_key: int, version: int) -> None:
    parts = ({"topic_id": TOPIC, "partitions": (0, 2)},)
    asked = ask(
        api_key,
        version,
        group_id="g",
        member_id="a",
        member_epoch=2,
        subscribed_topic_names=("t",),
        subscribed_topic_regex="r.*",
        topic_partitions=parts,
    )[1]
    got = tell(api_key, version, member_epoch=3, assignment={"topic_partitions": parts})

    partitions = frozenset({(TOPIC_ID, 0), (TOPIC_ID, 2)})
    assert asked.subscription == (
        {"t", "re:r.*"} if version and api_key == f.CONSUMER_HEARTBEAT else {"t"}
    )
    assert (asked.owned, got.target, got.epoch) == (partitions, partitions, 3)


def test_a_heartbeat_that_reports_nothing_differs_from_one_that_owns_nothing() -> None:
    def owned(value: Any) -> Any:
        return ask(f.CONSUMER_HEARTBEAT, 1, topic_partitions=value)[1].owned

    assert (owned(None), owned(())) == (None, frozenset())


@each(f.STREAMS_HEARTBEAT)
def test_streams_group_heartbeat(api_key: int, version: int) -> None:
    task = ({"subtopology_id": "1", "partitions": (5,)},)
    asked = ask(
        api_key,
        version,
        process_id="p",
        user_endpoint={"host": "h", "port": 65535},
        active_tasks=task,
    )[1]
    got = tell(
        api_key, version, standby_tasks=task, warmup_tasks=task, endpoint_information_epoch=7
    )

    assert (asked.process_id, asked.endpoint) == ("p", m.HostPort("h", 65535))
    assert asked.owned == {(("a", "1"), 5)}
    assert got.target == {(("s", "1"), 5), (("w", "1"), 5)}
    assert (got.warmups, got.endpoint_epoch) == (True, 7)


def test_software() -> None:
    message = ask(18, 3, client_software_name="kgo", client_software_version="1")[1]

    assert message == m.ClientSoftware(name="kgo", version="1")


def test_what_a_layout_was_made_of_is_let_go() -> None:
    layout = request_layout(f.JOIN_GROUP, 9, ("group_id", "reason"))

    assert layout is not None
    assert not [name for name in sys.modules if name.startswith("kio.schema.join_group.v9")]


EXPECTED = {
    f.METADATA: range(14),
    f.OFFSET_COMMIT: range(1, 11),  # 0 has no member
    f.FIND_COORDINATOR: range(7),
    f.JOIN_GROUP: range(10),
    f.HEARTBEAT: range(5),
    f.LEAVE_GROUP: range(6),
    f.SYNC_GROUP: range(6),
    f.API_VERSIONS: range(6),
    f.SASL_AUTHENTICATE: range(3),
    f.DESCRIBE_CLUSTER: range(3),
    f.CONSUMER_HEARTBEAT: range(2),
    f.SHARE_HEARTBEAT: range(2),
    f.STREAMS_HEARTBEAT: range(2),
}
"""What clients and brokers of Kafka 0.9 to 4.4 speak, whatever kio knows."""


def test_every_api_has_its_expected_versions() -> None:
    assert EXPECTED.keys() == APIS.keys()


@pytest.mark.slow
@pytest.mark.parametrize(("api_key", "version"), [(k, v) for k in EXPECTED for v in EXPECTED[k]])
def test_every_version_that_is_spoken_is_read(api_key: int, version: int) -> None:
    api = APIS[api_key]

    assert api.request is None or request_layout(api_key, version, api.request.wanted)
    assert api.response is None or response_layout(api_key, version, api.response.wanted)


class TestVersionsThatKioLacks:
    """Bytes by hand, after the JSON of Kafka's own messages."""

    HEAD = struct.Struct(">hhi")

    def asked(self, api_key: int, version: int, body: bytes) -> Any:
        return read_request(api_key, version, self.HEAD.pack(api_key, version, 1) + body)[1]

    def test_the_first_commits_of_members(self) -> None:
        body = b"\0\2me\0\1g\0\0\0\4\0\1a\0\0\0\1\0\1t\0\0\0\0"
        parts = b"\0\0\0\2\0\0\0\0\0\0\0\0\0\1\0\x16"
        answer = b"\0\0\0\1\0\0\0\1\0\1t" + parts

        asked = self.asked(f.OFFSET_COMMIT, 1, body)

        assert (asked.group, asked.generation, asked.member_id) == ("g", 4, "a")
        assert read_response(f.OFFSET_COMMIT, 1, answer) == m.ErrorResponse(
            errors=frozenset({0, 22})
        )

    def test_who_says_where_it_means_to_be(self) -> None:
        where = b"\4cid\0\0\0\7"  # KIP-1242
        body = b"\0\2me\0\5java\0064.4.0" + where + b"\0"

        software = self.asked(f.API_VERSIONS, 5, body)

        assert software == m.ClientSoftware(name="java", version="4.4.0")

    def test_share_groups_of_the_preview(self) -> None:
        body = b"\0\2me\0\2g\2a\0\0\0\0\0\2\2t\0"
        row = b"\2" + TOPIC.bytes + b"\2\0\0\0\3" + b"\0"
        head = b"\0\0\0\1\0\0\0\0\0\0\0\0\2a\0\0\0\5\0\0\0\0"
        answer = head + b"\1" + row + b"\0" + b"\0"

        asked = self.asked(f.SHARE_HEARTBEAT, 0, body)
        got = read_response(f.SHARE_HEARTBEAT, 0, answer)

        assert (asked.group, asked.subscription) == ("g", {"t"})
        assert (got.epoch, got.target) == (5, frozenset({(TOPIC_ID, 3)}))

    def test_streams_groups_with_a_longer_lag(self) -> None:
        """KIP-1331: the lag is a long behind the interval, and a bool stands before the epoch."""
        head = b"\0\0\0\1\0\0\0\0\0\0\0\0\2a\0\0\0\5"
        times = b"\0\0\0\1\0\0\0\2" + struct.pack(">q", -1)
        status = b"\2\5\2x\0"
        tasks = b"\2\0020\2\0\0\0\3\0" + b"\1" + b"\1"
        answer = head + times + status + tasks + b"\1" + b"\0\0\0\7" + b"\0" + b"\0"

        got = read_response(f.STREAMS_HEARTBEAT, 1, answer)

        assert (got.member_id, got.epoch, got.endpoint_epoch) == ("a", 5, 7)
        assert (got.target, got.warmups) == (frozenset({(("a", "0"), 3)}), False)
